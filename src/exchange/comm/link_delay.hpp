// SPDX-License-Identifier: Apache-2.0
// A slower network than the real one: messages are held at their receiver, for experiments.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/layout.hpp"

namespace eqt::comm {

/// A message counts as received this much later than it arrived.
struct LinkDelay {
  double latency_seconds = 0;
  double jitter_seconds = 0;      // on top: uniform in [0, jitter_seconds)
  std::uint64_t seed = 1;         // of the jitter
  std::optional<Rank> rank = {};  // only what this rank receives; empty: all ranks

  bool operator==(const LinkDelay&) const = default;
};

/// Reads "latency_ms=50,jitter_ms=20,seed=1,rank=2" in any order; latency_ms or jitter_ms is
/// needed, each at most 60000.
/// @throws Error{usage} for any other text
LinkDelay parse_link_delay(std::string_view text);

/// Returns what parse_link_delay() reads, with every setting but an unset rank.
std::string text_of(const LinkDelay& delay);

inline constexpr const char* kLinkVariable = "EQT_LINK";

/// Returns what the environment variable says; empty: it is not set.
/// @throws Error{usage} as parse_link_delay(), or for a rank that is not there
std::optional<LinkDelay> link_delay_from_environment(int ranks);

/// Returns how long a message is held [seconds]: a pure function of its arguments.
/// @param number of earlier messages of this channel from `sender` to `receiver`
double seconds_held(const LinkDelay& delay, Rank sender, Rank receiver, std::uint32_t channel,
                    std::uint64_t number);

}  // namespace eqt::comm
