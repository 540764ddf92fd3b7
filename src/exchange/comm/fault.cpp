// SPDX-License-Identifier: Apache-2.0
#include "comm/fault.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace eqt::comm {
namespace {

using Act = Fault::Act;
using Phase = Fault::Phase;

/// The phases in which an act is possible.
enum class Place { anywhere, models, buckets, messages, checkpoints };

struct NamedAct {
  std::string_view name;
  Act act;
  Place place;
};
constexpr std::array<NamedAct, 11> kActs = {
    {{"throw", Act::raise, Place::anywhere},
     {"stall", Act::stall, Place::anywhere},
     {"stop", Act::stop, Place::anywhere},
     {"kill", Act::kill, Place::anywhere},
     {"slow", Act::slow, Place::anywhere},
     {"nan", Act::nan, Place::models},
     {"slip", Act::slip, Place::buckets},
     {"flip", Act::flip, Place::messages},
     {"truncate-message", Act::truncate, Place::messages},
     {"drop", Act::drop, Place::messages},
     {"truncate-checkpoint", Act::truncate_checkpoint, Place::checkpoints}}};

struct NamedPhase {
  std::string_view name;
  Phase phase;
};
constexpr std::array<NamedPhase, 6> kPhases = {{{"launch", Phase::launch},
                                                {"start", Phase::start},
                                                {"step", Phase::step},
                                                {"evaluation", Phase::evaluation},
                                                {"checkpoint", Phase::checkpoint},
                                                {"end", Phase::end}}};

/// Writes a file for tests that measure the time from the fault to the end: the file's time is that
/// of the fault.
void leave_mark() {
  const char* const path = std::getenv("EQT_FAULT_MARK");
  if (path != nullptr) std::ofstream{path} << "injected\n";
}

/// Acts that need only the step.
void act_alone(const Fault& fault, StepId step) {
  leave_mark();
  switch (fault.act) {
    case Act::raise:
      fail(Kind::bug, "step {}: fault asked for by EQT_FAULT", step);
    case Act::stall:
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    case Act::stop:
      (void)std::raise(SIGSTOP);
      return;
    case Act::kill:
      (void)std::raise(SIGKILL);
      return;
    case Act::slow:
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return;
    case Act::flip:
      fault.messages->flip_next();
      return;
    case Act::truncate:
      fault.messages->truncate_next();
      return;
    case Act::drop:
      fault.messages->drop_all();
      return;
    case Act::truncate_checkpoint:
      fault.truncate_checkpoint();
      (void)std::raise(SIGKILL);
      return;
    case Act::nan:
    case Act::slip:
      return;
  }
}

/// Evaluations and checkpoints happen after few steps only; `slow` is permanent.
bool is_due(const Fault& fault, StepId step) {
  const bool from_then_on = fault.phase == Phase::evaluation || fault.phase == Phase::checkpoint ||
                            fault.phase == Phase::end || fault.act == Act::slow;
  return from_then_on ? step >= fault.step : step == fault.step;
}

[[noreturn]] void refuse(const std::string& text) {
  std::vector<std::string_view> acts, phases;
  for (const NamedAct& known : kActs) acts.push_back(known.name);
  for (const NamedPhase& known : kPhases) phases.push_back(known.name);
  fail(Kind::usage,
       "EQT_FAULT: expected ACT:rank=R,step=S[,phase=P][,bucket=B], where ACT is one of {} and P "
       "one of {}, that go together, found \"{}\"",
       fmt::join(acts, ", "), fmt::join(phases, ", "), text);
}

/// Removes and returns the text before `end`, and removes `end`; all of it if there is no `end`.
std::string_view take_until(char end, std::string_view& text) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size() && text[0] != '-';
}

bool read_setting(std::string_view key, std::string_view value, Fault& fault) {
  if (key == "rank") return read_number(value, fault.rank);
  if (key == "step") return read_number(value, fault.step);
  if (key == "bucket") return read_number(value, fault.bucket.emplace());
  const auto found = std::ranges::find(kPhases, value, &NamedPhase::name);
  if (key != "phase" || found == kPhases.end()) return false;
  fault.phase = found->phase;
  return true;
}

bool fits(const Fault& fault, Place place) {
  const bool in_bucket = fault.bucket.has_value();
  if (in_bucket && fault.phase != Phase::step) return false;
  switch (place) {
    case Place::anywhere:
      return true;
    case Place::models:  // poisoned between steps
      return !in_bucket && fault.phase != Phase::launch && fault.phase != Phase::start &&
             fault.phase != Phase::end;
    case Place::buckets:
      return in_bucket;
    case Place::messages:
      return fault.phase != Phase::launch;
    case Place::checkpoints:
      return fault.phase == Phase::checkpoint;
  }
  return false;
}

}  // namespace

bool MessageFaults::sends(Rank) { return !dropping_; }

std::optional<std::vector<std::byte>> MessageFaults::replacement(
    std::span<const std::byte> fragment, Rank to) {
  const Next next = next_;
  // Messages of MPI's own collectives can be changed but not truncated.
  const bool waits = next == Next::truncate && to == kAllRanks;
  if (next == Next::whole || waits || fragment.empty()) return std::nullopt;
  next_ = Next::whole;
  std::vector<std::byte> other(fragment.begin(), fragment.end());
  if (next == Next::truncate) other.pop_back();
  // Far after the headers, where only a checksum over all bytes detects it.
  if (next == Next::flip) other[other.size() / 4 * 3] ^= std::byte{0x10};
  return other;
}

bool Fault::inject(Phase at_phase, Rank at_rank, StepId at_step,
                   std::span<float> parameters) const {
  if (bucket || at_phase != phase || at_rank != rank || !is_due(*this, at_step)) return false;
  if (act == Act::nan) parameters[0] = std::numeric_limits<float>::quiet_NaN();
  act_alone(*this, at_step);
  return true;
}

StepId Fault::inject_in_bucket(Rank at_rank, StepId at_step, std::uint32_t at_bucket) const {
  if (bucket != at_bucket || at_rank != rank || !is_due(*this, at_step)) return at_step;
  act_alone(*this, at_step);
  return act == Act::slip ? at_step + 1 : at_step;
}

Fault parse_fault(const std::string& text) {
  Fault fault;
  std::string_view rest = text;
  const std::string_view name = take_until(':', rest);
  const auto act = std::ranges::find(kActs, name, &NamedAct::name);
  if (act == kActs.end() || text.ends_with(',')) refuse(text);
  fault.act = act->act;
  std::vector<std::string_view> keys;
  while (!rest.empty()) {
    std::string_view value = take_until(',', rest);
    const std::string_view key = take_until('=', value);
    if (std::ranges::count(keys, key) > 0 || !read_setting(key, value, fault)) refuse(text);
    keys.push_back(key);
  }
  const bool complete = std::ranges::count(keys, "rank") + std::ranges::count(keys, "step") == 2;
  if (!complete || !fits(fault, act->place)) refuse(text);
  return fault;
}

}  // namespace eqt::comm
