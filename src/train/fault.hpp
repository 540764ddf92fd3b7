// SPDX-License-Identifier: Apache-2.0
// Faults on request, so that tests can prove how the job fails. Asked for by EQT_FAULT only.
//
//   ACT:rank=R,step=S[,phase=P][,bucket=B]

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/transfers.hpp"
#include "core/layout.hpp"

namespace eqt::train {

/// Damages messages when a fault asks for it: one thread asks, another sends.
class MessageFaults final : public comm::SendHook {
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
    stall,               // sleep for good
    stop,                // this process, by SIGSTOP
    kill,                // this process, by SIGKILL
    slow,                // a second longer, from then on each time
    nan,                 // poison a parameter
    slip,                // take a fusion bucket for the next step's
    flip,                // a bit of the next message
    truncate,            // "truncate-message", the next one, by a byte
    drop,                // every message from then on
    truncate_checkpoint  // cut this rank's newest file in half and die, as where power fails
  };
  enum class Phase {
    launch,      // before MPI starts
    start,       // when all know the config; nothing is built yet
    step,        // begins
    evaluation,  // the first after so many steps
    checkpoint,  // likewise
    end          // when all steps are done: before the weights and the summary are written
  };
  Act act = Act::raise;
  Rank rank = 0;
  StepId step = 0;
  Phase phase = Phase::step;
  // Injected as this fusion bucket's mean begins, others being under way, not as the step does.
  std::optional<std::uint32_t> bucket = {};
  MessageFaults* messages = nullptr;  // the hook that flips, truncates or drops them
  std::string run_folder = {};        // whose checkpoints are truncated

  /// As a phase begins: acts if rank, phase and step are the named ones and no bucket is named.
  /// @param step the step that begins, or those completed before an evaluation or a checkpoint
  /// @return whether it has acted, if it returns
  bool inject(Phase phase, Rank rank, StepId step, std::span<float> parameters) const;
  /// The same at the start of a bucket's mean.
  /// @return the step that the rank takes it for
  StepId inject_in_bucket(Rank rank, StepId step, std::uint32_t bucket) const;
};

/// Parses "throw:rank=1,step=3" or "kill:rank=0,step=8,phase=checkpoint". @throws Error{usage}
Fault parse_fault(const std::string& text);

}  // namespace eqt::train
