// SPDX-License-Identifier: Apache-2.0
// What the variables of launchers say: jobs of another MPI are refused, and a process that was
// started alone is not.

#include "comm/launch.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "comm/session.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

/// As a launcher that sets these variables alone starts this process.
std::optional<comm::LaunchedJob> job_with(
    std::initializer_list<std::pair<const char*, const char*>> variables) {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_PTY_PORT", "PMIX_RANK"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  return comm::launched_job();
}

int size_with(std::initializer_list<std::pair<const char*, const char*>> variables) {
  const auto job = job_with(variables);
  return job ? job->size : 0;
}

}  // namespace

TEST_CASE("each launcher says how many processes it has started", "[launch]") {
  CHECK(size_with({}) == 0);
  CHECK(size_with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) == 2);
  CHECK(size_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}) == 4);
  CHECK(size_with({{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}}) == 4);
  CHECK(size_with({{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "8"}}) == 8);
  CHECK(size_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}) == 4);
  CHECK(size_with({{"PMIX_RANK", "2"}}) == 3);
  CHECK(size_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMIX_RANK", "6"}}) == 7);
}

TEST_CASE("what does not start processes of this job says nothing", "[launch]") {
  // An allocation, a batch script in it, and a shell with a terminal.
  CHECK(size_with({{"SLURM_NTASKS", "4"}}) == 0);
  CHECK(size_with({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}) == 1);
  CHECK(size_with(
            {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_PTY_PORT", "1"}}) == 0);
  // Open MPI's mpirun, called by a process of another launcher.
  CHECK(size_with({{"PMI_RANK", "3"},
                   {"PMI_SIZE", "4"},
                   {"OMPI_COMM_WORLD_RANK", "0"},
                   {"OMPI_COMM_WORLD_SIZE", "1"}}) == 1);
  // A size without a rank, and words that no launcher writes.
  CHECK(size_with({{"PMI_SIZE", "4"}}) == 0);
  CHECK(size_with({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}) == 0);
  CHECK(size_with({{"PMI_RANK", "0x1"}, {"PMI_SIZE", "4"}}) == 0);
  CHECK(size_with({{"PMIX_RANK", "2147483647"}}) == 0);
}

TEST_CASE("a job that is larger than the world names both", "[launch]") {
  const auto job = job_with({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  CHECK_NOTHROW(comm::require_whole_world(job, 4));
  CHECK_NOTHROW(comm::require_whole_world({}, 1));
  try {
    comm::require_whole_world(job, 1);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::mpi);
    const std::string sentence = error.what();
    for (const char* part : {"MPICH", "PMI_SIZE=4", "PMI_RANK=2", "Open MPI"})
      CHECK(sentence.find(part) != std::string::npos);
  }
}

TEST_CASE("the version of the MPI that was loaded is known before MPI starts", "[launch]") {
  const std::string description = comm::mpi_description();
  const int major = comm::open_mpi_major();
  if (description.starts_with("Open MPI"))
    CHECK(description.find(fmt::format(" v{}.", major)) != std::string::npos);
  else
    CHECK(major == 0);
}
