// SPDX-License-Identifier: Apache-2.0
#include "collective/rounds.hpp"

#include "collective/catalogue.hpp"

namespace eqt::collective {
namespace {

using forecast::Peers;
using forecast::Round;

/// Seconds of the whole mean that do not depend on messages.
struct Work {
  double encode = 0;
  double decode = 0;  // and adding
};

/// 2(n - 1) messages to the next rank.
std::vector<Round> ring_rounds(const CollectiveCost& cost, const Work& work,
                               const CommunicationCosts& machine, double& seconds_after) {
  const double bytes = cost.sent_bytes / cost.rounds;
  const double handling = 2 * (machine.message + bytes * machine.byte);
  seconds_after = 0;
  return {{.seconds_before = (work.encode + work.decode) / cost.rounds + handling,
           .message_bytes = bytes,
           .to = Peers::distance,
           .times = cost.rounds}};
}

/// Messages to partners at doubled distances. If n is no power of two, some ranks send fewer, and
/// all wait for the others.
/// @param bytes of a message
std::vector<Round> doubling_rounds(const CollectiveCost& cost, double bytes, const Work& work,
                                   const CommunicationCosts& machine, double& seconds_after) {
  const int rounds = cost.rounds;
  const double handling = machine.message + bytes * machine.byte;
  std::vector<Round> result;
  for (int r = 0; r < rounds; ++r)
    result.push_back({.seconds_before = work.encode / rounds +
                                        (r > 0 ? work.decode / rounds + handling : 0) + handling,
                      .message_bytes = bytes,
                      .to = Peers::distance,
                      .distance = 1 << (r % 30)});
  seconds_after = work.decode / rounds + handling;
  return result;
}

/// `rounds` rounds in which each of n ranks sends to all others; in two or more with owners of
/// parts in between.
/// @param each bytes of a message on the link
/// @param handling seconds to send, or to receive, the messages of a round
std::vector<Round> rounds_to_all(int rounds, double n, double each, double handling,
                                 const Work& work, double& seconds_after) {
  const bool owners = rounds > 1;
  // scatter-reduce: d values are encoded, then the d / n of the mean; d (n - 1) / n are decoded
  // before that, d after it.
  const double first_encode = owners ? n / (n + 1) : 1,
               first_decode = owners ? (n - 1) / (2 * n - 1) : 0;
  std::vector<Round> result;
  for (int r = 0; r < rounds; ++r)
    result.push_back({.seconds_before = (r == 0 ? work.encode * first_encode : handling) + handling,
                      .message_bytes = each});
  if (owners)
    result[1].seconds_before += work.encode * (1 - first_encode) + work.decode * first_decode;
  seconds_after = work.decode * (1 - first_decode) + handling;
  return result;
}

/// Sums of float32 on each host, messages between the ranks of a lane, the mean on each host.
/// @pre several hosts of several ranks each
std::vector<Round> hierarchical_rounds(const CollectiveCost& cost, const Volume& volume,
                                       const Work& work, const CommunicationCosts& machine,
                                       double& seconds_after) {
  constexpr int kOnHost = 2;
  const double hosts = volume.hosts, lanes = volume.ranks / hosts;
  const double between = *cost.between_hosts_bytes;
  const int rounds = cost.rounds - kOnHost;
  const double each = between / (rounds * (hosts - 1));
  const double handling = (hosts - 1) * (machine.message + each * machine.byte);
  // To send, or to receive, what stays on the host, once.
  const double copying = (lanes - 1) * kMemoryCosts.message +
                         (cost.sent_bytes - between) / kOnHost * kMemoryCosts.byte;
  // A simulated rank sends to all ranks of other hosts: as many bytes in more messages.
  std::vector<Round> result = rounds_to_all(
      rounds, hosts, between / (rounds * (volume.ranks - lanes)), handling, work, seconds_after);
  result.front().seconds_before += copying;
  result.insert(result.begin(), Round{.seconds_before = copying});
  result.push_back({.seconds_before = seconds_after + copying});
  seconds_after = copying;
  return result;
}

}  // namespace

std::vector<Round> rounds_of(const CollectiveRow& row, const CollectiveCost& cost,
                             const Volume& volume, const CodecCosts& codec,
                             const CommunicationCosts& machine, double& seconds_after) {
  const double n = volume.ranks;
  const Work work = {
      .encode = cost.encoded_values * codec.encode,
      .decode = cost.decoded_values * codec.decode + cost.added_values * machine.add};
  if (volume.ranks == 1 || cost.rounds == 0) return {};
  if (row.name == kRing.name || row.name == kMpiAllreduce.name)
    return ring_rounds(cost, work, machine, seconds_after);
  if (row.name == kRecursiveDoubling.name)
    return doubling_rounds(cost, volume.message_bytes, work, machine, seconds_after);
  if (row.name == kHierarchical.name && volume.hosts > 1 && volume.hosts < volume.ranks)
    return hierarchical_rounds(cost, volume, work, machine, seconds_after);
  if (row.name == kDense.name && volume.shares_memory) {
    // Ranks wait for each other's values, and for their means.
    seconds_after = 0;
    return {{.seconds_before = 0}, {.seconds_before = work.decode}};
  }
  const double each = cost.sent_bytes / (cost.rounds * (n - 1));
  const double handling = (n - 1) * (machine.message + each * machine.byte);
  return rounds_to_all(cost.rounds, n, each, handling, work, seconds_after);
}

}  // namespace eqt::collective
