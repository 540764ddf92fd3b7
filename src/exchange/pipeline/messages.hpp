// SPDX-License-Identifier: Apache-2.0
// Helpers for messages of buckets.

#pragma once

#include <cstdint>
#include <string_view>

#include "comm/transfers.hpp"
#include "core/error.hpp"
#include "pipeline/plan.hpp"

namespace eqt::pipeline {

/// The channels of messages with a frame are below this one, those without a frame from it on: one
/// bucket's message and another's scales may be under way between the same ranks in either order.
inline constexpr std::uint32_t kFirstUnframedChannel = comm::Transfers::kChannels / 2;

/// Each bucket has a channel for its messages. The plan's order is the priority.
inline comm::Route route_of(const FusionBucket& bucket) {
  return {.channel = 1 + bucket.index % (kFirstUnframedChannel - 1), .priority = bucket.index};
}

/// Returns the route of messages without a frame. Their channel also differs from step to step, so
/// that the message of a rank that is in another step is not received instead.
inline comm::Route route_of(const FusionBucket& bucket, StepId step) {
  constexpr std::uint32_t kUsable = comm::Transfers::kChannels - kFirstUnframedChannel;
  constexpr std::uint32_t kStride = 7919;  // prime, and more than any model has buckets
  const auto turn = static_cast<std::uint32_t>(step % kUsable * kStride % kUsable);
  return {.channel = kFirstUnframedChannel + (bucket.index + turn) % kUsable,
          .priority = bucket.index};
}

/// Throws `error` again, with step, sender and operation added to the message about a refused
/// frame.
/// @param operation the collective or gossip algorithm
[[noreturn]] inline void rethrow_refused(const Error& error, std::string_view operation,
                                         StepId step, Rank from) {
  throw Error(error.kind(),
              fmt::format("step {}, {}, from rank {}: {}", step, operation, from, error.what()));
}

}  // namespace eqt::pipeline
