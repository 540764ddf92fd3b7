// SPDX-License-Identifier: Apache-2.0
// The costs of a synchronization for one rank.

#pragma once

#include <cstdint>

namespace eqt {

struct Traffic {
  std::uint64_t sent_bytes = 0;  // headers included; see docs/collectives.md
  std::uint64_t received_bytes = 0;
  std::uint64_t messages = 0;        // sent
  std::uint64_t encoded_bytes = 0;   // of this rank's own message, frames included, counted once
  std::uint64_t encoded_values = 0;  // gradient values in that message
  double encode_seconds = 0;
  double transfer_seconds = 0;  // with overlap: only the time that computing did not hide
  double decode_seconds = 0;

  Traffic& operator+=(const Traffic& other) {
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    messages += other.messages;
    encoded_bytes += other.encoded_bytes;
    encoded_values += other.encoded_values;
    encode_seconds += other.encode_seconds;
    transfer_seconds += other.transfer_seconds;
    decode_seconds += other.decode_seconds;
    return *this;
  }
};

}  // namespace eqt
