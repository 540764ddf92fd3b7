// SPDX-License-Identifier: Apache-2.0
#include "collective/rounds.hpp"

#include "collective/catalogue.hpp"

namespace eqt::collective {

std::vector<forecast::Round> rounds_of(const CollectiveRow& row, const CollectiveCost& cost,
                                       int ranks, const CodecCosts& codec,
                                       const CommunicationCosts& machine, double& seconds_after) {
  const double n = ranks;
  const double encode = cost.encoded_values * codec.encode;
  const double decode = cost.decoded_values * codec.decode + cost.added_values * machine.add;
  const int rounds = cost.rounds;
  if (ranks == 1 || rounds == 0) return {};
  const bool ring = row.name == kRing.name || row.name == kMpiAllreduce.name;
  if (ring) {
    const double bytes = cost.sent_bytes / rounds;
    const double handling = 2 * (machine.message + bytes * machine.byte);
    seconds_after = 0;
    return {{.seconds_before = (encode + decode) / rounds + handling,
             .message_bytes = bytes,
             .to = forecast::Peers::distance,
             .times = rounds}};
  }
  if (row.name == kRecursiveDoubling.name) {
    const double bytes = cost.sent_bytes / rounds;
    const double handling = machine.message + bytes * machine.byte;
    std::vector<forecast::Round> result;
    for (int r = 0; r < rounds; ++r)
      result.push_back(
          {.seconds_before = encode / rounds + (r > 0 ? decode / rounds + handling : 0) + handling,
           .message_bytes = bytes,
           .to = forecast::Peers::distance,
           .distance = 1 << (r % 30)});
    seconds_after = decode / rounds + handling;
    return result;
  }
  // All others send to all, in two rounds with owners of parts in between, or in one.
  const double each =
      (cost.between_hosts_bytes ? *cost.between_hosts_bytes : cost.sent_bytes) / (rounds * (n - 1));
  const double handling = (n - 1) * (machine.message + each * machine.byte);
  const bool owners = rounds > 1;
  // scatter-reduce: d values are encoded, then the d / n of the mean; d (n - 1) / n are decoded
  // before that, d after it.
  const double first_encode = owners ? n / (n + 1) : 1,
               first_decode = owners ? (n - 1) / (2 * n - 1) : 0;
  std::vector<forecast::Round> result;
  for (int r = 0; r < rounds; ++r)
    result.push_back({.seconds_before = (r == 0 ? encode * first_encode : handling) + handling,
                      .message_bytes = each});
  if (owners) result[1].seconds_before += encode * (1 - first_encode) + decode * first_decode;
  seconds_after = decode * (1 - first_decode) + handling;
  return result;
}

}  // namespace eqt::collective
