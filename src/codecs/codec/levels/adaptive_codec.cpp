// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/adaptive_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "codec/bytes.hpp"
#include "codec/levels/adaptive_levels.hpp"
#include "codec/levels/level_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

// Wide enough that neighbouring quarter octaves, 0.19 of their mean apart, overlap smoothly.
constexpr double kRelativeDeviation = 0.12;
// A bin with a smaller share of sum |r| is left out: its values do not matter.
constexpr double kMinShare = 1e-6;

// Quarter octaves below 1: 0 for [2^(-1/4), 1].
std::size_t quarter_octave(double r, std::size_t bins) noexcept {
  int exponent = 0;
  const double mantissa = std::frexp(r, &exponent);  // [0.5, 1)
  const int quarter = (mantissa <= 0.84089641525371454) + (mantissa <= 0.70710678118654752) +
                      (mantissa <= 0.59460355750136053);
  return static_cast<std::size_t>(
      std::clamp(quarter - 4 * exponent, 0, static_cast<int>(bins) - 1));
}

constexpr std::size_t kFingerprintBytes = sizeof(std::uint32_t);
constexpr std::uint8_t kFingerprintVersion = 0x80;

}  // namespace

void GradientStatistics::add(std::span<const float> values, std::size_t bucket_size, Norm norm) {
  while (!values.empty()) {
    const auto bucket = values.first(std::min(bucket_size, values.size()));
    values = values.subspan(bucket.size());
    const double squares = sum_of_squares(bucket);
    if (!(squares > 0) || !std::isfinite(squares)) continue;
    open_sums();
    exact_.back().add(squares);
    add_bucket(bucket,
               norm == Norm::l2
                   ? std::sqrt(squares)
                   : static_cast<double>(std::bit_cast<float>(largest_magnitude_bits(bucket))));
  }
}

// Continues from the rounded sums, if there are any.
void GradientStatistics::open_sums() {
  if (!exact_.empty()) return;
  exact_.resize(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) exact_[i].add(sums_[i]);
}

void GradientStatistics::add_bucket(std::span<const float> bucket, double norm) {
  std::array<double, kBins> count{}, magnitudes{};
  for (const float value : bucket) {
    const double magnitude = std::abs(static_cast<double>(value));
    if (magnitude == 0) continue;
    const std::size_t bin = quarter_octave(magnitude / norm, kBins);
    count[bin] += 1;
    magnitudes[bin] += magnitude;
  }
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    if (count[bin] == 0) continue;
    exact_[2 * bin].add(count[bin] * (norm * norm));
    exact_[2 * bin + 1].add(norm * magnitudes[bin]);
  }
}

void GradientStatistics::clear() noexcept {
  sums_.fill(0);
  exact_.clear();
}

std::span<double> GradientStatistics::sums() noexcept {
  for (std::size_t i = 0; i < exact_.size(); ++i) sums_[i] = exact_[i].value();
  exact_.clear();
  return sums_;
}

double GradientStatistics::sum(std::size_t i) const noexcept {
  return exact_.empty() ? sums_[i] : exact_[i].value();
}

std::optional<GradientStatistics::Model> GradientStatistics::model() const {
  double total = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) total += sum(2 * bin + 1);
  std::vector<NormalComponent> components;
  double weight = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double bin_weight = sum(2 * bin), magnitudes = sum(2 * bin + 1);
    if (!(bin_weight > 0) || magnitudes < kMinShare * total) continue;
    const double mean = magnitudes / bin_weight;
    components.push_back({bin_weight, mean, kRelativeDeviation * mean});
    weight += bin_weight;
  }
  if (components.empty()) return {};
  return Model{NormalMixture(std::move(components)), weight / sum(2 * kBins)};
}

std::uint32_t level_fingerprint(const LevelTable& table) noexcept {
  std::uint32_t hash = 2166136261u;
  for (std::size_t j = 1; j <= static_cast<std::size_t>(table.count); ++j) {
    const auto bits = std::bit_cast<std::uint32_t>(table.level[j]);
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (bits >> shift & 0xFFu)) * 16777619u;
    }
  }
  return hash;
}

