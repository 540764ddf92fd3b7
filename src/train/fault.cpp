#include "train/fault.hpp"

#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>

#include "core/error.hpp"

namespace eqt::train {

void Fault::strike(Rank at_rank, StepId at_step, std::span<float> parameters) const {
  if (at_rank != rank || at_step != step) return;
  switch (act) {
    case Act::raise:
      fail(Kind::bug, "step {}: fault asked for by EQT_FAULT", step);
    case Act::nan:
      parameters[0] = std::numeric_limits<float>::quiet_NaN();
      return;
    case Act::stall:
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

Fault parse_fault(const std::string& text) {
  Fault fault;
  char act[16] = {};
  int end = 0;
  unsigned long long step = 0;
  const int fields =
      std::sscanf(text.c_str(), "%15[a-z]:rank=%d,step=%llu%n", act, &fault.rank, &step, &end);
  const std::string name(act);
  const bool complete = fields == 3 && static_cast<std::size_t>(end) == text.size();
  if (!complete || (name != "throw" && name != "stall" && name != "nan")) {
    fail(Kind::usage,
         "EQT_FAULT: expected throw, stall or nan as in throw:rank=1,step=3, found \"{}\"", text);
  }
  fault.act = name == "throw"   ? Fault::Act::raise
              : name == "stall" ? Fault::Act::stall
                                : Fault::Act::nan;
  fault.step = step;
  return fault;
}

}  // namespace eqt::train
