// SPDX-License-Identifier: Apache-2.0
// LevelCodec: stochastic rounding of each bucket's values to levels of its norm. One codec for
// QSGD, QSGD-V, ElastiQuant and E-ElastiQuant, which differ in norm, levels and coding.
//
// Source   D. Alistarh et al., NeurIPS 2017, arXiv:1610.02132, section 3.1 (uniform levels, L2);
//          its maximum-norm variant; A. Ramezani-Kebrya et al., JMLR 22, 2021 (exponential levels)
// Symbols  v one bucket of d values; l_0 = 0 < ... < l_n = 1 levels, n = 2^(b-1) - 1
// Payload  per bucket: norm float32 >= 0, then
//          norm = 0          nothing: all values are zero
//          norm = +infinity  d float32: values whose L2 norm is above the largest float
//          fixed coding      d codes of b bits, fixed_coding.hpp
//          other codings     a bit stream, entropy_coding.hpp
//          Every bucket starts at a whole byte; the last one has the remaining values.
// Size     fixed: 4 + ceil(d b / 8) bytes per bucket; at most 4 + 4 d (rare, see above)
// Error    E[out] = in; E|out - in|^2 <= w |v|^2, w = worst_case_variance(levels, d, norm) of
//          levels.hpp
// Damped   the norm that is sent is min(norm, sum |v_i| l_i / sum l_i^2) over the levels l_i that
//          were drawn: no other factor of at most 1 brings what was drawn nearer to v, and
//          1 / (1 + w) is one, so E|out - in|^2 <= w / (1 + w) |v|^2, whatever w is. Biased;
//          codes, lengths and decoder stay the same
// Differs from the papers: the norm is rounded up to fp32, so that r <= 1; random numbers have 32 -
//          b bits, and four values share a hash. Together with the rounding of f that biases a
//          value by at most n 2^-24 of its cell. Buckets of zeros use no random numbers

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/entropy/entropy_coding.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/levels/level_table.hpp"
#include "codec/levels/levels.hpp"
#include "codec/options.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

struct LevelCodecOptions {
  CodecId id;
  int bits;                 // 2 ... 8, sign included
  std::size_t bucket_size;  // [values]
  Norm norm;
  Coding coding;
  bool uniform;  // levels are j / n
  Rounding rounding = Rounding::independent;
  bool damped = false;  // norms are those of the least error, see CompressorOptions
};

/// The levels of a compressor.
class LevelRounding {
 public:
  /// The current l_0 ... l_n.
  virtual Levels levels() const = 0;
  /// The norm that scales a bucket.
  virtual Norm norm() const noexcept = 0;
  /// Adds to counts[code] how often encode() gives each code for these values, before any coding;
  /// buckets of infinite norm have no codes.
  /// @throws Error{diverged} as encode()
  virtual void count_codes(std::span<const float> values, const EncodeContext& context,
                           Workspace& workspace, std::span<std::uint64_t, 256> counts) const = 0;

 protected:
  ~LevelRounding() = default;
};

class LevelCodec final : public Compressor, public LevelRounding {
 public:
  /// @pre levels has 2^(bits-1) entries
  /// @throws Error{usage} for bits, bucket sizes or levels out of range
  LevelCodec(const LevelCodecOptions& options, const Levels& levels);

  CodecId id() const noexcept override { return options_.id; }
  std::uint8_t format_version() const noexcept override { return 2; }
  Properties properties() const noexcept override;
  std::size_t max_payload_bytes(std::size_t count) const override;
  std::optional<double> variance_bound(std::size_t count) const override;
  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  /// Known for fixed coding, because the norm of a bucket determines its length.
  std::size_t prefix_bytes(std::span<const std::byte> payload, std::size_t count) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;
  void decode_add_all(std::span<const std::span<const std::byte>> payloads, float scale,
                      Workspace& workspace, std::span<float> sum) const override;
  std::size_t encode_with_feedback(std::span<const float> gradient, const EncodeContext& context,
                                   Workspace& workspace, std::span<float> residual,
                                   std::span<std::byte> payload) const override;
  /// Only for uniform levels, maximum norm and fixed coding, not damped.
  std::unique_ptr<IntegerCodec> integer_codec() const override;

  const LevelRounding* level_rounding() const noexcept override { return this; }

  const LevelTable& table() const noexcept { return table_; }
  const LevelCodecOptions& options() const noexcept { return options_; }

  /// Rounded to float32, as encode() uses them.
  Levels levels() const override;
  Norm norm() const noexcept override { return options_.norm; }
  void count_codes(std::span<const float> values, const EncodeContext& context,
                   Workspace& workspace, std::span<std::uint64_t, 256> counts) const override;

 private:
  std::size_t max_bucket_bytes(std::size_t count) const;
  float bucket_norm(std::span<const float> bucket, std::uint64_t first_index) const;
  std::size_t easy_count(std::size_t count, std::uint64_t first_index) const;
  std::size_t encode_bucket(std::span<const float> bucket, const EncodeContext& context,
                            std::uint64_t first_index, Workspace& workspace,
                            std::span<std::byte> to) const;
  std::size_t encode_scaled(std::span<const float> bucket, float norm, const RandomStream& stream,
                            std::uint32_t first_word, Workspace& workspace,
                            std::span<std::byte> to) const;
  std::size_t encode_damped(std::span<const float> bucket, float norm, const RandomStream& stream,
                            std::uint32_t first_word, Workspace& workspace,
                            std::span<std::byte> to) const;
  double damping(std::span<const float> bucket, float norm, std::span<const LevelCode> codes) const;
  void encode_fixed(std::span<const float> bucket, float norm, const RandomStream& stream,
                    std::uint32_t first_word, std::span<std::byte> to) const;
  void decode_buckets(std::span<std::span<const std::byte>> rest, float scale, Workspace& workspace,
                      std::span<float> sum) const;

  LevelCodecOptions options_;
  LevelTable table_;
  std::optional<EntropyCoding> entropy_;  // set unless the coding is fixed
};

/// Counts how often a level codec uses each of its levels, by the codes of values, which are not
/// encoded to bytes.
class LevelUsage {
 public:
  /// Null if the compressor has no levels.
  /// @param compressor must outlive the result
  static std::unique_ptr<LevelUsage> of(const Compressor& compressor);

  /// See LevelRounding::count_codes().
  void add(std::span<const float> values, const EncodeContext& context);

  /// 2n + 1 counts, by code from -n to n.
  std::vector<std::uint64_t> counts() const;

 private:
  explicit LevelUsage(const LevelRounding& rounding)
      : rounding_(rounding), levels_(rounding.levels().size() - 1) {}

  const LevelRounding& rounding_;
  std::size_t levels_;  // n, without 0
  std::array<std::uint64_t, 256> counts_{};
  Workspace workspace_;
};

}  // namespace eqt::codec
