// SPDX-License-Identifier: Apache-2.0
// The user's terminal. Also works under mpirun, which gives its ranks pipes.

#pragma once

#include <cstddef>
#include <memory>
#include <ostream>

namespace eqt::metrics {

/// A terminal that does not say how many columns it has counts as this wide, and so does a file.
inline constexpr std::size_t kUsualColumns = 80;

/// A terminal of another process, for writing. Text that it cannot accept immediately is dropped,
/// so a run never waits if someone has stopped the output.
class Terminal {
 public:
  /// @param descriptor of a terminal; closed at the end
  explicit Terminal(int descriptor);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::ostream& stream();
  /// The current number; 80 if unknown.
  std::size_t columns() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns true if a file descriptor is a terminal that understands the codes for clearing a line.
bool is_terminal(int descriptor);

/// Columns of the terminal of a file descriptor; 0 if there is none, or if unknown.
std::size_t columns_of(int descriptor);

/// The terminal to which a launcher passes this process's standard error or output, or null. It is
/// the one that EQT_TERMINAL names (scripts/run_local.sh sets it, for standard error), else the
/// launcher's own, if the launcher started this process and gave it a pipe. With `wanted` it is the
/// controlling terminal, even if the launcher writes elsewhere.
/// @param descriptor STDERR_FILENO or STDOUT_FILENO
std::unique_ptr<Terminal> find_terminal(int descriptor, bool wanted);

}  // namespace eqt::metrics
