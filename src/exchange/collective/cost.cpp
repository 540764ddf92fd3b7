// SPDX-License-Identifier: Apache-2.0
#include "collective/cost.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "codec/frame.hpp"
#include "codec/integer/integer_codec.hpp"
#include "collective/catalogue.hpp"
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
      bytes += segment.compressed ? sizeof(std::uint32_t) + each * count
                                  : static_cast<double>(codec::raw_segment_bytes(segment));
    }
  }
  return bytes;
}

namespace {

using forecast::Peers;
using forecast::Round;

/// `rounds` rounds in which each of n ranks sends to all others; in two or more with owners of
/// parts in between.
/// @param each bytes of a message on the link
/// @param handling seconds to send, or to receive, the messages of a round
MeanRounds rounds_to_all(int rounds, double n, double each, double handling,
                         const MeanCosts& mean) {
  const bool owners = rounds > 1;
  // scatter-reduce: d values are encoded, then the d / n of the mean; d (n - 1) / n are decoded
  // before that, d after it.
  const double first_encode = owners ? n / (n + 1) : 1,
               first_decode = owners ? (n - 1) / (2 * n - 1) : 0;
  MeanRounds result;
  for (int r = 0; r < rounds; ++r)
    result.rounds.push_back(
        {.seconds_before = (r == 0 ? mean.encode * first_encode : handling) + handling,
         .message_bytes = each});
  if (owners)
    result.rounds[1].seconds_before +=
        mean.encode * (1 - first_encode) + mean.decode * first_decode;
  result.seconds_after = mean.decode * (1 - first_decode) + handling;
  return result;
}

/// Returns rounds to all ranks, as many as the cost formula says.
MeanRounds usual_rounds(const MeanCosts& mean) {
  const double n = mean.volume.ranks;
  const double each = mean.cost.sent_bytes / (mean.cost.rounds * (n - 1));
  const double handling = (n - 1) * (mean.machine.message + each * mean.machine.byte);
  return rounds_to_all(mean.cost.rounds, n, each, handling, mean);
}

}  // namespace

MeanRounds ring_rounds(const MeanCosts& mean) {
  const double bytes = mean.cost.sent_bytes / mean.cost.rounds;
  const double handling = 2 * (mean.machine.message + bytes * mean.machine.byte);
  return {.rounds = {{.seconds_before = (mean.encode + mean.decode) / mean.cost.rounds + handling,
                      .message_bytes = bytes,
                      .to = Peers::distance,
                      .times = mean.cost.rounds}},
          .seconds_after = 0};
}

MeanRounds doubling_rounds(const MeanCosts& mean) {
  const int rounds = mean.cost.rounds;
  const double bytes = mean.volume.message_bytes;
  const double handling = mean.machine.message + bytes * mean.machine.byte;
  MeanRounds result;
  for (int r = 0; r < rounds; ++r)
    result.rounds.push_back(
        {.seconds_before =
             mean.encode / rounds + (r > 0 ? mean.decode / rounds + handling : 0) + handling,
         .message_bytes = bytes,
         .to = Peers::distance,
         .distance = 1 << (r % 30)});
  result.seconds_after = mean.decode / rounds + handling;
  return result;
}

MeanRounds hierarchical_rounds(const MeanCosts& mean) {
  const Volume& volume = mean.volume;
  if (volume.hosts <= 1 || volume.hosts >= volume.ranks) return usual_rounds(mean);
  constexpr int kOnHost = 2;
  const double hosts = volume.hosts, lanes = volume.ranks / hosts;
  const double between = *mean.cost.between_hosts_bytes;
  const int rounds = mean.cost.rounds - kOnHost;
  const double each = between / (rounds * (hosts - 1));
  const double handling = (hosts - 1) * (mean.machine.message + each * mean.machine.byte);
  // To send, or to receive, what stays on the host, once.
  const double copying = (lanes - 1) * kMemoryCosts.message +
                         (mean.cost.sent_bytes - between) / kOnHost * kMemoryCosts.byte;
  // A simulated rank sends to all ranks of other hosts: as many bytes in more messages.
  MeanRounds result =
      rounds_to_all(rounds, hosts, between / (rounds * (volume.ranks - lanes)), handling, mean);
  result.rounds.front().seconds_before += copying;
  result.rounds.insert(result.rounds.begin(), Round{.seconds_before = copying});
  result.rounds.push_back({.seconds_before = result.seconds_after + copying});
  result.seconds_after = copying;
  return result;
}

MeanRounds dense_rounds(const MeanCosts& mean) {
  if (!mean.volume.shares_memory) return usual_rounds(mean);
  // Ranks wait for each other's values, and for their means.
  return {.rounds = {{.seconds_before = 0}, {.seconds_before = mean.decode}}, .seconds_after = 0};
}

std::vector<Round> rounds_of(const CollectiveRow& row, const CollectiveCost& cost,
                             const Volume& volume, const CodecCosts& codec,
                             const CommunicationCosts& machine, double& seconds_after) {
  if (volume.ranks == 1 || cost.rounds == 0) return {};
  const MeanCosts mean = {
      .cost = cost,
      .volume = volume,
      .machine = machine,
      .encode = cost.encoded_values * codec.encode,
      .decode = cost.decoded_values * codec.decode + cost.added_values * machine.add};
  MeanRounds result = row.rounds != nullptr ? row.rounds(mean) : usual_rounds(mean);
  seconds_after = result.seconds_after;
  return std::move(result.rounds);
}

}  // namespace eqt::collective
