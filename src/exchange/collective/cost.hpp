// SPDX-License-Identifier: Apache-2.0
// The cost formulas of docs/collectives.md as code: what a mean over ranks sends, encodes and waits
// for, and its rounds of work and messages, for a forecast of its seconds.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/catalogue.hpp"
#include "forecast/cluster.hpp"
#include "pipeline/plan.hpp"

namespace eqt::collective {

/// The data of one synchronization; the mean over ranks if they differ.
struct Volume {
  int ranks = 1;             // n
  int hosts = 1;             // H, of n/H ranks each; 0: of different numbers
  double values = 0;         // d
  double message_bytes = 0;  // m: d values as messages of the compressor, frames included;
                             // power-sgd: both factors and the values that are sent exactly
  double scales = 0;         // float32 that all ranks agree on before they encode (terngrad)
  // integer: scales shared per bucket of values, bits of a code and of a sum of n codes, and values
  // that are sent as float32. 0 bits: the compressor has no codes to add.
  double shared_scales = 0;
  int code_bits = 0, sum_bits = 0;
  double raw_values = 0;
  bool host_sums_scatter =
      false;                   // hierarchical: between hosts as scatter-reduce, not as allgather
  bool shares_memory = false;  // all ranks are on one host and `dense` sends nothing
};

/// The volume of this plan, with the `message_bytes` that are expected for Gaussian-like values.
/// Ranks of one host share memory.
Volume volume_of(const codec::Compressor& compressor, std::span<const pipeline::FusionBucket> plan,
                 int ranks, int hosts);

/// Returns the volume of each fusion bucket, one after the other. What is decided for the whole
/// plan is that of volume_of().
std::vector<Volume> bucket_volumes(const codec::Compressor& compressor,
                                   std::span<const pipeline::FusionBucket> plan, int ranks,
                                   int hosts);

/// The cost for a rank; the mean over ranks if they differ. Bytes are exact if the length of a
/// message depends only on its number of values. If it depends on the values (entropy coding), the
/// message of a mean may be longer or shorter than that of a gradient, which m is.
struct CollectiveCost {
  int rounds = 0;             // of messages, each of which depends on the one before
  double sent_bytes = 0;      // payload and frame headers, without those of TCP and MPI; in shared
                              // memory, of the messages that it replaces
  double encoded_values = 0;  // by the compressor
  double decoded_values = 0;
  double added_values = 0;  // float32 additions outside the compressor
  // The part of sent_bytes that goes to other hosts; unset: in proportion to the peers there.
  std::optional<double> between_hosts_bytes = {};
  int quantisations = 0;  // of each value, one after the other

  bool operator==(const CollectiveCost&) const = default;
};

/// The cost of a collective; empty for `auto`, or if it is not defined for this volume.
/// @pre volume.ranks >= 1
std::optional<CollectiveCost> collective_cost(const CollectiveRow& collective,
                                              const Volume& volume);

/// The cost of a mean in which chunks are sent to owners as messages, and the owners' sums to all
/// ranks.
/// @param added_values float32 additions of an owner
/// @pre volume.ranks > 1
CollectiveCost owners_cost(const Volume& volume, double added_values = 0);

/// The bytes of `cost` that a rank sends to other hosts.
/// @param hosts on which the ranks are; if they are of different numbers, the mean
double between_hosts_bytes(const CollectiveCost& cost, int ranks, int hosts);

/// One way to average, and its expected time.
struct Candidate {
  std::string name;
  double seconds = 0;
};
/// The first of `candidates`, given in the order of preference, that takes at most 1 + `tie` times
/// as long as the fastest.
/// @pre not empty
std::size_t choose_first_fast(std::span<const Candidate> candidates, double tie);

/// Payload bytes per value for Gaussian-like values. Measured once, so codecs need not know the
/// mean length of their messages.
double bytes_per_value(const codec::Compressor& compressor);

/// Bytes of a step's messages on one rank, estimated with Gaussian-like values.
double expected_message_bytes(const codec::Compressor& compressor,
                              std::span<const pipeline::FusionBucket> plan);

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
