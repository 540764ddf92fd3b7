// SPDX-License-Identifier: Apache-2.0
// MPI from start to end, what its library is, and the place where errors that end a rank are
// caught.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/watchdog.hpp"
#include "core/error.hpp"

namespace eqt::comm {

/// An error that every rank has (same message, same kind): the job ends in order, rank 0 prints.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// MPI_Init_thread ... MPI_Finalize, both with a deadline. If it is destroyed while an exception
/// unwinds, it aborts the world instead, since finalizing would wait for ranks that are stuck in a
/// collective.
class Session {
 public:
  /// @param timeout_seconds for starting; 0 = none
  /// @throws Error{mpi} if MPI cannot start, or if another MPI's launcher has started this process
  Session(int* argc, char*** argv, double timeout_seconds = 0);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// True if a communication thread may call MPI while the main thread does not.
  bool allows_communication_thread() const noexcept { return serialized_; }

  /// Both are those of MPI_COMM_WORLD.
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// The deadline of MPI_Finalize. Not collective.
  void set_timeout(double seconds) const;

 private:
  bool serialized_;
  int rank_ = 0, size_ = 1;
  mutable std::unique_ptr<Watchdog> watchdog_;
};

/// Why the program ended, for its user.
struct Failure {
  Kind kind;
  std::string sentence;
};
/// The failure of the exception that is being handled: that of an Error; a separate message if the
/// system refuses memory, threads or files; Error{bug} for any other exception.
Failure current_failure();

/// Runs `body` and returns its result. Rank 0 prints an AgreedError, and its exit code is returned.
/// Any other exception is printed with rank and host, and the world is aborted with the exit code
/// of current_failure(). Other catches in a training run throw again, or go on with what they know.
int run_guarded(const Session& session, const std::function<int()>& body);

/// Ends the job with the kind's exit code by MPI_Abort. Ends only this process if MPI does not run
/// or MPI_Abort itself gets stuck. Callable from any thread.
[[noreturn]] void abort_world(Kind kind);

/// "Open MPI v4.1.4, ..." in one line.
std::string mpi_description();

/// The major version of Open MPI that was loaded, which may be another than the program was built
/// with; 0 if it is another MPI. Before MPI starts, too.
int open_mpi_major();

/// Writes "equant-train: KIND: SENTENCE" to stderr in one piece.
void print_error(Kind kind, const std::string& sentence);

/// Writes "equant-train: warning: SENTENCE" to stderr in one piece, when the job can continue.
void print_warning(const std::string& sentence);

/// The facts say how the MPI library of this job was built and configured.
struct MpiFacts {
  std::string library;  // "Open MPI v4.1.4"
  std::string runtime;  // of mpirun, which started this process: "ORTE", "PRRTE"; "" if another did
  std::string thread_level;  // single, funneled, serialized or multiple
  /// Ranks of one host read each other's memory this way: Open MPI's "cma", "knem", "xpmem",
  /// "emulated" or "none" (through shared segments, copied twice); "" if the library does not say.
  std::string single_copy;
};

/// MPI must be running. Not collective.
MpiFacts mpi_facts();

}  // namespace eqt::comm
