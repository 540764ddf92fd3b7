// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_facts.hpp"

#include <mpi.h>

#include <array>
#include <cstdlib>

#include "comm/mpi_call.hpp"
#include "comm/session.hpp"

namespace eqt::comm {
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
