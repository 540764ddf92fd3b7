// MPI from start to end, and the one place where the program's errors are caught.

#pragma once

#include <functional>
#include <string>

#include "core/error.hpp"

namespace eqt::comm {

/// An error that every rank holds (same sentence, same kind): the job ends calmly, rank 0 prints.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// MPI_Init_thread ... MPI_Finalize. If destroyed while an exception unwinds, it aborts the world
/// instead: finalizing would wait for ranks that are stuck in a collective.
class Session {
 public:
  Session(int* argc, char*** argv);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// True if a communication thread may call MPI while the main thread does not.
  bool allows_communication_thread() const noexcept { return serialized_; }

 private:
  bool serialized_;
};

/// Runs `body` and returns its result. An AgreedError is printed by rank 0 and its exit code
/// returned; any other exception is printed with rank and host and the world is aborted with its
/// exit code (Error{bug} for what is not an Error). The only catch in a training run.
int run_guarded(const Session& session, const std::function<int()>& body);

/// "Open MPI v4.1.4, ..." in one line.
std::string mpi_description();

/// Writes "equant-train: KIND: SENTENCE" to stderr in one piece.
void print_error(Kind kind, const std::string& sentence);

/// Likewise "equant-train: warning: SENTENCE", for what the job survives.
void print_warning(const std::string& sentence);

}  // namespace eqt::comm
