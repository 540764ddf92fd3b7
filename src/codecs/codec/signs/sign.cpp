// SPDX-License-Identifier: Apache-2.0
// signsgd and ef-signsgd: one bit per value, the sign.
//
// Source   signsgd: J. Bernstein et al., ICLR 2019, arXiv:1810.05291, algorithm 1 (majority vote;
//          its momentum, Signum, is collective/memory.hpp's); ef-signsgd: S. P. Karimireddy et al.,
//          ICML 2019, arXiv:1901.09847, algorithm 1 (the scaled sign)
// Symbols  n values x, sign(x) = -1 below zero, else +1
// Method   signsgd: out = sign(x), and the mean over ranks becomes its own sign, a tie +1;
//          ef-signsgd: out = (|x|_1 / n) sign(x)
// Payload  signsgd: n sign bits; ef-signsgd: |x|_1 / n float32, then n sign bits
// Size     ceil(n / 8) bytes, and 4 for ef-signsgd
// Error    signsgd: no bound, it keeps no magnitudes; ef-signsgd:
//          |out - in|^2 = (1 - delta) |in|^2, delta = |x|_1^2 / (n |x|_2^2) >= 1/n
// Differs  from the authors' code: sign(0) is +1 (theirs is 0 in ef-signsgd), because a bit has two
//          values; error feedback corrects that
//
// Votes are counted as a mean of +-1 in float32, whose rounding moves a tie away from 0 by at most
// n 2^-24 for n ranks, while a decision is at least 1/n away: between them lies kTie for n <= 2048.

#include <cmath>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/signs/sign_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr float kTie = 0x1p-12f;
class SignSgd final : public Compressor {
 public:
  CodecId id() const noexcept override { return CodecId::signsgd; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.votes = true, .granule = 8, .concatenates = true};  // whole bytes of signs
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return plane_bytes(count); }
  std::size_t prefix_bytes(std::span<const std::byte> payload, std::size_t count) const override {
    return prefix_of_fixed(payload, max_payload_bytes(count));
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& /*context*/,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    const std::size_t bytes = plane_bytes(values.size());
    require_room(payload, bytes, values.size());
    if (pack_signs(values, payload.data()) > kLargestFiniteBits) require_finite("signsgd", values);
    return bytes;
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    require_length("signsgd", payload, plane_bytes(sum.size()), sum.size());
    require_clear_end("signsgd", payload, sum.size());
    add_signs(payload, 0, -scale, scale, sum);
  }

  void finish_mean(std::span<float> mean) const override { take_majority(mean, kTie); }
};

class EfSignSgd final : public Compressor {
 public:
  CodecId id() const noexcept override { return CodecId::ef_signsgd; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override { return {.needs_feedback = true, .granule = 0}; }
  std::optional<double> variance_bound(std::size_t count) const override {
    return count == 0 ? 0.0 : 1 - 1 / static_cast<double>(count);
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return count == 0 ? 0 : sizeof(float) + plane_bytes(count);
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& /*context*/,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    const std::size_t bytes = max_payload_bytes(values.size());
    require_room(payload, bytes, values.size());
    if (values.empty()) return 0;
    std::byte* plane = payload.data() + sizeof(float);
    PartialSums magnitudes;
    for (std::size_t i = 0; i < values.size(); i += kSignBlock) {
      const auto block = values.subspan(i, std::min(kSignBlock, values.size() - i));
      if (pack_signs(block, plane + i / 8) > kLargestFiniteBits) require_finite(kName, values);
      add_magnitudes(block, magnitudes);
    }
    store(payload.data(),
          static_cast<float>(magnitudes.total() / static_cast<double>(values.size())));
    return bytes;
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    require_length(kName, payload, max_payload_bytes(sum.size()), sum.size());
    if (sum.empty()) return;
    const auto plane = payload.subspan(sizeof(float));
    require_clear_end(kName, plane, sum.size());
    const auto magnitude = load<float>(payload.data());
    if (!std::isfinite(magnitude) || std::signbit(magnitude)) {
      fail(Kind::wire,
           "compressor ef-signsgd: expected a finite mean magnitude of at least 0, found {}; check "
           "the network and memory",
           magnitude);
    }
    add_signs(plane, 0, -(scale * magnitude), scale * magnitude, sum);
  }

 private:
  static constexpr std::string_view kName = "ef-signsgd";
};

}  // namespace

const CompressorRow kSignSgd = {
    .name = "signsgd",
    .about = "the sign; ranks vote, with optimizer.momentum before it (Signum)",
    .id = CodecId::signsgd,
    .make = make_a<SignSgd>,
    .colour = "#87873c"};

const CompressorRow kEfSignSgd = {.name = "ef-signsgd",
                                  .about = "the sign times the mean magnitude",
                                  .id = CodecId::ef_signsgd,
                                  .make = make_a<EfSignSgd>,
                                  .title = "EF-SignSGD",
                                  .colour = "#b400d2"};

}  // namespace eqt::codec
