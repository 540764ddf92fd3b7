// SPDX-License-Identifier: Apache-2.0
// State that is kept from one step to the next. The same interface saves it, restores it, and
// converts it to another number of ranks.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace eqt {

/// The rule for a part of the state when n ranks saved it and m others continue. With m = n every
/// rank gets its own values back, by any rule.
enum class Across : std::uint8_t {
  same,  // the same on all ranks: any rank's
  mean,  // the mean over the ranks that saved, with the weights of their models
  sum,   // rank j gets the sum over ranks j, j + m, ...; or its share of rank (j mod n)'s
  own,   // rank j gets that of rank j mod n
  fresh  // not restored: the part keeps its initial value
};

/// A range of values of the model.
struct SliceRange {
  std::uint32_t slice = 0;  // the tensor; one number for all if they are compressed as one vector
  std::uint64_t first = 0;  // its first value there
  std::uint64_t count = 0;

  bool operator==(const SliceRange&) const = default;
};

/// Visits the state of a run part by part, always in the same order on all ranks. Visited values
/// are saved, or overwritten with saved values. State that is stored in another form is visited as
/// a copy; if restores(), the part then reads the copy.
///
/// Every object with state that lasts longer than a step has a visit_state(StateVisitor&).
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // Names are unique within a scope; `values` has the length that a run of this config has.
  virtual void values(std::string_view name, std::span<float> values, Across across) = 0;
  virtual void doubles(std::string_view name, std::span<double> values, Across across) = 0;
  virtual void numbers(std::string_view name, std::span<std::uint64_t> values, Across across) = 0;

  /// State for those values of the model that only this rank is responsible for: the values at
  /// `places`, in order. It is restored on the rank that is then responsible for the place.
  virtual void placed(std::string_view name, std::span<float> values,
                      const std::function<std::vector<SliceRange>()>& places) = 0;

  /// True if visits overwrite the values.
  virtual bool restores() const noexcept = 0;
  /// True if they do so by the rules of `Across`: another number of ranks saved the values, or
  /// files of some are lost.
  virtual bool converts() const noexcept { return false; }

  /// Between these two calls names belong to `scope`.
  virtual void enter(std::string_view scope) = 0;
  virtual void leave() = 0;

  void number(std::string_view name, std::uint64_t& value, Across across) {
    numbers(name, std::span(&value, 1), across);
  }
  void real(std::string_view name, double& value, Across across) {
    doubles(name, std::span(&value, 1), across);
  }
};

/// Visits one part in a scope of its own.
template <typename Part>
void visit_in(StateVisitor& visitor, std::string_view scope, Part& part) {
  visitor.enter(scope);
  part.visit_state(visitor);
  visitor.leave();
}

}  // namespace eqt
