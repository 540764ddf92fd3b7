// SPDX-License-Identifier: Apache-2.0
#include "pipeline/engine.hpp"

#include <algorithm>

namespace eqt::pipeline {

Engine::Engine(comm::Communicator& comm, std::span<const FusionBucket> plan)
    : comm_(comm), plan_(plan) {}

void Engine::run(Work& work) {
  next_ = under_way_ = 0;
  waiting_.reset();
  try {
    while (next_ < plan_.size() || under_way_ > 0) turn(work);
  } catch (...) {
    // Before the buffers of unfinished exchanges are freed.
    comm_.transfers().abandon();
    for (Slot& slot : slots_) slot = {};
    throw;
  }
}

/// Finished messages first: their buckets may have another round to send.
void Engine::turn(Work& work) {
  if (resume_ready(work)) return;
  if (start_next(work)) {
    comm_.transfers().progress();
    return;
  }
  if (under_way_ == 0) {
    work.wait_ready(plan_[next_]);
  } else {
    wait();
  }
}

bool Engine::resume_ready(Work& work) {
  const auto task = comm_.transfers().take_ready();
  if (!task) return false;
  end_wait(work);
  task.resume();
  collect(work);
  return true;
}

/// A bucket always gets the same slot, so that the first step sizes all scratch memory.
bool Engine::start_next(Work& work) {
  if (next_ == plan_.size()) return false;
  const std::size_t place = next_ % std::min(work.slots(), slots_.size());
  Slot& slot = slots_[place];
  if (slot.bucket != nullptr || !work.is_ready(plan_[next_])) return false;
  end_wait(work);
  slot.bucket = &plan_[next_++];
  ++under_way_;
  slot.task = work.start(*slot.bucket, place);
  slot.task.start();
  collect(work);
  return true;
}

void Engine::collect(Work& work) {
  for (std::size_t place = 0; place < slots_.size(); ++place) {
    Slot& slot = slots_[place];
    if (slot.bucket == nullptr || !slot.task.done()) continue;
    slot.task.result();
    work.done(*slot.bucket, place);
    slot.task = {};
    slot.bucket = nullptr;
    --under_way_;
  }
}

void Engine::wait() {
  if (!waiting_) {
    waiting_.emplace();
    comm_.transfers().reset_backoff();
  }
  comm_.transfers().progress_or_pause();
}

void Engine::end_wait(Work& work) {
  if (!waiting_) return;
  work.waited(waiting_->seconds());
  waiting_.reset();
}

void complete(Task task, comm::Communicator& comm) {
  try {
    task.start();
    while (!task.done()) {
      if (const auto next = comm.transfers().take_ready()) {
        next.resume();
      } else {
        comm.transfers().progress_or_pause();
      }
    }
    task.result();
  } catch (...) {
    comm.transfers().abandon();  // before the task's frame is freed
    throw;
  }
}

}  // namespace eqt::pipeline
