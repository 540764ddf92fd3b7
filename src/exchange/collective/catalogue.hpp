// SPDX-License-Identifier: Apache-2.0
// Every collective by its name. Each has one row, in the file of its code.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codec/compressor.hpp"
#include "core/catalogue.hpp"
#include "pipeline/plan.hpp"

namespace eqt::collective {

class Collective;
class WorkerMean;
struct CollectiveParts;
struct CollectiveCost;
struct MeanCosts;
struct MeanRounds;
struct Volume;
struct WorkerParts;

/// Adding a collective: a file with its class and its row, and a line in collectives.def.
struct CollectiveRow {
  std::string_view name, about;
  /// Why it cannot average what this compressor encodes, to follow "which": "cuts tensors into
  /// segments, where whole ones are needed". Empty: it can. Null: it takes every compressor.
  std::string_view (*why_not)(const codec::Compressor& compressor) = nullptr;
  /// Returns what a mean costs (docs/collectives.md), or nothing where that is not defined.
  /// Null: there is no formula.
  /// @pre volume.ranks > 1
  std::optional<CollectiveCost> (*cost)(const Volume& volume) = nullptr;
  /// Returns true if `auto` considers it for ranks on so many hosts (0: of different numbers of
  /// ranks); null: always, if it has a cost.
  bool (*is_candidate)(int ranks, int hosts) = nullptr;
  /// Makes the collective. Does not communicate.
  /// @throws Error{usage} for a compressor whose messages it cannot average
  std::unique_ptr<Collective> (*make)(const CollectiveParts& parts) = nullptr;
  /// Makes what computes this mean, bit for bit, in one process that plays all ranks; null: not
  /// available.
  /// @throws Error{usage} for a compressor whose messages it cannot average
  std::unique_ptr<WorkerMean> (*make_for_workers)(const WorkerParts& parts) = nullptr;
  /// The rounds of a mean, for forecasts (cost.hpp). Null: in each of the cost's rounds every
  /// rank sends to all others.
  MeanRounds (*rounds)(const MeanCosts& mean) = nullptr;
  /// Measured means with it tell what messages cost a machine: its rounds are its own, not MPI's or
  /// those of another collective.
  bool calibrates = false;
  /// It sends as many bytes as `dense`, or more, where every grade is float32: dense_if_exact()
  /// may take its place.
  bool takes_exact_grades = false;
  /// It sends raw segments as the plan says, also in 8 bits, and what they lose is in the
  /// contribution or the residual.
  bool carries_int8_segments = false;
  /// Where all ranks are on one host, they average in memory that they share.
  bool shares_memory = false;
  std::size_t slots = pipeline::kMaxSlots;  // the most means at the same time
  std::size_t split_bytes = 0;              // as pipeline::PlanOptions::split_bytes

  /// The names that configs accept, in the order of the documentation.
  static const Catalogue<CollectiveRow>& all();
};

#define EQT_COLLECTIVE(row) extern const CollectiveRow row;
#include "collective/collectives.def"
#undef EQT_COLLECTIVE
/// The collective of the compressor powersgd, which `auto` chooses for it. Configs cannot name it.
extern const CollectiveRow kPowerSgd;

/// Why the collective cannot average what this compressor encodes: CollectiveRow::why_not, or that
/// the compressor needs a special collective. Empty: it can.
std::string_view why_not(const CollectiveRow& row, const codec::Compressor& compressor);

/// Values for CollectiveRow::why_not that several collectives share: a partial sum cannot be
/// encoded again; segments of a tensor cannot be encoded separately.
std::string_view why_no_partial_sums(const codec::Compressor& compressor);
std::string_view why_no_segments(const codec::Compressor& compressor);

/// The sentence of an error: what suits the compressor, what was found, why it does not suit.
std::string refusal(const CollectiveRow& row, const codec::Compressor& compressor,
                    std::string_view why);

/// @throws Error{usage} if why_not() gives a reason
void require_carries(const CollectiveRow& row, const codec::Compressor& compressor);

}  // namespace eqt::collective
