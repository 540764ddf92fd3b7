// SPDX-License-Identifier: Apache-2.0
// AdaptiveLevelCodec: a level codec whose table is replaced between steps. ALQ, AMQ and ElastiQuant
// with levels "adaptive". GradientStatistics: a fixed number of sums of a step's gradients, added
// over buckets and ranks, and the mixture of normals that follows from them.
//
// Source   F. Faghri et al., "Adaptive Gradient Quantization for Data-Parallel SGD", NeurIPS 2020,
//          arXiv:2010.12460; section 3: a mixture of truncated normals, one per bucket, weighted by
//          the square of the bucket's norm
// Symbols  as in level_codec.hpp; ALQ: every l_j is free; AMQ: l_j = p^(n - j), one multiplier p
// Payload  fingerprint of the level table, uint32 (nothing for an empty segment); then the payload
//          of LevelCodec
// Size     4 bytes more than LevelCodec
// Error    E[out] = in, variance as LevelCodec's; the levels minimise its mean over the gradients
//          of the step that they were fitted to
// Differs  Level 0 is kept, so zeros cost nothing and can be entropy coded: the paper's AMQ has
//          none, and its ALQ drops it after fitting. AMQ's multiplier is found by golden section.
//          The paper uses gradient descent with a step of 0.7, which does not move for variances as
//          small as those of buckets of 8192 values. The paper fits one normal to the values of a
//          bucket. Under the L2 norm their mean square is always 1/d, so that model does not
//          distinguish heavy tails from light ones, and levels fitted to it may be worse than none.
//          Here magnitudes are sorted into bins of a quarter octave, and each bin has a normal
//          around its mean: the same kind of mixture, with one component per size of values instead
//          of per bucket. All buckets of all ranks are used, not only those of largest norm

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "codec/levels/level_codec.hpp"
#include "codec/levels/levels.hpp"
#include "codec/levels/truncated_normal.hpp"
#include "codec/options.hpp"
#include "core/exact_sum.hpp"

namespace eqt::codec {

class GradientStatistics {
 public:
  static constexpr std::size_t kBins = 128;  // bin k: magnitudes in [2^(-(k+1)/4), 2^(-k/4))
  static constexpr std::size_t kSums = 2 * kBins + 1;  // how many sums() there are

  /// The distribution of normalised magnitudes, each weighted by the square of its bucket's norm.
  struct Model {
    NormalMixture mixture;
    /// Factor from the mixture's variance of one r to E|Q(g) - g|^2 / |g|^2 of everything added.
    double variance_scale = 0;
  };

  /// Adds the buckets of one encoded segment. Buckets of zeros, and of squares that are too large
  /// for a double, are ignored.
  void add(std::span<const float> values, std::size_t bucket_size, Norm norm);

  void clear() noexcept;
  /// The sums of all that add() was given; they do not depend on the order of the buckets. Adding
  /// the sums of all ranks gives the statistics of all ranks.
  std::span<double> sums() noexcept;

  /// Empty if all values were zero.
  std::optional<Model> model() const;

 private:
  void open_sums();
  double sum(std::size_t i) const noexcept;
  void add_bucket(std::span<const float> bucket, double norm);

  // Each bin has the weight of its values and their weighted sum here. The squared L2 norm of all
  // values comes last.
  std::array<double, kSums> sums_{};
  std::vector<ExactSum> exact_;  // added since the last sums(); may be empty
};

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
