// SPDX-License-Identifier: Apache-2.0
// The bytes that were sent between two readings of the counters.

#pragma once

#include "comm/communicator.hpp"
#include "core/traffic.hpp"

namespace eqt::sync {

inline void count_bytes(const comm::ByteCount& before, const comm::ByteCount& now,
                        Traffic& traffic) {
  traffic.sent_bytes += now.sent_bytes - before.sent_bytes;
  traffic.received_bytes += now.received_bytes - before.received_bytes;
  traffic.messages += now.messages - before.messages;
}

}  // namespace eqt::sync
