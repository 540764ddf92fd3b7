// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

namespace eqt {

std::string_view kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::usage:
      return "usage";
    case Kind::data:
      return "data";
    case Kind::diverged:
      return "diverged";
    case Kind::wire:
      return "wire";
    case Kind::mpi:
      return "mpi";
    case Kind::timeout:
      return "timeout";
    case Kind::bug:
      return "bug";
    case Kind::output:
      return "output";
    case Kind::interrupted:
      return "interrupted";
  }
  return "unknown";
}

namespace detail {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(Kind::bug, fmt::format("{}:{}: expected {}: {}", file, line, condition, message));
}

}  // namespace detail
}  // namespace eqt
