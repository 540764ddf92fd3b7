// SPDX-License-Identifier: Apache-2.0
// Random-k: k values at random places, which are the same on every rank.
//
// Source   S. Stich et al., NeurIPS 2018, arXiv:1809.07599 (rand-k)
// Symbols  d values, k = max(1, floor(density d)) of them sent
// Method   the places depend on run seed, step, slice and first index, not on the rank: the mean
//          over ranks has k nonzero values again, and no index is sent
// Payload  k u32; form of the values u8; key u64, from which the receiver draws the places; check
//          u32, the upper half of mix64(key ^ mix64(k 2^32 + d)); the k values in the order of
//          their indices (value_coding.hpp)
// Size     17 bytes and those of the values
// Error    unscaled E|in - out|^2 = (1 - k/d) |in|^2, biased: needs error feedback; scaled by d/k
//          E[out] = in and E|in - out|^2 = (d/k - 1) |in|^2; values of 16 bits are rounded by at
//          most 2^-11 of their norm; those of 1 to 8 bits to the nearest magnitude, which is
//          biased, so they are never scaled
// Differs  nothing

#include "codec/sparse/randomk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/sparse/entries.hpp"
#include "codec/sparse/scratch.hpp"
#include "codec/sparse/value_coding.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::codec {
namespace {

constexpr std::string_view kName = "randomk";
constexpr std::size_t kHeadBytes = 17;
constexpr std::size_t kBlock = 8192;  // values that are checked and read while in the cache

std::uint64_t places_key(const EncodeContext& context) {
  std::uint64_t key = mix64(context.key.run_seed);
  key = mix64(key ^ context.key.step);
  key = mix64(key ^ context.key.slice);
  return mix64(key ^ context.first_index);
}

/// Detects a damaged key, with which values would be added in wrong places.
std::uint32_t check_word(std::uint64_t key, std::size_t k, std::size_t count) {
  return static_cast<std::uint32_t>(mix64(key ^ mix64(std::uint64_t{k} << 32 | count)) >> 32);
}

struct ParsedPayload {
  std::size_t k = 0;
  std::uint64_t key = 0;
  ValueForm form;
  std::span<const std::byte> values;
};

ParsedPayload open_payload(std::span<const std::byte> payload, std::size_t count) {
  if (payload.size() < kHeadBytes) {
    fail(Kind::wire,
         "compressor {}: expected at least {} bytes for {} values, found {}; the ranks run "
         "different configs or builds",
         kName, kHeadBytes, count, payload.size());
  }
  ParsedPayload open;
  open.k = load<std::uint32_t>(payload.data());
  open.key = load<std::uint64_t>(&payload[5]);
  const auto check = load<std::uint32_t>(&payload[13]);
  if (open.k == 0 || open.k > count) {
    fail(Kind::wire,
         "compressor {}: expected 1 to {} values, found {}; the ranks run different configs or "
         "builds",
         kName, count, open.k);
  }
  if (check != check_word(open.key, open.k, count)) {
    fail(Kind::wire,
         "compressor {}: expected the check {:#010x}, found {:#010x}; check the network and memory",
         kName, check_word(open.key, open.k, count), check);
  }
  open.form = form_of(load<std::uint8_t>(&payload[4]));
  const std::size_t expected = kHeadBytes + value_bytes(open.k, open.form);
  if (payload.size() != expected) {
    fail(Kind::wire,
         "compressor {}: expected {} bytes for {} values, found {}; the ranks run different "
         "configs or builds",
         kName, expected, open.k, payload.size());
  }
  open.values = payload.subspan(kHeadBytes);
  check_values(open.values, open.k, open.form);
  return open;
}

class RandomK final : public Compressor {
 public:
  explicit RandomK(const CompressorOptions& options)
      : density_(options.density),
        value_bits_(checked_value_bits(options.value_bits, kName)),
        unbiased_(options.unbiased) {
    check_density(density_);
  }

  CodecId id() const noexcept override { return CodecId::randomk; }
  std::uint8_t format_version() const noexcept override { return 2; }
  Properties properties() const noexcept override {
    return {.unbiased = unbiased_ && value_bits_ == 32,
            .random = true,
            .sparse = true,
            .has_entries = true,
            .needs_feedback = !unbiased_,
            .scales_up = unbiased_,
            .granule = 0};
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return count == 0 ? 0 : kHeadBytes + max_value_bytes(count, value_bits_);
  }

  /// The expected error; exact for 32-bit values, and a bound of any error for 1 to 8 bits. 16 bits
  /// may add to what scaling adds: by the triangle inequality, of a value v that is sent, at most
  /// (d/k - 1) v + sqrt(rounding) d/k v.
  std::optional<double> variance_bound(std::size_t count) const override {
    if (count == 0) return 0.0;
    if (value_bits_ <= kMostFewBits) return few_bits_variance(count);
    const auto d = static_cast<double>(count);
    const double sent = std::clamp(std::floor(density_ * d), 1.0, d) / d;
    const double rounding = std::sqrt(rounding_variance(value_bits_));
    if (!unbiased_) return 1 - sent + sent * rounding * rounding;
    const double of_sent = (1 / sent - 1) + rounding / sent;
    return 1 - sent + sent * of_sent * of_sent;
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  static void check_density(double density) {
    if (!(density > 0 && density <= 1)) {
      fail(Kind::usage, "compressor {}: expected a density above 0 and up to 1, found {}; try 0.01",
           kName, density);
    }
  }
  void scale_up(std::size_t count, std::span<float> chosen) const;

  double density_;
  int value_bits_;
  bool unbiased_;
};

/// Collects the values at the chosen places, and refuses NaN and infinity anywhere.
void gather(std::span<const float> values, std::span<const std::uint64_t> places, float* to) {
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, values.size() - begin);
    if (first_non_finite(values.subspan(begin, n)) != n) require_finite(kName, values);
    for_each_chosen(places.subspan(begin / 64, (n + 63) / 64), begin,
                    [&](std::size_t index) { *to++ = values[index]; });
  }
}

