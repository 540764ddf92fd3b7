// SPDX-License-Identifier: Apache-2.0
// Every collective by its name: one row each, which stands beside its code.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codec/compressor.hpp"
#include "core/catalogue.hpp"

namespace eqt::pipeline {
struct FusionBucket;
}
namespace eqt::collective {

class Collective;
class WorkerMean;
struct CollectiveParts;
struct CollectiveCost;
struct Volume;

/// Adding a collective: a file with its class and its row, and a line in collectives.def.
struct CollectiveRow {
  std::string_view name, about;
  /// Why it cannot average what this compressor encodes, to follow "which": "cuts tensors into
  /// segments, where whole ones are needed". Empty: it can. Null: it takes every compressor.
  std::string_view (*why_not)(const codec::Compressor& compressor) = nullptr;
  /// What a mean costs (COSTS.md); nothing where that is not defined. Null: there is no formula.
  /// @pre volume.ranks > 1
  std::optional<CollectiveCost> (*cost)(const Volume& volume) = nullptr;
  /// Whether `auto` considers it for ranks on so many hosts (0: of different numbers of ranks);
  /// null: always, if it has a cost.
  bool (*is_candidate)(int ranks, int hosts) = nullptr;
  /// Does not communicate.
  /// @throws Error{usage} for a compressor that it cannot carry
  std::unique_ptr<Collective> (*make)(const CollectiveParts& parts) = nullptr;
  /// One process that plays all ranks, bit for bit; null: it cannot.
  std::unique_ptr<WorkerMean> (*make_for_workers)(const codec::Compressor& compressor,
                                                  std::span<const pipeline::FusionBucket> plan,
                                                  int workers) = nullptr;
  std::size_t split_bytes = 0;  // as pipeline::PlanOptions::split_bytes

  /// The names that configs accept, in the order of the documentation.
  static const Catalogue<CollectiveRow>& all();
};

#define EQT_COLLECTIVE(row) extern const CollectiveRow row;
#include "collective/collectives.def"
#undef EQT_COLLECTIVE
/// Of the compressor powersgd alone, which `auto` takes for it; configs do not name it.
extern const CollectiveRow kPowerSgd;

/// Why the collective cannot carry this compressor, as CollectiveRow::why_not says it, and for
/// compressors whose mean needs a collective of its own. Empty: it can.
std::string_view why_not(const CollectiveRow& row, const codec::Compressor& compressor);

/// Reasons that several collectives have, as CollectiveRow::why_not says them: a partial sum cannot
/// be encoded once more; segments of a tensor cannot be encoded each by itself.
std::string_view why_no_partial_sums(const codec::Compressor& compressor);
std::string_view why_no_segments(const codec::Compressor& compressor);

/// The sentence of an error: what suits the compressor, what was found, why it does not suit.
std::string refusal(const CollectiveRow& row, const codec::Compressor& compressor,
                    std::string_view why);

/// @throws Error{usage} where why_not() has a reason
void require_carries(const CollectiveRow& row, const codec::Compressor& compressor);

}  // namespace eqt::collective
