// SPDX-License-Identifier: Apache-2.0
// The error of a rank that receives damaged bytes. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "core/layout.hpp"

namespace eqt::comm {

/// Says which rank sent a message, and for which operation.
struct MessageOrigin {
  StepId step = 0;
  const char* operation = "";
  Rank sender = 0;
};

[[noreturn]] inline void fail_message(const MessageOrigin& from, const std::string& expectation) {
  fail(Kind::wire,
       "step {}: {}: expected from rank {} {}; it was damaged on its way, or its sender is out of "
       "step: start again, and test memory and network of both hosts if it comes back",
       from.step, from.operation, from.sender, expectation);
}

/// Throws unless the checksums are equal.
inline void require_undamaged(const MessageOrigin& from, std::size_t bytes, std::uint64_t expected,
                              std::uint64_t found) {
  if (expected == found) return;
  fail_message(from, fmt::format("bytes with the checksum {:016x}, found {} bytes with {:016x}",
                                 expected, bytes, found));
}

}  // namespace eqt::comm
