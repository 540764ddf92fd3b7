// SPDX-License-Identifier: Apache-2.0
// Restores a run's state from a saved set, on the same or on another number of ranks.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/saved_set.hpp"
#include "checkpoint/saving_visitor.hpp"
#include "comm/communicator.hpp"

namespace eqt::checkpoint {

/// Holds what parts that no conversion restores had at the beginning, by their names.
using InitialParts = std::map<std::string, std::vector<std::byte>>;

/// Overwrites the values that it visits. Visits are collective; all ranks visit the same parts.
///
/// With the same number of ranks, each takes the values of its own file, bit for bit. Otherwise, or
/// if files are lost, ranks exchange sections by the rules of `Across`. n ranks saved, m continue:
/// - same: those of the lowest rank whose file exists; where each rank has a file in memory, and
///   all of them are equal in this, nothing is sent
/// - mean: sum_i w_i v_i / sum_i w_i in float64, in the order of ranks, w_i = "run/weight"
/// - sum: v_j + v_(j+m) + ... for m < n; for m > n an equal share of v_(j mod n), the last
///   rank the rest
/// - own: v_(j mod n), or that of the next rank whose file exists
/// - placed: each value goes to the rank that owns its place now; places without a value get 0
/// - fresh: what it is now, or its initial value where `initial` has one
///
/// @throws Error{data} if the set has no such part, or one of another length because the config
/// differs
class RestoringVisitor final : public ScopedVisitor {
 public:
  /// @param initial filled by the first conversion, of a run that has just begun, and read by
  /// later ones, of a run that goes back; null: a run does so once
  RestoringVisitor(comm::Communicator& comm, const SavedSet& set, InitialParts* initial = nullptr);

  void values(std::string_view name, std::span<float> values, Across across) override;
  void doubles(std::string_view name, std::span<double> values, Across across) override;
  void numbers(std::string_view name, std::span<std::uint64_t> values, Across across) override;
  void placed(std::string_view name, std::span<float> values,
              const std::function<std::vector<SliceRange>()>& places) override;
  bool restores() const noexcept override { return true; }
  bool converts() const noexcept override { return !as_it_was_; }

 private:
  template <typename T>
  void restore(const std::string& name, SectionKind kind, std::span<T> values, Across across);
  template <typename T>
  void begin_again(const std::string& name, std::span<T> values);
  template <typename T>
  void take_mean(const std::string& name, SectionKind kind, std::span<T> values);
  template <typename T>
  void take_sum(const std::string& name, SectionKind kind, std::span<T> values);
  template <typename T>
  void take_same(const std::string& name, SectionKind kind, std::span<T> values);
  template <typename T>
  void take_from(const std::string& name, SectionKind kind, std::span<T> values,
                 const std::function<Rank(Rank rank)>& whose);
  void gather_placed(const std::string& name, std::span<float> values,
                     std::span<const SliceRange> ranges);

  const Section& own_section(const std::string& name, SectionKind kind, std::size_t count) const;
  /// Calls use(old, bytes) for every old rank whose section this rank wants, in their order. Only
  /// ranks that want a section get it. wants(old, rank) is the same on all ranks.
  void hand_out(const std::string& name, SectionKind kind, std::size_t count,
                const std::function<bool(Rank old, Rank rank)>& wants,
                const std::function<void(Rank old, std::span<const std::byte> bytes)>& use);
  std::vector<std::byte> shared_section(const std::string& name, SectionKind kind, Rank old,
                                        std::optional<std::size_t> count);
  double weight_of(Rank old);
  Rank present(Rank old) const;

  comm::Communicator& comm_;
  const SavedSet& set_;
  InitialParts* const initial_;
  const bool as_it_was_;         // every rank has its own file
  std::vector<double> weights_;  // by old rank; filled when first needed
};

/// The text of a section on all ranks. Collective.
/// @throws Error{data} on all ranks if the set has no such text
std::string text_of(comm::Communicator& comm, const SavedSet& set, std::string_view name);
/// Returns the text of a section, or nothing if the set has no such part. Collective.
std::optional<std::string> find_text(comm::Communicator& comm, const SavedSet& set,
                                     std::string_view name);
/// The numbers of a section. @param count how many there must be
std::vector<std::uint64_t> numbers_of(comm::Communicator& comm, const SavedSet& set,
                                      std::string_view name, std::size_t count);
/// Returns the numbers of a section, or nothing if the set has no such part. Collective.
std::optional<std::vector<std::uint64_t>> find_numbers(comm::Communicator& comm,
                                                       const SavedSet& set, std::string_view name,
                                                       std::size_t count);

}  // namespace eqt::checkpoint