void RandomK::scale_up(std::size_t count, std::span<float> chosen) const {
  const auto factor =
      static_cast<float>(static_cast<double>(count) / static_cast<double>(chosen.size()));
  for (float& value : chosen) value *= factor;
  if (first_non_finite(chosen) == chosen.size()) return;
  fail(Kind::diverged,
       "compressor {}: expected values below {} times the largest float, found larger ones; "
       "training has diverged, try compressor.unbiased=false or a lower optimizer.learning_rate",
       kName, 1 / factor);
}

std::size_t RandomK::encode(std::span<const float> values, const EncodeContext& context,
                            Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
            "a payload buffer of {} bytes for {} values", payload.size(), values.size());
  if (values.empty()) return 0;
  const double density = context.density.value_or(density_);
  check_density(density);
  const auto share = static_cast<std::size_t>(density * static_cast<double>(values.size()));
  const std::size_t k = std::clamp<std::size_t>(share, 1, values.size());
  const std::uint64_t key = places_key(context);
  const auto chosen = workspace.array(kSelectedValues, k);
  gather(values, choose(key, k, values.size(), workspace), chosen.data());
  if (unbiased_) scale_up(values.size(), chosen);

  const ValueCoding coding = {value_bits_};
  const ValueForm form = shortest_form(k, coding);
  store(payload.data(), static_cast<std::uint32_t>(k));
  store(&payload[4], form.byte());
  store(&payload[5], key);
  store(&payload[13], check_word(key, k, values.size()));
  write_values(chosen, coding, form, payload.data() + kHeadBytes);
  return kHeadBytes + value_bytes(k, form);
}

void RandomK::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                         std::span<float> sum) const {
  if (sum.empty() && payload.empty()) return;
  const ParsedPayload open = open_payload(payload, sum.size());
  const std::byte* from = as_float32(open.values, open.k, open.form, workspace);
  for_each_chosen(choose(open.key, open.k, sum.size(), workspace), 0, [&](std::size_t index) {
    sum[index] += scale * load<float>(from);
    from += sizeof(float);
  });
}

std::string why_not_scaled(const CompressorOptions& options) {
  if (!options.unbiased || options.value_bits > kMostFewBits) return {};
  return fmt::format(
      "expected compressor.value_bits 16 or 32 with compressor.unbiased, found {}: values of 1 to "
      "8 bits are rounded to the nearest magnitude, which is biased; leave compressor.unbiased out",
      options.value_bits);
}

}  // namespace

// R. W. Floyd's algorithm F2, in J. Bentley, Programming Pearls, CACM 30 (1987): for
// j = n - k ... n - 1, choose a random index up to j, or j itself if that one is taken.
std::span<const std::uint64_t> choose(std::uint64_t key, std::size_t k, std::size_t count,
                                      Workspace& workspace) {
  EQT_CHECK(k <= count && count <= UINT32_MAX, "{} of {} indices", k, count);
  const auto words = workspace.array(kChosenBits, (count + 63) / 64);
  std::fill(words.begin(), words.end(), std::uint64_t{0});
  const RandomStream stream({.run_seed = key});
  for (std::size_t j = count - k; j < count; ++j) {
    const std::uint64_t drawn = stream.bounded(static_cast<std::uint32_t>(j), j + 1);
    const bool taken = (words[drawn / 64] >> (drawn % 64) & 1) != 0;
    const std::uint64_t index = taken ? j : drawn;
    words[index / 64] |= std::uint64_t{1} << (index % 64);
  }
  return words;
}

Entries randomk_entries(std::span<const std::byte> payload, std::size_t count,
                        Workspace& workspace) {
  const ParsedPayload open = open_payload(payload, count);
  const auto indices = workspace.array(kSentIndices, open.k);
  const auto values = workspace.array(kSentValues, open.k);
  const std::byte* from = as_float32(open.values, open.k, open.form, workspace);
  std::memcpy(values.data(), from, values.size_bytes());
  std::size_t entry = 0;
  for_each_chosen(choose(open.key, open.k, count, workspace), 0,
                  [&](std::size_t index) { indices[entry++] = static_cast<std::uint32_t>(index); });
  return {{indices, values}, open.form, read_magnitudes(open.values, open.form)};
}

const CompressorRow kRandomK = {.name = "randomk",
                                .about = "values at random places that all ranks share",
                                .id = CodecId::randomk,
                                .make = make_a<RandomK>,
                                .reads = {Option::density, Option::value_bits, Option::unbiased},
                                .why_not = why_not_scaled,
                                .colour = "#3c96c3"};

}  // namespace eqt::codec
