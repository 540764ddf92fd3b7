// SPDX-License-Identifier: Apache-2.0
// Every decoder that reads bytes from other ranks, with the settings that change how it reads them.
// Fuzzing, the malformed-message harness, the hashes of encoded bytes and the speed rows all run
// over this table. A compressor without its own lines is included with default options.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/compressor.hpp"

namespace eqt::test {

struct Decoder {
  std::string name;  // compressor and settings, fit for a file's name: "qsgd-4-elias"
  std::unique_ptr<codec::Compressor> compressor;
  bool finite = true;  // decoded values are finite; false if products of finite factors may
                       // overflow
};

/// @param bucket_size of the codecs that have buckets [values]
std::vector<Decoder> decoder_table(std::size_t bucket_size);

/// The entry called `name`, or nullptr.
const Decoder* find_decoder(std::span<const Decoder> table, const std::string& name);

/// Nearly normal values from integers (sums of twelve uniform ones), with the same bits on every
/// machine; deviation about `scale`, which must be a power of two.
std::vector<float> portable_values(std::size_t count, std::uint64_t seed, float scale = 1);

/// A matrix view for `count` values: the largest power of two up to 64 that divides it, else 0.
std::size_t rows_for(std::size_t count);

/// The payload of `values`, in memory of exactly its length.
std::vector<std::byte> payload_of(const codec::Compressor& compressor,
                                  std::span<const float> values, std::size_t rows = 0,
                                  StepId step = 0);

}  // namespace eqt::test
