// SPDX-License-Identifier: Apache-2.0
// AdaptiveLevelCodec: a level codec whose table is replaced between steps. ALQ, AMQ and ElastiQuant
// with levels "adaptive".
//
// Source   F. Faghri et al., "Adaptive Gradient Quantization for Data-Parallel SGD", NeurIPS 2020,
//          arXiv:2010.12460
// Symbols  as in level_codec.hpp; ALQ: every l_j is free; AMQ: l_j = p^(n - j), one multiplier p
// Payload  fingerprint of the level table, uint32 (nothing for an empty segment); then the payload
//          of LevelCodec
// Size     4 bytes more than LevelCodec
// Error    E[out] = in, variance as LevelCodec's; the levels minimise its mean over the gradients
//          of the step that they were fitted to
// Differs Level 0 is kept, so zeros cost nothing and can be entropy coded: the paper's AMQ has
//          none, and its ALQ drops it after fitting. gradient_statistics.hpp says how the gradients
//          are summarised. AMQ's multiplier is found by golden section. The paper uses gradient
//          descent with a step of 0.7, which does not move for variances as small as those of
//          buckets of 8192 values

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "codec/levels/gradient_statistics.hpp"
#include "codec/levels/level_codec.hpp"
#include "codec/levels/levels.hpp"

namespace eqt::codec {

/// The rule says what is fitted: every level, or one multiplier.
enum class LevelRule { coordinates, multiplier };

/// FNV-1a of the little-endian bytes of the float32 levels l_1 ... l_n.
std::uint32_t level_fingerprint(const LevelTable& table) noexcept;

class AdaptiveLevelCodec final : public Compressor, public LevelRounding {
 public:
  AdaptiveLevelCodec(const LevelCodecOptions& options, LevelRule rule, const Levels& start);

  CodecId id() const noexcept override { return options_.id; }
  /// That of LevelCodec, with bit 7 set for the fingerprint.
  std::uint8_t format_version() const noexcept override;
  Properties properties() const noexcept override;
  std::size_t max_payload_bytes(std::size_t count) const override;
  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  /// @throws Error{wire} also if the payload was encoded with another table
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

  std::optional<double> variance_bound(std::size_t count) const override;

  /// Adds these values to the statistics, in the buckets in which they would be encoded.
  void observe(std::span<const float> values, GradientStatistics& statistics) const;
  /// The table with the smallest variance for these statistics, by this codec's rule; the current
  /// one if none is better. Does not change the codec.
  Levels fitted_levels(const GradientStatistics& statistics) const;

  const LevelRounding* level_rounding() const noexcept override { return this; }
  AdaptiveLevelCodec* adaptive_levels() noexcept override { return this; }
  void count_codes(std::span<const float> values, const EncodeContext& context,
                   Workspace& workspace, std::span<std::uint64_t, 256> counts) const override;
  Levels levels() const override;
  Norm norm() const noexcept override { return options_.norm; }
  std::uint32_t fingerprint() const;
  /// Replaces the table. Safe during encode() and decode_add() on other threads: each call uses one
  /// table. Every rank must do it between the same two messages.
  /// @pre as many levels as before
  /// @throws Error{usage} for levels that are not distinct in fp32
  void set_levels(const Levels& levels);

 private:
  /// One table, which never changes.
  struct Generation {
    Generation(const LevelCodecOptions& options, const Levels& table);
    Levels levels;
    LevelCodec codec;
    std::uint32_t fingerprint;
  };
  std::shared_ptr<const Generation> current() const;

  LevelCodecOptions options_;
  LevelRule rule_;
  mutable std::mutex mutex_;  // guards the pointer, not what it points to
  std::shared_ptr<const Generation> current_;
};

}  // namespace eqt::codec
