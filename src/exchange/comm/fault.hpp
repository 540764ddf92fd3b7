// SPDX-License-Identifier: Apache-2.0
// Injected faults, so that tests can check how a job fails. Requested only by EQT_FAULT.
//
//   ACT:rank=R,step=S[,phase=P][,bucket=B]

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/transfers.hpp"
#include "core/layout.hpp"

namespace eqt::comm {

/// Damages messages for a fault. One thread requests it, another sends.
class MessageFaults final : public SendHook {
 public:
  void flip_next() noexcept { next_ = Next::flip; }          // a bit of the next message
  void truncate_next() noexcept { next_ = Next::truncate; }  // by its last byte
  void drop_all() noexcept { dropping_ = true; }             // from now on

  bool sends(Rank to) override;
  std::optional<std::vector<std::byte>> replacement(std::span<const std::byte> fragment,
                                                    Rank to) override;

 private:
  enum class Next { whole, flip, truncate };
  std::atomic<Next> next_{Next::whole};
  std::atomic<bool> dropping_{false};
};

struct Fault {
  enum class Act {
    raise,               // "throw" Error{bug}
    stall,               // sleep forever
    stop,                // this process, by SIGSTOP
    kill,                // this process, by SIGKILL
    slow,                // one second longer, every time from then on
    nan,                 // set a parameter to NaN
    slip,                // treat a fusion bucket as that of the next step
    flip,                // a bit of the next message
    truncate,            // "truncate-message", the next one, by a byte
    drop,                // every message from then on
    truncate_checkpoint  // cut this rank's newest file in half and die, as in a power failure
  };
  enum class Phase {
    launch,      // before MPI starts
    start,       // after the config was exchanged, before the run is built
    step,        // at its beginning
    evaluation,  // the first after that many steps
    checkpoint,  // likewise
    end          // after all steps, before weights and summary are written
  };
  Act act = Act::raise;
  Rank rank = 0;
  StepId step = 0;
  Phase phase = Phase::step;
  // Happens when this fusion bucket's mean begins, while others are exchanged, not at the beginning
  // of the step.
  std::optional<std::uint32_t> bucket = {};
  MessageFaults* messages = nullptr;               // the hook that flips, truncates or drops them
  std::function<void()> truncate_checkpoint = {};  // cuts this rank's newest file in half

  /// Called when a phase begins: acts if rank, phase and step match and no bucket is named.
  /// @param step the step that begins, or those completed before an evaluation or a checkpoint
  /// @return true if it has acted
  bool inject(Phase phase, Rank rank, StepId step, std::span<float> parameters) const;
  /// Acts when a bucket's mean begins, if rank, step and bucket match.
  /// @return the step that the rank uses for the bucket
  StepId inject_in_bucket(Rank rank, StepId step, std::uint32_t bucket) const;
};

/// Parses "throw:rank=1,step=3" or "kill:rank=0,step=8,phase=checkpoint". @throws Error{usage}
Fault parse_fault(const std::string& text);

}  // namespace eqt::comm
