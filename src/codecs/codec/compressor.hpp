// SPDX-License-Identifier: Apache-2.0
// Compressor: float32 values to payload bytes and back.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/random.hpp"
#include "core/rounded_rows.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

/// Numbers on the wire; never reused for another codec.
enum class CodecId : std::uint16_t {
#define EQT_COMPRESSOR(number, id, row) id = number,
#include "codec/compressors.def"
#undef EQT_COMPRESSOR
};

struct Properties {
  bool lossless = false;        // decode(encode(v)) == v, bit for bit
  bool unbiased = false;        // E[decode(encode(v))] == v
  bool random = false;          // reads EncodeContext::key
  bool same_draw = false;       // of the key it reads run seed and slice alone: not the step
  bool sparse = false;          // sends a few values and leaves the others out
  bool has_entries = false;     // sent_entries() (sparse/entries.hpp) reads its payloads
  bool needs_feedback = false;  // needs error feedback to converge
  bool votes = false;           // finish_mean() is not the identity; cannot be quantised twice
  bool shared_scale =
      false;  // wants EncodeContext::shared_scale, the maximum over ranks of local_scale()
  bool forgets_sent = false;     // uses DGC's memory, which drops values once they are sent
  bool scales_up = false;        // each encoding multiplies values by count / k
  bool averages_itself = false;  // needs its own collective
  bool coded_floats = false;     // has coding `lossless`
  float largest = std::numeric_limits<float>::max();  // magnitude; encode() refuses larger values
  // Runs of this many values are encoded independently, so that cutting a slice at a multiple of it
  // changes no decoded value [values]. 0: a slice cannot be cut.
  std::size_t granule = 1;
  // True if cutting changes no byte, either: the payload of a slice is the payloads of its parts,
  // one after the other, each encoded with its own first_index. max_payload_bytes() is additive,
  // too. Besides first_index, encode() then reads only the key of EncodeContext.
  bool concatenates = false;

  /// Returns true if payloads are the values as float32, so that `dense`, which sends these without
  /// encoding them, sends no more bytes.
  bool is_float32() const noexcept { return lossless && !coded_floats; }
};

/// The parameters of encode() besides the values. Collectives compute shared_scale before.
struct EncodeContext {
  RandomKey key;                        // (seed, step, rank, slice) of these values
  std::uint64_t first_index = 0;        // of values[0] in its slice; starts the random counter
  std::optional<float> shared_scale;    // TernGrad: S = max over ranks of local_scale()
  std::optional<float> own_scale = {};  // local_scale() of these values, if it is known already
  std::optional<double> density;  // sparse codecs: fraction kept in this step, not the option's
  std::size_t rows = 0;  // the values are a matrix of this many rows, row-major; 0: a vector
  // Other ranks encode the same values with other strata, and the mean of all is taken: codecs with
  // the option rounding `correlated` round against them. Null: there are none.
  const Strata* strata = nullptr;
  // int8-channels: the same values, rounded already, which are sent as they are.
  std::optional<RoundedRows> rounded = {};
};

class AdaptiveLevelCodec;
class IntegerCodec;
class LevelRounding;
class MixedGrades;

/// Has no state but adapted levels, is thread-safe and knows no ranks. One serves every slice.
class Compressor {
 public:
  virtual ~Compressor() = default;

  virtual CodecId id() const noexcept = 0;
  /// Increased by every change of the payload's bytes; see FORMAT.md.
  virtual std::uint8_t format_version() const noexcept = 0;
  virtual Properties properties() const noexcept = 0;

  /// Upper bound of encode()'s result for `count` values, whatever they are [bytes].
  virtual std::size_t max_payload_bytes(std::size_t count) const = 0;

  /// Writes the payload of `values`. An empty span gives an empty payload.
  /// @pre payload.size() >= max_payload_bytes(values.size())
  /// @return bytes written
  /// @throws Error{diverged} if a value is NaN or infinite; the message says which index.
  [[nodiscard]] virtual std::size_t encode(std::span<const float> values,
                                           const EncodeContext& context, Workspace& workspace,
                                           std::span<std::byte> payload) const = 0;

  /// Bytes that the first `count` values of a longer payload take, if they can be found without
  /// decoding; else 0. Also 0 if the payload is too short, which decode_add() reports. Does not
  /// read outside the payload, and checks nothing else.
  /// @pre properties().concatenates; count is a multiple of properties().granule
  virtual std::size_t prefix_bytes(std::span<const std::byte> payload, std::size_t count) const;

  /// sum[i] += scale * decoded[i]: one pass for decode, scale and reduce. `sum.size()` is the
  /// number of values that were encoded.
  /// @throws Error{wire} on any malformed payload, and never reads outside it. `sum` may then hold
  /// part of the message.
  virtual void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                          std::span<float> sum) const = 0;

  /// decode_add() of several payloads in order, with the same result. Some codecs do it in one pass
  /// over `sum`.
  virtual void decode_add_all(std::span<const std::span<const std::byte>> payloads, float scale,
                              Workspace& workspace, std::span<float> sum) const;

  /// Error feedback in one call: encodes p = gradient + residual and leaves residual = p - decoded.
  /// Some codecs do it in one pass over memory.
  /// @pre as encode(); residual.size() == gradient.size()
  /// @return bytes written
  [[nodiscard]] virtual std::size_t encode_with_feedback(std::span<const float> gradient,
                                                         const EncodeContext& context,
                                                         Workspace& workspace,
                                                         std::span<float> residual,
                                                         std::span<std::byte> payload) const;

  /// Turns the mean over ranks of decoded values into the update: signSGD's majority vote. The
  /// identity for all others.
  virtual void finish_mean(std::span<float> mean) const;

  /// Upper bound of E|decoded - v|^2 / |v|^2 over all vectors v of `count` values, from the codec's
  /// own paper or docs/compressors.md; for casts over values in the format's normal range. Empty if
  /// no bound is known.
  virtual std::optional<double> variance_bound(std::size_t count) const;

  /// This rank's proposal for the shared scale; 0 for codecs without a shared scale.
  virtual float local_scale(std::span<const float> values) const;

  /// Returns the same quantisation relative to scales that all ranks share
  /// (integer/integer_codec.hpp); null for codecs whose codes cannot be added as integers.
  virtual std::unique_ptr<IntegerCodec> integer_codec() const;

  /// Its levels (levels/level_codec.hpp); null for codecs without levels.
  virtual const LevelRounding* level_rounding() const noexcept;
  /// The codec whose levels may be replaced between steps; null for all others.
  virtual AdaptiveLevelCodec* adaptive_levels() noexcept;

  /// The codec whose members may be assigned to slices between steps; null for all others.
  virtual MixedGrades* mixed_grades() noexcept;
  /// Checks what depends on the slice whose values a received payload has.
  /// @throws Error{wire} if this slice is encoded otherwise
  virtual void require_payload_of(std::uint32_t slice, std::span<const std::byte> payload) const;
};

/// Name in configs and tables: "e-elastiquant"; "unknown" for a number that no compressor has.
std::string_view codec_name(CodecId id) noexcept;

}  // namespace eqt::codec
