// SPDX-License-Identifier: Apache-2.0
// What a rank's computing thread does: parts of a step, and waiting for means.

#include <algorithm>

#include "forecast/simulation.hpp"

namespace eqt::forecast {

void Simulation::begin_step(std::size_t g) {
  GroupState& state = states_[g];
  if (state.step == options_.steps) {
    ++finished_;
    return;
  }
  state.part = 0;
  const StepTime time = time_of(g, state.step + 1);
  state.factor = time.factor;
  if (starts_in_step(state.step) && !work_.after_update) begin_synchronization(g);
  if (time.stall_seconds > 0) {
    state.use.computing += time.stall_seconds;
    state.part = kStalled;
    cores_.start(time.stall_seconds, {}, 1, computing(g));
  } else {
    compute(g);
  }
}

StepTime Simulation::time_of(std::size_t g, StepId step) const {
  const RankGroup& group = groups_.all()[g];
  const BoardSpeed& speed = groups_.boards_of(g).speed;
  if (by_rank_) return step_time(speed, options_.seed, step, group.first_rank);
  if (group.slowest_of > 1)
    return slowest_step_time(speed, options_.seed, step, group.first_rank, group.slowest_of);
  if (g + 1 == states_.size() || groups_.all()[g + 1].boards != group.boards) return {};
  // The group after this is the slowest of these boards, and the others are not slower.
  return {.factor = std::min(typical_factor(speed), time_of(g + 1, step).factor)};
}

bool Simulation::starts_in_step(std::size_t step) const {
  return !work_.buckets.empty() && (step + 1) % static_cast<std::size_t>(work_.every) == 0;
}

void Simulation::compute(std::size_t g) {
  GroupState& state = states_[g];
  const Boards& boards = groups_.boards_of(g);
  const std::size_t parts = work_.buckets.size();
  double seconds = 0;
  if (state.part < parts) {
    const double from = state.part == 0 ? 0 : work_.buckets[state.part - 1].ready;
    seconds = (work_.buckets[state.part].ready - from) * boards.step_seconds * state.factor;
  } else if (state.part == parts) {
    const double from = parts == 0 ? 0 : work_.buckets.back().ready;
    seconds = (1 - from) * boards.step_seconds * state.factor;
  } else {
    seconds = boards.update_seconds;
  }
  state.use.computing += seconds;
  cores_.start(seconds, groups_.all()[g].computing, 1, computing(g));
}

void Simulation::computed(std::size_t g) {
  GroupState& state = states_[g];
  if (state.part == kStalled) {
    state.part = 0;
    compute(g);
    return;
  }
  const std::size_t part = state.part++;
  const std::size_t parts = work_.buckets.size();
  const bool in_backward = state.under_way && !work_.after_update;
  if (part < parts) {
    if (in_backward && work_.overlap) ready(g, part);
    compute(g);
  } else if (part == parts) {
    if (in_backward && !work_.overlap)
      for (std::size_t b = 0; b < parts; ++b) ready(g, b);
    if (in_backward) {
      wait(g);
    } else {
      compute(g);
    }
  } else {
    end_of_update(g);
  }
}

void Simulation::end_of_update(std::size_t g) {
  GroupState& state = states_[g];
  if (work_.after_update && starts_in_step(state.step) && !is_waiting_to_send(g)) {
    send_models(g);
  }
  const auto delay = static_cast<std::size_t>(work_.delay);
  if (state.under_way && work_.after_update && state.step == state.sent_at + delay) {
    wait(g);
  } else {
    end_step(g);
  }
}

void Simulation::send_models(std::size_t g) {
  begin_synchronization(g);
  states_[g].sent_at = states_[g].step;
  for (std::size_t b = 0; b < work_.buckets.size(); ++b) ready(g, b);
}

bool Simulation::is_waiting_to_send(std::size_t g) const {
  const GroupState& state = states_[g];
  return state.under_way && state.step > state.sent_at;
}

void Simulation::wait(std::size_t g) {
  states_[g].waits_since = now_;
  if (!states_[g].under_way || states_[g].done == work_.buckets.size()) end_wait(g);
}

void Simulation::end_wait(std::size_t g) {
  GroupState& state = states_[g];
  state.use.waiting += now_ - state.waits_since;
  state.waits_since = -1;
  state.under_way = false;
  if (!work_.after_update) {
    compute(g);  // the update
    return;
  }
  if (starts_in_step(state.step) && state.step > state.sent_at) {
    send_models(g);
    if (work_.delay == 0) return wait(g);
  }
  end_step(g);
}

void Simulation::end_step(std::size_t g) {
  states_[g].ends.push_back(now_);
  ++states_[g].step;
  begin_step(g);
}

}  // namespace eqt::forecast
