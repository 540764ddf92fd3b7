#include "collective/engine.hpp"

#include <algorithm>

namespace eqt::collective {

Engine::Engine(comm::Communicator& comm, Collective& collective, std::span<const FusionBucket> plan)
    : comm_(comm), collective_(collective), plan_(plan) {}

void Engine::run(const MeanContext& context, std::span<float> values, MeanHooks& hooks) {
  next_ = under_way_ = 0;
  waiting_.reset();
  try {
    while (next_ < plan_.size() || under_way_ > 0) turn(context, values, hooks);
  } catch (...) {
    // Before the buffers of what is under way go.
    comm_.transfers().abandon();
    for (Slot& slot : slots_) slot = {};
    throw;
  }
}

/// Finished messages first: their buckets may have another round to send.
void Engine::turn(const MeanContext& context, std::span<float> values, MeanHooks& hooks) {
  if (resume_ready(hooks)) return;
  if (start_next(context, values, hooks)) {
    comm_.transfers().progress();
    return;
  }
  if (under_way_ == 0) {
    hooks.wait_ready(plan_[next_]);
  } else {
    wait();
  }
}

bool Engine::resume_ready(MeanHooks& hooks) {
  const auto task = comm_.transfers().take_ready();
  if (!task) return false;
  end_wait(hooks);
  task.resume();
  collect(hooks);
  return true;
}

/// A bucket always takes the same slot, so that scratch memory is sized in the first step.
bool Engine::start_next(const MeanContext& context, std::span<float> values, MeanHooks& hooks) {
  if (next_ == plan_.size()) return false;
  const std::size_t place = next_ % std::min(collective_.slots(), slots_.size());
  Slot& slot = slots_[place];
  if (slot.bucket != nullptr || !hooks.is_ready(plan_[next_])) return false;
  end_wait(hooks);
  slot.bucket = &plan_[next_++];
  slot.context = context;
  slot.context.slot = place;
  slot.result = {};
  ++under_way_;
  hooks.before(*slot.bucket, slot.context);
  slot.task = collective_.mean(*slot.bucket, slot.context, values, slot.result);
  slot.task.start();
  collect(hooks);
  return true;
}

void Engine::collect(MeanHooks& hooks) {
  for (Slot& slot : slots_) {
    if (slot.bucket == nullptr || !slot.task.done()) continue;
    slot.task.result();
    hooks.after(*slot.bucket, slot.result);
    slot.task = {};
    slot.bucket = nullptr;
    --under_way_;
  }
}

void Engine::wait() {
  if (!waiting_) {
    waiting_.emplace();
    comm_.transfers().reset_patience();
  }
  comm_.transfers().progress_or_pause();
}

void Engine::end_wait(MeanHooks& hooks) {
  if (!waiting_) return;
  hooks.waited(waiting_->seconds());
  waiting_.reset();
}

void complete(Task task, comm::Communicator& comm) {
  task.start();
  while (!task.done()) {
    if (const auto next = comm.transfers().take_ready()) {
      next.resume();
    } else {
      comm.transfers().progress_or_pause();
    }
  }
  task.result();
}

MeanResult mean_of(Collective& collective, comm::Communicator& comm, const FusionBucket& bucket,
                   const MeanContext& context, std::span<float> values) {
  MeanResult result;
  complete(collective.mean(bucket, context, values, result), comm);
  return result;
}

}  // namespace eqt::collective
