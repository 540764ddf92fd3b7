// SPDX-License-Identifier: Apache-2.0
#include "collective/cost.hpp"

#include <algorithm>
#include <bit>

#include "codec/frame.hpp"
#include "codec/integer/integer_codec.hpp"
#include "collective/collective.hpp"
#include "core/error.hpp"

namespace eqt::collective {
std::optional<CollectiveCost> collective_cost(const CollectiveRow& collective,
                                              const Volume& volume) {
  if (volume.ranks <= 1) return CollectiveCost{};
  if (collective.cost == nullptr) return {};
  return collective.cost(volume);
}

Volume volume_of(const codec::Compressor& compressor, std::span<const FusionBucket> plan, int ranks,
                 int hosts) {
  Volume volume{.ranks = ranks,
                .hosts = hosts,
                .message_bytes = expected_message_bytes(compressor, plan),
                .shares_memory = hosts == 1 && ranks > 1};
  const auto codes = compressor.integer_codec();
  if (codes != nullptr) {
    const auto largest = static_cast<unsigned>(codes->largest_code());
    volume.code_bits = static_cast<int>(std::bit_width(2 * largest));
    volume.sum_bits = static_cast<int>(std::bit_width(2 * largest * static_cast<unsigned>(ranks)));
  }
  for (const FusionBucket& bucket : plan) {
    if (compressor.properties().shared_scale)
      volume.scales += static_cast<double>(bucket.segments.size());
    for (const codec::Segment& segment : bucket.segments) {
      volume.values += static_cast<double>(segment.count);
      if (!segment.compressed) volume.raw_values += static_cast<double>(segment.count);
      if (codes == nullptr || !segment.compressed) continue;
      const std::size_t each = codes->bucket_size() > 0 ? codes->bucket_size() : segment.count;
      volume.shared_scales += static_cast<double>((segment.count + each - 1) / each);
    }
  }
  if (hosts > 0) {
    const auto lane = static_cast<std::size_t>(volume.values * hosts / ranks);
    volume.host_sums_scatter = scatter_pays(compressor, lane, static_cast<std::size_t>(hosts));
  }
  return volume;
}

std::vector<Volume> bucket_volumes(const codec::Compressor& compressor,
                                   std::span<const FusionBucket> plan, int ranks, int hosts) {
  const bool scatter = volume_of(compressor, plan, ranks, hosts).host_sums_scatter;
  std::vector<Volume> volumes;
  for (const FusionBucket& bucket : plan) {
    volumes.push_back(volume_of(compressor, std::span(&bucket, std::size_t{1}), ranks, hosts));
    volumes.back().host_sums_scatter = scatter;
  }
  return volumes;
}

double between_hosts_bytes(const CollectiveCost& cost, int ranks, int hosts) {
  if (cost.between_hosts_bytes) return *cost.between_hosts_bytes;
  if (hosts <= 1) return 0;
  const double ranks_per_host = static_cast<double>(ranks) / hosts;
  return cost.sent_bytes * (ranks - ranks_per_host) / (ranks - 1.0);
}

std::size_t choose_first_fast(std::span<const Candidate> candidates, double tie) {
  EQT_CHECK(!candidates.empty(), "a choice among nothing");
  const double best = std::ranges::min(candidates, {}, &Candidate::seconds).seconds;
  const auto found = std::ranges::find_if(
      candidates, [&](const Candidate& c) { return c.seconds <= (1 + tie) * best; });
  return static_cast<std::size_t>(found - candidates.begin());
}

double bytes_per_value(const codec::Compressor& compressor) {
  constexpr std::size_t kCount = 8192;
  const RandomStream stream({.run_seed = 1});
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto n = static_cast<std::uint32_t>(4 * i);
    // The sum of four uniform draws is Gaussian enough to estimate a length.
    values[i] = stream.uniform(n) + stream.uniform(n + 1) + stream.uniform(n + 2) +
                stream.uniform(n + 3) - 2.0f;
  }
  Workspace workspace;
  std::vector<std::byte> payload(compressor.max_payload_bytes(kCount));
  const std::size_t bytes = compressor.encode(values, {}, workspace, payload);
  return static_cast<double>(bytes) / static_cast<double>(kCount);
}

bool scatter_pays(const codec::Compressor& compressor, std::size_t values, std::size_t ranks) {
  if (ranks <= 2 || pipeline::needs_whole_slices(compressor)) return false;
  // The waiting time of the second round (0.5 ms), as bytes that a 1 Gb/s link carries meanwhile.
  constexpr double kRoundBytes = 64 * 1024;
  const double message = bytes_per_value(compressor) * static_cast<double>(values);
  const auto n = static_cast<double>(ranks);
  return message * (n - 1) * (1 - 2 / n) > kRoundBytes;
}

double expected_message_bytes(const codec::Compressor& compressor,
                              std::span<const FusionBucket> plan) {
  const double each = bytes_per_value(compressor);
  double bytes = 0;
  for (const FusionBucket& bucket : plan) {
    bytes += static_cast<double>(codec::kFrameHeaderBytes);
    for (const codec::Segment& segment : bucket.segments) {
      const auto count = static_cast<double>(segment.count);
      bytes += segment.compressed ? sizeof(std::uint32_t) + each * count : sizeof(float) * count;
    }
  }
  return bytes;
}

}  // namespace eqt::collective
