#include "train/fault.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string_view>
#include <thread>

#include "core/error.hpp"

namespace eqt::train {
namespace {

struct NamedAct {
  std::string_view name;
  Fault::Act act;
};
constexpr std::array<NamedAct, 5> kActs = {{{"throw", Fault::Act::raise},
                                            {"stall", Fault::Act::stall},
                                            {"nan", Fault::Act::nan},
                                            {"kill", Fault::Act::kill},
                                            {"slip", Fault::Act::slip}}};

/// What needs nothing but the step.
void act_alone(Fault::Act act, StepId step) {
  switch (act) {
    case Fault::Act::raise:
      fail(Kind::bug, "step {}: fault asked for by EQT_FAULT", step);
    case Fault::Act::stall:
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    case Fault::Act::kill:
      (void)std::raise(SIGKILL);
      return;
    case Fault::Act::nan:
    case Fault::Act::slip:
      return;
  }
}

}  // namespace

void Fault::strike(Rank at_rank, StepId at_step, std::span<float> parameters) const {
  if (bucket || at_rank != rank || at_step != step) return;
  if (act == Act::nan) parameters[0] = std::numeric_limits<float>::quiet_NaN();
  act_alone(act, step);
}

StepId Fault::strike_in_bucket(Rank at_rank, StepId at_step, std::uint32_t at_bucket) const {
  if (bucket != at_bucket || at_rank != rank || at_step != step) return at_step;
  act_alone(act, step);
  return act == Act::slip ? at_step + 1 : at_step;
}

Fault parse_fault(const std::string& text) {
  Fault fault;
  std::array<char, 16> act{};
  int to_step = 0, to_bucket = 0;
  unsigned long long step = 0;
  unsigned bucket = 0;
  const int fields = std::sscanf(text.c_str(), "%15[a-z]:rank=%d,step=%llu%n,bucket=%u%n",
                                 act.data(), &fault.rank, &step, &to_step, &bucket, &to_bucket);
  const auto length = static_cast<std::size_t>(fields == 4 ? to_bucket : to_step);
  const bool complete = fields >= 3 && length == text.size();
  const std::string_view name(act.data());
  for (const NamedAct& known : kActs) {
    // Parameters are poisoned between steps; only a bucket can be mistaken.
    const bool fits = known.act == Fault::Act::nan    ? fields == 3
                      : known.act == Fault::Act::slip ? fields == 4
                                                      : true;
    if (!complete || name != known.name || !fits) continue;
    fault.act = known.act;
    fault.step = step;
    if (fields == 4) fault.bucket = bucket;
    return fault;
  }
  fail(Kind::usage,
       "EQT_FAULT: expected throw, stall, kill or nan as in throw:rank=1,step=3, or throw, stall, "
       "kill or slip as in slip:rank=1,step=3,bucket=0, found \"{}\"",
       text);
}

}  // namespace eqt::train
