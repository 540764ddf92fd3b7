// SPDX-License-Identifier: Apache-2.0
// Helpers for the collectives' own messages. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/transfers.hpp"
#include "core/error.hpp"
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

}  // namespace eqt::collective
