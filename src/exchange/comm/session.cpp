// SPDX-License-Identifier: Apache-2.0
#include "comm/session.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "comm/launch.hpp"
#include "comm/mpi_call.hpp"
#include "comm/signals.hpp"
#include "core/visible.hpp"

namespace eqt::comm {
namespace {

std::string where(const Session& session) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("[rank {}/{} {}, {}] ", session.rank(), session.size(), host.data(),
                     last_activity());
}

/// Names of files and hosts and the words of libraries are in sentences: none may begin a line or
/// steer a terminal.
void print(std::string_view kind, std::string sentence) {
  std::ranges::replace(sentence, '\n', ' ');
  const std::string line = fmt::format("equant-train: {}: {}\n", kind, visible(sentence));
  // One write, so that messages of several ranks do not interleave. If it fails, nothing can be
  // done.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void abort_world(Kind kind) {
  constexpr std::chrono::seconds kPatience(3);
  int runs = 0, is_over = 0;
  MPI_Initialized(&runs);
  MPI_Finalized(&is_over);
  if (runs == 0 || is_over != 0) std::_Exit(static_cast<int>(kind));
  std::thread([=] {
    std::this_thread::sleep_for(kPatience);
    std::_Exit(static_cast<int>(kind));
  }).detach();
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(kind));
  std::_Exit(static_cast<int>(kind));
}

void print_error(Kind kind, const std::string& sentence) { print(kind_name(kind), sentence); }

void print_warning(const std::string& sentence) { print("warning", sentence); }

Session::Session(int* argc, char*** argv, double timeout_seconds) {
  set_timeout(timeout_seconds);
  const Watchdog::Guard guard(*watchdog_, "MPI_Init");
  setenv("HOME", "/", 0);  // Open MPI 5 needs one, which a service of systemd has not
  require_room_for_mpi();
  const std::optional<LaunchedJob> job = launched_job();
  int provided = MPI_THREAD_SINGLE;
  // MULTIPLE, because the main thread may abort during a call of the communication thread.
  if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    fail(Kind::mpi,
         "MPI could not be started; try `mpirun -np 1 hostname` to check the installation");
  }
  // Under the default handler MPI would end the process before check() could say what was wrong.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  serialized_ = provided >= MPI_THREAD_SERIALIZED;
  require_whole_world(job, size_);
}

Session::~Session() {
  if (std::uncaught_exceptions() > 0) abort_world(Kind::bug);
  {
    const Watchdog::Guard guard(*watchdog_, "MPI_Finalize");
    check_quietly(MPI_Finalize(), "MPI_Finalize");
  }
  ignore_signals();
}

void Session::set_timeout(double seconds) const {
  watchdog_ = std::make_unique<Watchdog>(seconds, launched_rank(), launched_size());
}

Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return {Kind::usage,
            "out of memory; try a smaller train.batch_size or model.name, fewer ranks on this "
            "host, fewer --values, or a higher limit (ulimit -v)"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {Kind::output,
            fmt::format("expected to use {}, but {}; check the path and its permissions",
                        error.path1().string(), error.code().message())};
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again)
      return {
          Kind::usage,
          "expected to start a thread, but the system allows no more; try a smaller "
          "threads_per_rank, fewer ranks on this host or a higher limit (ulimit -u, ulimit -v)"};
    return {Kind::bug, fmt::format("the system refused a call: {}", error.what())};
  } catch (const std::exception& error) {
    return {Kind::bug, error.what()};
  } catch (...) {
    return {Kind::bug, "an exception of an unknown type"};
  }
}

int run_guarded(const Session& session, const std::function<int()>& body) {
  try {
    return body();
  } catch (const AgreedError& error) {
    if (session.rank() == 0) print_error(error.kind(), error.what());
    return error.exit_code();
  } catch (...) {
    const Failure failure = current_failure();
    print_error(failure.kind, where(session) + failure.sentence);
    abort_world(failure.kind);
  }
}

std::string mpi_description() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string whole(text.data());
  return whole.substr(0, std::min(whole.find(','), whole.find('\n')));
}

int open_mpi_major() {
  static const int major = [] {
    const std::string description = mpi_description();
    constexpr std::string_view kName = "Open MPI v";
    return description.starts_with(kName) ? std::atoi(description.c_str() + kName.size()) : 0;
  }();
  return major;
}

namespace {

std::string runtime() {
  const int major = open_mpi_major();
  if (major == 0 || std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return "";
  return major >= 5 ? "PRRTE" : "ORTE";
}

std::string thread_level() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level >= MPI_THREAD_MULTIPLE) return "multiple";
  if (level >= MPI_THREAD_SERIALIZED) return "serialized";
  return level >= MPI_THREAD_FUNNELED ? "funneled" : "single";
}

/// The name of the current value of an enumerated control variable; "" if there is no such
/// variable.
std::string enumerated_value(const char* variable) {
  int index = 0;
  if (MPI_T_cvar_get_index(variable, &index) != MPI_SUCCESS) return "";
  std::array<char, 256> name{}, about{};
  int name_size = name.size(), about_size = about.size(), verbosity = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum values = MPI_T_ENUM_NULL;
  if (MPI_T_cvar_get_info(index, name.data(), &name_size, &verbosity, &type, &values, about.data(),
                          &about_size, &binding, &scope) != MPI_SUCCESS ||
      values == MPI_T_ENUM_NULL || (type != MPI_INT && type != MPI_UNSIGNED)) {
    return "";
  }
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int elements = 0, current = 0, kinds = 0, enum_name_size = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &elements) != MPI_SUCCESS) return "";
  const bool read = elements == 1 && MPI_T_cvar_read(handle, &current) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  if (!read || MPI_T_enum_get_info(values, &kinds, nullptr, &enum_name_size) != MPI_SUCCESS) {
    return "";
  }
  for (int i = 0; i < kinds; ++i) {
    int value = 0, item_size = name.size();
    if (MPI_T_enum_get_item(values, i, &value, name.data(), &item_size) == MPI_SUCCESS &&
        value == current) {
      return name.data();
    }
  }
  return "";
}

std::string single_copy() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return "";
  const std::string found = enumerated_value("btl_vader_single_copy_mechanism");
  MPI_T_finalize();
  return found;
}

}  // namespace

MpiFacts mpi_facts() {
  return {.library = mpi_description(),
          .runtime = runtime(),
          .thread_level = thread_level(),
          .single_copy = single_copy()};
}

}  // namespace eqt::comm