AdaptiveLevelCodec::Generation::Generation(const LevelCodecOptions& options, const Levels& table)
    : levels(table), codec(options, table), fingerprint(level_fingerprint(codec.table())) {}

AdaptiveLevelCodec::AdaptiveLevelCodec(const LevelCodecOptions& options, LevelRule rule,
                                       const Levels& start)
    : options_(options),
      rule_(rule),
      current_(std::make_shared<const Generation>(options, start)) {}

std::shared_ptr<const AdaptiveLevelCodec::Generation> AdaptiveLevelCodec::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::uint8_t AdaptiveLevelCodec::format_version() const noexcept {
  return current()->codec.format_version() | kFingerprintVersion;
}

Properties AdaptiveLevelCodec::properties() const noexcept {
  Properties properties = current()->codec.properties();
  properties.concatenates = false;  // a payload has one fingerprint, however long it is
  return properties;
}

std::optional<double> AdaptiveLevelCodec::variance_bound(std::size_t count) const {
  return current()->codec.variance_bound(count);
}

std::size_t AdaptiveLevelCodec::max_payload_bytes(std::size_t count) const {
  return count == 0 ? 0 : kFingerprintBytes + current()->codec.max_payload_bytes(count);
}

std::size_t AdaptiveLevelCodec::encode(std::span<const float> values, const EncodeContext& context,
                                       Workspace& workspace, std::span<std::byte> payload) const {
  if (values.empty()) return 0;
  const auto generation = current();
  store(payload.data(), generation->fingerprint);
  return kFingerprintBytes +
         generation->codec.encode(values, context, workspace, payload.subspan(kFingerprintBytes));
}

void AdaptiveLevelCodec::decode_add(std::span<const std::byte> payload, float scale,
                                    Workspace& workspace, std::span<float> sum) const {
  const auto generation = current();
  if (!sum.empty()) {
    if (payload.size() < kFingerprintBytes) {
      fail(Kind::wire,
           "level payload: expected the {} bytes of a level table's fingerprint, found {}",
           kFingerprintBytes, payload.size());
    }
    const auto found = load<std::uint32_t>(payload.data());
    if (found != generation->fingerprint) {
      fail(Kind::wire,
           "level payload: expected level table {:08x}, found {:08x}; all ranks must adapt their "
           "levels after the same steps",
           generation->fingerprint, found);
    }
    payload = payload.subspan(kFingerprintBytes);
  }
  generation->codec.decode_add(payload, scale, workspace, sum);
}

void AdaptiveLevelCodec::observe(std::span<const float> values,
                                 GradientStatistics& statistics) const {
  statistics.add(values, options_.bucket_size, options_.norm);
}

Levels AdaptiveLevelCodec::fitted_levels(const GradientStatistics& statistics) const {
  const auto generation = current();
  const auto model = statistics.model();
  if (!model) return generation->levels;
  const NormalMixture& mixture = model->mixture;
  if (rule_ == LevelRule::coordinates) return adapted_levels(mixture, generation->levels);
  const int n = generation->codec.table().count;
  if (n == 1) return generation->levels;
  const double p = generation->levels[static_cast<std::size_t>(n) - 1];
  return exponential_levels(n, adapted_multiplier(mixture, n, p));
}

void AdaptiveLevelCodec::count_codes(std::span<const float> values, const EncodeContext& context,
                                     Workspace& workspace,
                                     std::span<std::uint64_t, 256> counts) const {
  current()->codec.count_codes(values, context, workspace, counts);
}

Levels AdaptiveLevelCodec::levels() const { return current()->levels; }

std::uint32_t AdaptiveLevelCodec::fingerprint() const { return current()->fingerprint; }

void AdaptiveLevelCodec::set_levels(const Levels& levels) {
  auto next = std::make_shared<const Generation>(options_, levels);
  const std::lock_guard lock(mutex_);
  current_ = std::move(next);
}

}  // namespace eqt::codec
