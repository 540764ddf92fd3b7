// SPDX-License-Identifier: Apache-2.0
// Entrywise ATOMO: samples values, large ones with a higher probability, and scales them to remove
// the bias.
//
// Source   H. Wang et al., NeurIPS 2018, arXiv:1806.04090, algorithm 1 with the standard basis
// Symbols  n values g; s = density * n values kept on average; p_i probability of keeping g_i
// Method   p_i = min(1, |g_i| / t) with sum p_i = s; out_i = g_i / p_i if kept, else 0: g_i itself
//          where p_i = 1, and sign(g_i) t elsewhere
// Payload  k exact and m drawn values, u32 each; t float32; k indices u32, k values float32; m
//          indices u32 with the value's sign in bit 31
// Size     12 + 8 k + 4 m bytes, E[k + m] = s
// Error    E[out] = g and E|out - g|^2 = sum g_i^2 (1/p_i - 1); |g|_1^2 / s - |g|_2^2 where no p_i
//          reaches 1. With s = |g|_1 / max|g| this is TernGrad
// Differs from the authors' code: the excess of p > 1 is redistributed, and an empty draw is sent
//          as it is, because drawing again would add bias

#include <cmath>

#include "codec/bytes.hpp"
#include "codec/finite.hpp"
#include "codec/low_rank/atom_sampling.hpp"
#include "codec/low_rank/atomo.hpp"
#include "codec/low_rank/scratch.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kHeadBytes = 12;
constexpr std::uint32_t kSignBit = 0x80000000u;

class Entrywise final : public Compressor {
 public:
  explicit Entrywise(const CompressorOptions& options) : density_(options.density) {
    EQT_CHECK(density_ > 0 && density_ <= 1, "atomo of density {}", density_);
  }

  CodecId id() const noexcept override { return CodecId::atomo; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.unbiased = true, .random = true, .granule = 0};
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return count == 0 ? 0 : kHeadBytes + 8 * count;
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  const double density_;
};

std::size_t Entrywise::encode(std::span<const float> values, const EncodeContext& context,
                              Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()) && values.size() < kSignBit,
            "a payload buffer of {} bytes for {} values", payload.size(), values.size());
  if (values.empty()) return 0;
  const double budget = context.density.value_or(density_) * static_cast<double>(values.size());
  const float threshold = keep_threshold(values, budget);
  if (std::isnan(threshold)) require_finite("atomo", values);
  auto kept = workspace.array(kKeptIndices, values.size());
  kept = kept.first(
      threshold > 0 ? draw_values(values, threshold, context.key, context.first_index, kept) : 0);

  const auto is_exact = [&](std::uint32_t i) { return std::abs(values[i]) >= threshold; };
  std::size_t exact = 0;
  for (const std::uint32_t i : kept) exact += is_exact(i) ? 1u : 0u;
  store(payload.data(), static_cast<std::uint32_t>(exact));
  store(payload.data() + 4, static_cast<std::uint32_t>(kept.size() - exact));
  store(payload.data() + 8, threshold);
  std::byte* index = payload.data() + kHeadBytes;
  std::byte* value = index + 4 * exact;
  std::byte* drawn = value + 4 * exact;
  for (const std::uint32_t i : kept) {
    if (is_exact(i)) {
      store(index, i);
      store(value, values[i]);
      index += 4;
      value += 4;
    } else {
      store(drawn, i | (std::signbit(values[i]) ? kSignBit : 0u));
      drawn += 4;
    }
  }
  return kHeadBytes + 8 * exact + 4 * (kept.size() - exact);
}

/// Reads ascending indices below `count`.
class Indices {
 public:
  explicit Indices(std::size_t count) : count_(count) {}

  std::size_t next(std::uint32_t index) {
    if (index < least_ || index >= count_) {
      fail(Kind::wire,
           "compressor atomo: expected an index of at least {} and below {}, found {}; check the "
           "network and memory",
           least_, count_, index);
    }
    least_ = std::uint64_t{index} + 1;
    return index;
  }

 private:
  const std::size_t count_;
  std::uint64_t least_ = 0;
};

void Entrywise::decode_add(std::span<const std::byte> payload, float scale,
                           Workspace& /*workspace*/, std::span<float> sum) const {
  if (sum.empty() && payload.empty()) return;
  const bool has_head = payload.size() >= kHeadBytes && !sum.empty();
  const std::uint64_t exact = has_head ? load<std::uint32_t>(payload.data()) : 0;
  const std::uint64_t drawn = has_head ? load<std::uint32_t>(payload.data() + 4) : 0;
  if (!has_head || payload.size() != kHeadBytes + 8 * exact + 4 * drawn) {
    fail(Kind::wire,
         "compressor atomo: expected {} exact and {} drawn values of {}, found {} bytes; the ranks "
         "run different configs or builds",
         exact, drawn, sum.size(), payload.size());
  }
  const auto threshold = load<float>(payload.data() + 8);
  if (!(std::isfinite(threshold) && !std::signbit(threshold))) {
    fail(Kind::wire,
         "compressor atomo: expected a finite scale of at least 0, found {}; check the network and "
         "memory",
         threshold);
  }
  const std::byte* index = payload.data() + kHeadBytes;
  const std::byte* value = index + 4 * exact;
  Indices of_exact(sum.size()), of_drawn(sum.size());
  for (std::uint64_t k = 0; k < exact; ++k, index += 4, value += 4) {
    const auto v = load<float>(value);
    if (!std::isfinite(v)) {
      fail(Kind::wire, "compressor atomo: expected finite values, found {}; check the network", v);
    }
    sum[of_exact.next(load<std::uint32_t>(index))] += scale * v;
  }
  const float step[2] = {scale * threshold, -(scale * threshold)};
  for (std::uint64_t k = 0; k < drawn; ++k, value += 4) {
    const auto word = load<std::uint32_t>(value);
    sum[of_drawn.next(word & ~kSignBit)] += step[word >> 31];
  }
}

}  // namespace

std::unique_ptr<Compressor> make_atomo_entrywise(const CompressorOptions& options) {
  return std::make_unique<Entrywise>(options);
}

}  // namespace eqt::codec
