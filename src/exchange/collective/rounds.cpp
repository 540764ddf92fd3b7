// SPDX-License-Identifier: Apache-2.0
#include "collective/rounds.hpp"

#include <utility>

#include "collective/catalogue.hpp"

namespace eqt::collective {
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
