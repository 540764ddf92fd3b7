// SPDX-License-Identifier: Apache-2.0
// Whole buckets to payload bytes, without and with error feedback. Compiled once per instruction
// set and chosen at run time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/level_table.hpp"
#include "codec/options.hpp"
#include "core/random.hpp"

namespace eqt::codec {

struct EncodedBuckets {
  std::size_t values = 0;
  std::size_t bytes = 0;
  std::size_t compensated = 0;  // of encode_buckets_with_feedback()
};

/// The payload of level_codec.hpp for whole buckets with fixed coding, up to the first bucket with
/// a value that is not finite, or with a norm that is neither 0 nor within kSmallNorm to kLargeNorm
/// (bucket_scale.hpp).
/// @pre table.bits is 2, 4 or 8; bucket_size is a multiple of block_values(table.bits) and divides
/// values.size(); payload has room for them
EncodedBuckets encode_buckets(std::span<const float> values, std::size_t bucket_size, Norm norm,
                              const LevelTable& table, const RandomStream& stream,
                              std::uint32_t first_word, std::span<std::byte> payload);

/// encode_buckets() of gradient + residual, which leaves in `residual` what is not sent. It stops
/// like encode_buckets(), and then has added the gradient to the residuals of up to two buckets
/// more: to the first EncodedBuckets::compensated residuals. `compensated` of them have it already.
/// @pre as encode_buckets(); residual.size() == gradient.size(); bucket_size divides compensated
EncodedBuckets encode_buckets_with_feedback(std::span<const float> gradient,
                                            std::span<float> residual, std::size_t compensated,
                                            std::size_t bucket_size, Norm norm,
                                            const LevelTable& table, const RandomStream& stream,
                                            std::uint32_t first_word, std::span<std::byte> payload);

}  // namespace eqt::codec
