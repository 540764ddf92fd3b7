// SPDX-License-Identifier: Apache-2.0
#include "int8/kernels.hpp"

namespace eqt::int8 {

std::string_view name_of(Kernels kernels) noexcept {
  switch (kernels) {
    case Kernels::scalar:
      return "scalar";
    case Kernels::avx2_pair:
      return "avx2-pair";
    case Kernels::avx512_vnni:
      return "avx512-vnni";
    case Kernels::avx_vnni:
      return "avx-vnni";
    case Kernels::neon_long:
      return "neon-long";
    case Kernels::neon_dot:
      return "neon-dot";
  }
  return "unknown";
}

std::vector<Kernels> available() { return {Kernels::scalar}; }

Kernels fastest_here() { return available().front(); }

}  // namespace eqt::int8
