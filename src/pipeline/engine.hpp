// SPDX-License-Identifier: Apache-2.0
// The engine: runs the work on many buckets at once, on one thread.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "core/task.hpp"
#include "pipeline/plan.hpp"

namespace eqt::pipeline {

/// How many buckets may be under way at once.
inline constexpr std::size_t kMostSlots = 8;

/// What is done with every bucket, mostly waiting for messages. All of it runs on the engine's
/// thread.
class Work {
 public:
  virtual ~Work() = default;
  /// How many buckets may be under way at once; 1: one after the other, in the plan's order.
  virtual std::size_t slots() const noexcept = 0;
  /// Whether the bucket's values are there. Called repeatedly, in the plan's order.
  virtual bool is_ready(const FusionBucket& bucket) = 0;
  /// Returns when is_ready() would return true; called while nothing is under way.
  virtual void wait_ready(const FusionBucket& bucket) = 0;
  /// The bucket's task. @param slot below slots(); no other bucket has it until this one is done
  virtual Task start(const FusionBucket& bucket, std::size_t slot) = 0;
  /// Called right after the task has ended.
  virtual void done(const FusionBucket& bucket, std::size_t slot) = 0;
  /// The thread could only wait for messages in the last `seconds`.
  virtual void waited(double seconds) = 0;
};

/// Starts buckets in the plan's order, as many at once as the work has slots: while the messages of
/// one bucket travel, others are encoded and decoded. The values do not depend on how the buckets
/// overlap.
class Engine {
 public:
  Engine(comm::Communicator& comm, std::span<const FusionBucket> plan);

  /// Works on every bucket. Collective among the ranks that the work sends to.
  void run(Work& work);

 private:
  struct Slot {
    const FusionBucket* bucket = nullptr;  // null: free
    Task task;
  };

  void turn(Work& work);
  bool resume_ready(Work& work);
  bool start_next(Work& work);
  void collect(Work& work);
  void wait();
  void end_wait(Work& work);

  comm::Communicator& comm_;
  const std::span<const FusionBucket> plan_;
  std::array<Slot, kMostSlots> slots_;
  std::size_t next_ = 0, under_way_ = 0;
  std::optional<Stopwatch> waiting_;
};

/// Runs one task to its end, including everything that it waits for. For tasks outside an engine.
void complete(Task task, comm::Communicator& comm);

}  // namespace eqt::pipeline
