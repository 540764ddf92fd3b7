// SPDX-License-Identifier: Apache-2.0
// Counted bytes of messages without checksums, as in the cost formulas.

#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace eqt::test {

struct PayloadBytes {
  std::uint64_t sent = 0, received = 0;
};

inline PayloadBytes payload_between(const comm::ByteCount& before, const comm::ByteCount& now) {
  const auto sent = [](const comm::ByteCount& c) { return c.sent_bytes - c.sent_checksum_bytes; };
  const auto received = [](const comm::ByteCount& c) {
    return c.received_bytes - c.received_checksum_bytes;
  };
  return {sent(now) - sent(before), received(now) - received(before)};
}

}  // namespace eqt::test
