// SPDX-License-Identifier: Apache-2.0
#include "metrics/crc32c.hpp"

#include <isa-l/crc.h>

#include <limits>

#include "core/error.hpp"

namespace eqt::metrics {

std::uint32_t crc32c(std::string_view bytes) {
  EQT_CHECK(bytes.size() <= std::numeric_limits<int>::max(), "{} bytes at once", bytes.size());
  // The library's function only reads, although its parameter is not const.
  auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), 0xFFFFFFFFu);
}

}  // namespace eqt::metrics
