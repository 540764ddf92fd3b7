// SPDX-License-Identifier: Apache-2.0
// How this process was started, as far as its environment tells, and what MPI needs to start.

#pragma once

#include <optional>
#include <string_view>

namespace eqt::comm {

/// This process's rank and the job's size, from the environment variables of mpirun, so also before
/// MPI starts; kNobody and 0 without mpirun.
int launched_rank() noexcept;
int launched_size() noexcept;

/// A job that a launcher has started, by the variables that it set for its processes.
struct LaunchedJob {
  std::string_view launcher;  // "Slurm's srun"
  std::string_view rank_variable;
  std::string_view size_variable;  // empty: the rank alone is known
  int rank;
  int size;  // at least: rank + 1 where the size is not known
};

/// The largest job that this process is said to be a part of; none if it was started alone. Around
/// Open MPI's own mpirun other launchers do not count. Call it before MPI starts, which sets some
/// of the variables itself.
std::optional<LaunchedJob> launched_job();

/// @throws Error{mpi} if `job` has more processes than MPI's world, i.e. if the launcher belongs to
///   another MPI and each process would take itself for a whole job
void require_whole_world(const std::optional<LaunchedJob>& job, int world_size);

/// Open MPI ends a process without a sentence, or hangs, when it lacks descriptors or, without
/// mpirun, a folder with room for its temporary files. Call it before MPI starts.
/// @throws Error{mpi}
void require_room_for_mpi();

}  // namespace eqt::comm
