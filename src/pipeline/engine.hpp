// The engine: work on many buckets under way at once, on one thread.

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

/// How many buckets may be under way at once, at most.
inline constexpr std::size_t kMostSlots = 8;

/// What is done with every bucket, mostly waiting for messages. Everything happens on the engine's
/// thread.
class Work {
 public:
  virtual ~Work() = default;
  /// How many buckets may be under way at once; 1: they follow one another in the plan's order.
  virtual std::size_t slots() const noexcept = 0;
  /// Whether the bucket's values are there. Asked again and again, in the plan's order.
  virtual bool is_ready(const FusionBucket& bucket) = 0;
  /// Returns when is_ready() would say yes; called while nothing is under way.
  virtual void wait_ready(const FusionBucket& bucket) = 0;
  /// The bucket's task. @param slot below slots(); no other bucket has it until this one is done
  virtual Task start(const FusionBucket& bucket, std::size_t slot) = 0;
  /// Right after the task ended.
  virtual void done(const FusionBucket& bucket, std::size_t slot) = 0;
  /// The thread had nothing to do but wait for messages for `seconds`, which end now.
  virtual void waited(double seconds) = 0;
};

/// Starts buckets in the plan's order and lets as many travel as the work has slots: while one
/// bucket's messages are on their way, others are encoded and decoded. The values do not depend on
/// how they overlap.
class Engine {
 public:
  Engine(comm::Communicator& comm, std::span<const FusionBucket> plan);

  /// Works on every bucket. Collective among those whom the work sends to.
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

/// Runs one task to its end, with whatever it waits for. For tasks outside an engine.
void complete(Task task, comm::Communicator& comm);

}  // namespace eqt::pipeline
