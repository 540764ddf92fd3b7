// Small words of the collectives' own messages. Private to the room.

#pragma once

#include <cstddef>

#include "collective/plan.hpp"
#include "comm/transfers.hpp"
#include "core/error.hpp"

namespace eqt::collective {

/// Messages of a bucket travel on a channel of its own, in the plan's order of urgency.
inline comm::Route route_of(const FusionBucket& bucket) {
  return {.channel = 1 + bucket.index % (comm::Transfers::kChannels - 1), .priority = bucket.index};
}

/// Index of a message that carries partial sums: a bucket's messages of different hops are never
/// taken for one another. Hop 0 has the bucket's own index.
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
