// SPDX-License-Identifier: Apache-2.0
// Helpers for the collectives' own messages. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "codec/message.hpp"
#include "comm/transfers.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/traffic.hpp"
#include "pipeline/messages.hpp"

namespace eqt::collective {

/// This bit in a message's index marks means; it is 0 in contributions.
inline constexpr std::uint32_t kReducedBit = 0x80000000u;

/// Index of a message with partial sums, different for each hop of a bucket. Hop 0 has the bucket's
/// own index.
inline std::uint32_t hop_index(std::uint32_t bucket, std::uint32_t hop) {
  constexpr std::uint32_t kHops = 2048, kBucketBits = 20;
  return bucket ^ (hop % kHops << kBucketBits);
}

/// @throws Error{wire} unless exactly `bytes` arrived
inline void require_bytes(const comm::Incoming& in, std::size_t bytes, const char* operation) {
  if (in.bytes == bytes) return;
  fail(Kind::wire,
       "{}: expected {} bytes from rank {}, found {}; the ranks run different configs or builds",
       operation, bytes, in.from, in.bytes);
}

/// Runs read(), which reads a message of the rank `from`; a refusal names step, operation and
/// sender.
template <typename Read>
void naming_sender(std::string_view operation, StepId step, Rank from, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    pipeline::rethrow_refused(error, operation, step, from);
  }
}

/// Counts a message as sent to so many ranks, which receive it, with its checksum: those that one
/// process plays send nothing.
inline void count_sent(std::size_t bytes, std::size_t receivers, Traffic& traffic) {
  const std::uint64_t all = std::uint64_t{bytes + kChecksumBytes} * receivers;
  traffic.sent_bytes += all;
  traffic.received_bytes += all;
  traffic.messages += receivers;
}

/// Counts a message of these segments as encoded.
inline void count_encoded(std::span<const codec::Segment> segments, std::size_t bytes,
                          Traffic& traffic) {
  traffic.encoded_bytes += bytes;
  for (const codec::Segment& segment : segments) traffic.encoded_values += segment.count;
}

}  // namespace eqt::collective
