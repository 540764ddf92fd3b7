// MPI's return codes as errors. For the sources of this room that call MPI themselves.

#pragma once

#include <mpi.h>

#include <array>

#include "core/error.hpp"

namespace eqt::comm {

/// @throws Error{mpi} with MPI's own text unless `code` is MPI_SUCCESS
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(Kind::mpi, "{} failed: {}", call, text.data());
}

}  // namespace eqt::comm
