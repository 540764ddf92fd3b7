// Small words of the collectives' own messages. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collective/plan.hpp"
#include "comm/transfers.hpp"
#include "core/error.hpp"

namespace eqt::collective {

/// In the index of a message that carries means, not contributions.
inline constexpr std::uint32_t kReducedBit = 0x80000000u;

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

/// For messages without a frame: their channel differs from step to step too, so that the message
/// of a rank that fell out of step is never taken for the one that is waited for.
inline comm::Route route_of(const FusionBucket& bucket, StepId step) {
  constexpr std::uint32_t kUsable = comm::Transfers::kChannels - 1;
  constexpr std::uint32_t kStride = 7919;  // prime, and more buckets than models have
  const auto turn = static_cast<std::uint32_t>(step % kUsable) * kStride;
  return {.channel = 1 + (bucket.index + turn % kUsable) % kUsable, .priority = bucket.index};
}

/// @throws Error{wire} unless exactly `bytes` arrived
inline void require_bytes(const comm::Incoming& in, std::size_t bytes, const char* operation) {
  if (in.bytes == bytes) return;
  fail(Kind::wire,
       "{}: expected {} bytes from rank {}, found {}; the ranks run different configs or builds",
       operation, bytes, in.from, in.bytes);
}

/// Throws `error` again with what a refused message leaves out.
[[noreturn]] inline void rethrow_refused(const Error& error, std::string_view collective,
                                         StepId step, Rank from) {
  throw Error(error.kind(),
              fmt::format("step {}, {}, from rank {}: {}", step, collective, from, error.what()));
}

}  // namespace eqt::collective
