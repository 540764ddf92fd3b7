// SPDX-License-Identifier: Apache-2.0
#include "core/address_space.hpp"

#include <sys/mman.h>

namespace eqt {

bool has_addresses(std::size_t bytes) noexcept {
  void* const trial = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (trial == MAP_FAILED) return false;
  munmap(trial, bytes);
  return true;
}

}  // namespace eqt
