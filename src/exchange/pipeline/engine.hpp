// SPDX-License-Identifier: Apache-2.0
// The engine: processes several buckets at the same time, on one thread.

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

/// Does the work of each bucket, which mostly is waiting for messages. All functions run on the
/// engine's thread.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns how many buckets may be processed at the same time; 1: one after the other, in the
  /// plan's order.
  virtual std::size_t slots() const noexcept = 0;
  /// True if the bucket's values are available. Called repeatedly, in the plan's order.
  virtual bool is_ready(const FusionBucket& bucket) = 0;
  /// Returns when is_ready() would return true; called while no task is running.
  virtual void wait_ready(const FusionBucket& bucket) = 0;
  /// The bucket's task. @param slot below slots(); no other running task has the same
  virtual Task start(const FusionBucket& bucket, std::size_t slot) = 0;
  /// Called right after the task has ended.
  virtual void done(const FusionBucket& bucket, std::size_t slot) = 0;
  /// In the last `seconds` the thread only waited for messages.
  virtual void waited(double seconds) = 0;
};

/// Work on the values of a flat buffer, in place. They are all ready from the start unless
/// is_ready() is overridden. Each bucket under way has a context of its own, a copy of prepare()'s
/// with its slot, and a result.
template <typename Context, typename Result>
class BufferWork : public Work {
 public:
  /// Sets what the next run of the engine works on.
  void prepare(const Context& context, std::span<float> values) {
    context_ = context;
    values_ = values;
  }

  bool is_ready(const FusionBucket&) override { return true; }
  void wait_ready(const FusionBucket&) override {}
  Task start(const FusionBucket& bucket, std::size_t slot) final {
    UnderWay& one = under_way_.at(slot);
    one.context = context_;
    one.context.slot = slot;
    one.result = {};
    before(bucket, one.context);
    return work_on(bucket, one.context, values_, one.result);
  }
  void done(const FusionBucket& bucket, std::size_t slot) override {
    after(bucket, result_of(slot));
  }
  void waited(double) override {}

 protected:
  /// The bucket's task; its arguments stay in place until it has ended.
  virtual Task work_on(const FusionBucket& bucket, const Context& context, std::span<float> values,
                       Result& result) = 0;
  /// Called just before a task starts; may change the context.
  virtual void before(const FusionBucket&, Context&) {}
  /// Called right after it has ended.
  virtual void after(const FusionBucket&, const Result&) {}
  const Result& result_of(std::size_t slot) const { return under_way_.at(slot).result; }

 private:
  struct UnderWay {
    Context context;
    Result result;
  };

  Context context_;
  std::span<float> values_;
  std::array<UnderWay, kMaxSlots> under_way_;
};

/// Starts buckets in the plan's order, as many at the same time as there are slots: while messages
/// of one bucket are sent, others are encoded and decoded. The values do not depend on how buckets
/// overlap.
class Engine {
 public:
  Engine(comm::Communicator& comm, std::span<const FusionBucket> plan);

  /// Processes every bucket. Collective among the ranks that exchange messages.
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
  std::array<Slot, kMaxSlots> slots_;
  std::size_t next_ = 0, under_way_ = 0;
  std::optional<Stopwatch> waiting_;
};

/// Runs one task to its end, and waits for its messages. For tasks outside an engine.
void complete(Task task, comm::Communicator& comm);

}  // namespace eqt::pipeline
