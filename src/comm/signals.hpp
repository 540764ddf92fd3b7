// Signals that end a run. This file's handler is the program's only one.

#pragma once

#include <cstdint>
#include <optional>

namespace eqt::comm {

/// What the first signal means.
enum class OnSignal {
  end,  // the watchdog says what the rank waited for, then the signal does what it always does
  stop_at_once,  // there is nothing to save yet: a sentence, then exit code 75
  finish_step,  // the run ends after a step that all ranks agree on; see Communicator::stop_asked()
  finish_writing  // the run is over but for its last files; the watchdog waits half a minute for
                  // them
};

struct Signal {
  int number = 0;
  bool from_launcher = false;  // the parent sent it: mpirun ends the job
  double seconds_ago = 0;
};

/// From now on SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU and SIGHUP are noted. A second one, half
/// a second or more after the first, ends the process at once; SIGXCPU comes every second, so it
/// never is a second one. A signal that is ignored stays ignored. Open MPI's mpirun passes SIGUSR1
/// and SIGUSR2 on as they are; of SIGTERM and SIGINT it makes an end within a second. May be called
/// again, to change what they mean.
void note_signals(OnSignal meaning);

/// After the run: nothing is left that a signal could end in a better way.
void ignore_signals() noexcept;

/// Whether anyone has called note_signals().
bool signals_are_noted() noexcept;
OnSignal meaning_of_signals() noexcept;

/// The first signal, if there was one. Callable from any thread.
std::optional<Signal> first_signal() noexcept;

/// "SIGTERM", "SIGINT", ... Callable in a handler.
const char* signal_name(int number) noexcept;

/// Ends the process as if nobody had noted the signal.
void end_by(int signal) noexcept;

}  // namespace eqt::comm
