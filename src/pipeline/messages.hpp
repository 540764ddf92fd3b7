// Small words about messages of buckets.

#pragma once

#include <cstdint>
#include <string_view>

#include "comm/transfers.hpp"
#include "core/error.hpp"
#include "pipeline/plan.hpp"

namespace eqt::pipeline {

/// Messages of a bucket travel on a channel of its own, in the plan's order of urgency.
inline comm::Route route_of(const FusionBucket& bucket) {
  return {.channel = 1 + bucket.index % (comm::Transfers::kChannels - 1), .priority = bucket.index};
}

/// For messages without a frame: their channel differs from step to step too, so that the message
/// of a rank that fell out of step is never taken for the one that is waited for.
inline comm::Route route_of(const FusionBucket& bucket, StepId step) {
  constexpr std::uint32_t kUsable = comm::Transfers::kChannels - 1;
  constexpr std::uint32_t kStride = 7919;  // prime, and more buckets than models have
  const auto turn = static_cast<std::uint32_t>(step % kUsable) * kStride;
  return {.channel = 1 + (bucket.index + turn % kUsable) % kUsable, .priority = bucket.index};
}

/// Throws `error` again with what a refused message leaves out.
/// @param operation the collective or gossip algorithm
[[noreturn]] inline void rethrow_refused(const Error& error, std::string_view operation,
                                         StepId step, Rank from) {
  throw Error(error.kind(),
              fmt::format("step {}, {}, from rank {}: {}", step, operation, from, error.what()));
}

}  // namespace eqt::pipeline
