// SPDX-License-Identifier: Apache-2.0
// The interface by which the trainer saves and restores its state.

#pragma once

#include <functional>
#include <optional>

#include "core/layout.hpp"
#include "core/saved_state.hpp"

namespace eqt::train {

/// Every call is collective, between two steps, with the same argument on all ranks.
class Checkpointer {
 public:
  using Visit = std::function<void(StateVisitor&)>;

  virtual ~Checkpointer() = default;

  /// Sets the function that visits the whole state of a rank. Call it first.
  virtual void attach(Visit visit) = 0;

  /// Starts saving the state after `done` steps, and returns when it is copied. Waits for the
  /// previous save. A failed save gives a note and does not affect older ones.
  virtual void save(StepId done) = 0;

  /// Saves the state after `done` steps (unless that was saved already) and waits until all ranks'
  /// files are on their disks.
  /// @throws Error{output} on all ranks if one could not
  virtual void save_and_wait(StepId done) = 0;

  /// True if it is time to keep the state in the hosts' memory. Rank 0 decides, so no collective.
  virtual bool wants_memory() const = 0;

  /// Starts keeping the state after `done` steps in the hosts' memory, as save() does on disks.
  virtual void save_in_memory(StepId done) = 0;

  /// True if this rank has written the state that save_in_memory() has copied, and all ranks do not
  /// know that of each other yet. No collective.
  virtual bool has_unconfirmed() const = 0;

  /// When has_unconfirmed() is true on all ranks: that state is complete, and the one before is
  /// removed.
  virtual void confirm_memory() = 0;

  /// The end of a run: waits for the last save.
  /// @throws Error{output} on all ranks if there were saves and not one of them is complete
  virtual void finish() = 0;

  /// Restores the newest complete state. @return its completed steps; empty if there is none, and
  /// then the state is unchanged
  /// @throws Error{data} if its files are damaged
  virtual std::optional<StepId> restore_newest() = 0;
};

}  // namespace eqt::train
