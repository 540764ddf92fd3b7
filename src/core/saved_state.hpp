// What survives from one step to the next, seen alike by what saves it, restores it and carries it
// over to another number of ranks.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace eqt {

/// What happens to a part of the state when n ranks saved it and m others go on. With m = n every
/// rank gets back what it had, whatever stands here.
enum class Across : std::uint8_t {
  same,  // all ranks have the same: any one's
  mean,  // the mean over the ranks that saved, weighted as their models are
  sum,   // rank j gets the sum over ranks j, j + m, ...; or its share of rank j mod n's
  own,   // rank j goes on with rank j mod n's
  fresh  // begins anew: what is there stays
};

/// A run of values of the model: where it lies, whatever it is stored in.
struct PlacedRun {
  std::uint32_t slice = 0;  // the tensor; one number for all where they count as one vector
  std::uint64_t first = 0;  // its first value there
  std::uint64_t count = 0;

  bool operator==(const PlacedRun&) const = default;
};

/// Shown the state of a run part by part, always in the same order on all ranks. Whatever it is
/// shown is saved, or overwritten by what was saved. What a part holds beside its memory it visits
/// as copies, and takes them back if restores().
///
/// Every part that carries something from step to step has one visit_state(StateVisitor&).
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // Names are unique within a scope; `values` has the length that a run of this config has.
  virtual void values(std::string_view name, std::span<float> values, Across across) = 0;
  virtual void doubles(std::string_view name, std::span<double> values, Across across) = 0;
  virtual void numbers(std::string_view name, std::span<std::uint64_t> values, Across across) = 0;

  /// What belongs to values of the model that this rank alone is responsible for: those of
  /// `places`, one after the other. It goes to the rank that is responsible for the place now.
  virtual void placed(std::string_view name, std::span<float> values,
                      const std::function<std::vector<PlacedRun>()>& places) = 0;

  /// Whether the visit overwrites what it is shown.
  virtual bool restores() const noexcept = 0;

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
