// SPDX-License-Identifier: Apache-2.0
// A mean over ranks as rounds of work and messages, for a forecast of its seconds.

#pragma once

#include <vector>

#include "collective/cost.hpp"
#include "forecast/cluster.hpp"

namespace eqt::collective {

/// Seconds a value of one core.
struct CodecCosts {
  double encode = 0, decode = 0;
};

/// Holds the costs that do not depend on the compressor.
struct CommunicationCosts {
  double add = 0;      // seconds a value
  double message = 0;  // seconds a message, on each side
  double byte = 0;     // seconds a byte, on each side
};

/// Guesses for a recent x86 core: TCP over loopback or a network card, and memory of one host.
inline constexpr CommunicationCosts kTcpCosts{.add = 2e-10, .message = 10e-6, .byte = 1e-9};
inline constexpr CommunicationCosts kMemoryCosts{.add = 2e-10, .message = 1e-6, .byte = 0.1e-9};

/// Holds what the rounds of one mean are made of.
struct MeanCosts {
  const CollectiveCost& cost;  // of this volume
  const Volume& volume;
  const CommunicationCosts& machine;
  double encode = 0, decode = 0;  // seconds of the whole mean; adding is part of decoding
};

struct MeanRounds {
  std::vector<forecast::Round> rounds;
  double seconds_after = 0;  // work after the last round
};

// Values for CollectiveRow::rounds.

/// Each rank sends 2(n - 1) messages to the next one.
MeanRounds ring_rounds(const MeanCosts& mean);
/// Each rank sends to partners at doubled distances. If n is no power of two, some ranks send
/// fewer, and all wait for the others.
MeanRounds doubling_rounds(const MeanCosts& mean);
/// Each host sums float32, the ranks of a lane send messages, and each host shares the mean. On one
/// host, or with one rank on each, the rounds are the usual ones.
MeanRounds hierarchical_rounds(const MeanCosts& mean);
/// Ranks that share memory have two rounds without messages, others the usual ones.
MeanRounds dense_rounds(const MeanCosts& mean);

/// The rounds of one mean. Bytes and seconds of all together are those of the cost formula, but for
///  * recursive doubling among other numbers of ranks than powers of two: a message in each round,
///    as the busiest ranks send
///  * `hierarchical` on several hosts: copies within a host come on top, at kMemoryCosts, and its
///    rounds there are without bytes
///  * `dense` in shared memory, whose rounds are without bytes.
/// @param cost of this volume
/// @param seconds_after the work after the last round
std::vector<forecast::Round> rounds_of(const CollectiveRow& row, const CollectiveCost& cost,
                                       const Volume& volume, const CodecCosts& codec,
                                       const CommunicationCosts& machine, double& seconds_after);

}  // namespace eqt::collective
