// SPDX-License-Identifier: Apache-2.0
// Signals that end a run. The handler in this file is the only one of the program.

#pragma once

#include <cstdint>
#include <optional>

namespace eqt::comm {

/// The effect of the first signal.
enum class OnSignal {
  end,           // the watchdog says what the rank waited for, then the signal has its usual effect
  stop_at_once,  // there is nothing to save yet: a sentence, then exit code 75
  finish_step,  // the run ends after a step that all ranks agree on; see Communicator::stop_asked()
  finish_writing  // only the last files are left to write; the watchdog waits 30 s for them
};

struct Signal {
  int number = 0;
  bool from_launcher = false;  // the parent sent it: mpirun ends the job
  double seconds_ago = 0;
};

/// From now on SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU and SIGHUP are recorded. A second one,
/// half a second or more after the first, ends the process at once. SIGXCPU comes every second, and
/// so does SIGUSR2 from the scripts: these never count as a second one. A signal that is ignored
/// stays ignored. Open MPI's mpirun passes SIGUSR1 and SIGUSR2 on unchanged; after SIGTERM and
/// SIGINT it ends the job within a second. Call it again to change the effect of the first signal.
void note_signals(OnSignal meaning);

/// Ignores signals at the end of the run, when there is nothing left to stop.
void ignore_signals() noexcept;

/// Returns true if note_signals() was called.
bool signals_are_noted() noexcept;
OnSignal meaning_of_signals() noexcept;

/// The first signal, if there was one. Callable from any thread.
std::optional<Signal> first_signal() noexcept;

/// "SIGTERM", "SIGINT", ... Callable in a handler.
const char* signal_name(int number) noexcept;

/// Ends the process as if the signal had not been handled.
void end_by(int signal) noexcept;

}  // namespace eqt::comm
