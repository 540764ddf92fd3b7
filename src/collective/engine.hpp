// The engine: means of many buckets under way at once, on one thread.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "core/task.hpp"

namespace eqt::collective {

/// What the engine's user does around each mean, on the engine's thread.
class MeanHooks {
 public:
  virtual ~MeanHooks() = default;
  /// Whether the bucket's values are there. Asked again and again, in the plan's order.
  virtual bool is_ready(const FusionBucket& bucket) = 0;
  /// Returns when is_ready() would say yes; called while nothing is under way.
  virtual void wait_ready(const FusionBucket& bucket) = 0;
  /// Just before the mean starts; may change the context.
  virtual void before(const FusionBucket& bucket, MeanContext& context) = 0;
  /// Right after it is done.
  virtual void after(const FusionBucket& bucket, const MeanResult& result) = 0;
  /// The thread had nothing to do but wait for messages for `seconds`, which end now.
  virtual void waited(double seconds) = 0;
};

/// Starts means in the plan's order and lets as many travel as the collective has slots: while one
/// bucket's messages are on their way, others are encoded and decoded. The values do not depend on
/// how they overlap.
class Engine {
 public:
  Engine(comm::Communicator& comm, Collective& collective, std::span<const FusionBucket> plan);

  /// The mean of every bucket. Collective.
  void run(const MeanContext& context, std::span<float> values, MeanHooks& hooks);

 private:
  struct Slot {
    const FusionBucket* bucket = nullptr;  // null: free
    MeanContext context;
    MeanResult result;
    Task task;
  };

  void turn(const MeanContext& context, std::span<float> values, MeanHooks& hooks);
  bool resume_ready(MeanHooks& hooks);
  bool start_next(const MeanContext& context, std::span<float> values, MeanHooks& hooks);
  void collect(MeanHooks& hooks);
  void wait();
  void end_wait(MeanHooks& hooks);

  comm::Communicator& comm_;
  Collective& collective_;
  const std::span<const FusionBucket> plan_;
  std::array<Slot, Collective::kMostSlots> slots_;
  std::size_t next_ = 0, under_way_ = 0;
  std::optional<Stopwatch> waiting_;
};

/// Runs one task to its end, with whatever it waits for. For tasks outside an engine.
void complete(Task task, comm::Communicator& comm);

/// One bucket's mean, waited for. Collective.
MeanResult mean_of(Collective& collective, comm::Communicator& comm, const FusionBucket& bucket,
                   const MeanContext& context, std::span<float> values);

}  // namespace eqt::collective
