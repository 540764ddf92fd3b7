// MPI from start to end, and the one place where the program's errors are caught.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/watchdog.hpp"
#include "core/error.hpp"

namespace eqt::comm {

/// An error that every rank holds (same sentence, same kind): the job ends calmly, rank 0 prints.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// MPI_Init_thread ... MPI_Finalize, both with a deadline. If destroyed while an exception unwinds,
/// it aborts the world instead: finalizing would wait for ranks that are stuck in a collective.
class Session {
 public:
  /// @param timeout_seconds for starting; 0 = none
  Session(int* argc, char*** argv, double timeout_seconds = 0);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// True if a communication thread may call MPI while the main thread does not.
  bool allows_communication_thread() const noexcept { return serialized_; }

  /// Of MPI_COMM_WORLD.
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// For ending. Not collective.
  void set_timeout(double seconds) const;

 private:
  bool serialized_;
  int rank_ = 0, size_ = 1;
  mutable std::unique_ptr<Watchdog> watchdog_;
};

/// This process's rank and the job's size as mpirun tells them before MPI starts; kNobody and 0
/// without one.
int launched_rank() noexcept;
int launched_size() noexcept;

/// What ended the program, for its user.
struct Failure {
  Kind kind;
  std::string sentence;
};
/// Of the exception that is being handled: an Error's own; a sentence of its own for memory,
/// threads and files that the system does not give; Error{bug} for any other.
Failure current_failure();

/// Runs `body` and returns its result. An AgreedError is printed by rank 0 and its exit code
/// returned; any other exception is printed with rank and host and the world is aborted with the
/// exit code that current_failure() says. The only catch in a training run.
int run_guarded(const Session& session, const std::function<int()>& body);

/// Ends the job with the kind's exit code: MPI_Abort, and this process alone where that waits for
/// what is stuck, or where MPI does not run. Callable from any thread.
[[noreturn]] void abort_world(Kind kind);

/// "Open MPI v4.1.4, ..." in one line.
std::string mpi_description();

/// Writes "equant-train: KIND: SENTENCE" to stderr in one piece.
void print_error(Kind kind, const std::string& sentence);

/// Likewise "equant-train: warning: SENTENCE", for what the job survives.
void print_warning(const std::string& sentence);

}  // namespace eqt::comm
