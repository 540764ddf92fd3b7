// SPDX-License-Identifier: Apache-2.0
#include "comm/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "comm/host_facts.hpp"
#include "comm/session.hpp"
#include "comm/watchdog.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

namespace eqt::comm {
namespace {

constexpr std::string_view kOwnSize = "OMPI_COMM_WORLD_SIZE";

// Open MPI 4.1 with PMIx 4.2 takes a little less than this to start.
constexpr int kDescriptors = 32;
constexpr std::size_t kTemporaryBytes = 12 * kMib;

struct Launcher {
  std::string_view name, rank_variable, size_variable;
};

/// Slurm's SLURM_NTASKS is also set where nothing was started: it counts what an allocation has
/// room for, and in a batch script SLURM_PROCID is 0.
constexpr std::array<Launcher, 5> kLaunchers = {{
    {"the launcher of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE"},
    {"the launcher of MPICH or Intel MPI", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MVAPICH's launcher", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"Slurm's srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"a launcher with PMIx", "PMIX_RANK", ""},
}};

/// A whole number from 0 on; none for any other value, which no launcher has written.
std::optional<int> number_in(std::string_view variable) {
  const char* const value = std::getenv(std::string(variable).c_str());
  if (value == nullptr) return {};
  const std::string_view text(value);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < 0) return {};
  return number;
}

int launched(std::initializer_list<std::string_view> variables, int otherwise) {
  for (const std::string_view variable : variables)
    if (const auto number = number_in(variable)) return *number;
  return otherwise;
}

std::optional<LaunchedJob> job_of(const Launcher& launcher) {
  const auto rank = number_in(launcher.rank_variable);
  if (!rank || *rank == std::numeric_limits<int>::max()) return {};
  const auto size =
      launcher.size_variable.empty() ? std::nullopt : number_in(launcher.size_variable);
  return LaunchedJob{.launcher = launcher.name,
                     .rank_variable = launcher.rank_variable,
                     .size_variable = size ? launcher.size_variable : "",
                     .rank = *rank,
                     .size = size ? *size : *rank + 1};
}

void require_descriptors() {
  std::vector<std::unique_ptr<Descriptor>> open;
  while (open.size() < static_cast<std::size_t>(kDescriptors)) {
    open.push_back(std::make_unique<Descriptor>("/"));
    if (open.back()->number() >= 0) continue;
    fail(Kind::mpi,
         "host {}: expected room for {} more open files, which MPI needs to start, found {}; raise "
         "the limit (ulimit -n)",
         host_name(), kDescriptors, open.size() - 1);
  }
}

/// Returns the folder where Open MPI makes its own, or the nearest folder above it that is there.
std::filesystem::path temporary_folder() {
  std::filesystem::path folder = "/tmp";
  const char* const setting =
      open_mpi_major() >= 5 ? "PRTE_MCA_prte_tmpdir_base" : "OMPI_MCA_orte_tmpdir_base";
  for (const char* variable : {setting, "TMPDIR", "TEMP", "TMP"}) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    folder = value;
    break;
  }
  std::error_code none;
  while (!std::filesystem::exists(folder, none) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder.empty() ? "." : folder;
}

void require_temporary_room() {
  const std::filesystem::path folder = temporary_folder();
  std::string file = (folder / "equant-train.XXXXXX").string();
  const int descriptor = mkostemp(file.data(), O_CLOEXEC);
  int error = descriptor < 0 ? errno : posix_fallocate(descriptor, 0, kTemporaryBytes);
  if (descriptor >= 0) {
    unlink(file.c_str());
    close(descriptor);
  }
  if (error == 0) return;
  fail(Kind::mpi,
       "host {}: expected {} MiB for MPI's temporary files at {}, found: {}; make room there, or "
       "set "
       "TMPDIR to another folder",
       host_name(), kTemporaryBytes / kMib, folder.string(),
       std::generic_category().message(error));
}

}  // namespace

int launched_rank() noexcept {
  return launched({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, Watchdog::kNobody);
}

int launched_size() noexcept { return launched({kOwnSize, "PMI_SIZE"}, 0); }

std::optional<LaunchedJob> launched_job() {
  if (number_in(kOwnSize)) return job_of({"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", kOwnSize});
  // In a shell with a terminal, of srun --pty, the other tasks have ended.
  const bool in_terminal = std::getenv("SLURM_PTY_PORT") != nullptr;
  std::optional<LaunchedJob> largest;
  for (const Launcher& launcher : kLaunchers) {
    const auto job = job_of(launcher);
    if (!job || (in_terminal && launcher.rank_variable == "SLURM_PROCID")) continue;
    if (!largest || job->size > largest->size) largest = job;
  }
  return largest;
}

void require_whole_world(const std::optional<LaunchedJob>& job, int world_size) {
  if (!job || job->size <= world_size) return;
  const std::string said =
      job->size_variable.empty() ? "" : fmt::format("{}={}, ", job->size_variable, job->size);
  fail(
      Kind::mpi,
      "expected {}{} ranks, as {} says ({}{}={}), found {} in the world of {}, with which this "
      "program is built; start it with that MPI's own mpirun, under Slurm with srun --mpi=pmix, or "
      "with mpirun -np 1 where every process is to be a run of its own",
      job->size_variable.empty() ? "at least " : "", job->size, job->launcher, said,
      job->rank_variable, job->rank, world_size, mpi_description());
}

void require_room_for_mpi() {
  require_descriptors();
  if (launched_rank() == Watchdog::kNobody) require_temporary_room();
}

}  // namespace eqt::comm
