// SPDX-License-Identifier: Apache-2.0
#include "config/quorum_checks.hpp"

#include <string_view>

#include "core/error.hpp"

namespace eqt::config {

void check_quorum(const RunConfig& config, const codec::Properties& properties,
                  const std::string& origin) {
  const auto& s = config.synchronization;
  const auto refuse = [&](std::string_view key, std::string_view expected, std::string_view why,
                          std::string_view found) {
    fail(Kind::usage, "{}: expected {} {} with synchronization.quorum, {}, found {}", origin, key,
         expected, why, found);
  };
  if (s.quorum == 0) {
    if (!s.grace_seconds) return;
    fail(Kind::usage,
         "{}: expected synchronization.quorum above 0 with synchronization.grace_seconds, found 0; "
         "set it or leave both out",
         origin);
  }
  if (!s.local_steps.count)
    refuse("synchronization.local_steps", "as an integer", "whose ranks have no step in common",
           fmt::format("\"{}\"", kQsr));
  if (s.delay.count == 0u)
    refuse("synchronization.delay", "of at least 1", "during which rounds close",
           "0; try \"auto\"");
  if (s.fragments != 1)
    refuse("synchronization.fragments", "1", "whose rounds are of the whole model",
           fmt::format("{}", s.fragments));
  if (s.outer.mixing.value)
    refuse("synchronization.outer.mixing", "null", "in which all progress counts",
           fmt::format("{}", *s.outer.mixing.value));
  if (s.outer.by_rate)
    refuse("synchronization.outer.by_rate", "false",
           "whose members have no learning rate in common", "true");
  if (!s.overlap)
    refuse("synchronization.overlap", "true", "whose rounds close during the steps", "false");
  if (!(s.collective == collective::kAutomatic) && !(s.collective == collective::kAllgather))
    refuse("synchronization.collective", "\"auto\" or \"allgather\"",
           "whose members send to all ranks", fmt::format("\"{}\"", s.collective->name));
  if (properties.shared_scale || properties.averages_itself)
    refuse(
        "another compressor.name", "", "whose members send to all ranks at once",
        fmt::format("\"{}\", which first agrees on values with all", config.compressor.name->name));
  if (config.compressor.make()->adaptive_levels() != nullptr)
    refuse("compressor.name", "one whose levels do not adapt",
           "whose ranks share no step in which they could",
           fmt::format("\"{}\"; set another, or other compressor.levels",
                       config.compressor.name->name));
  if (config.train.on_divergence == OnDivergence::rollback)
    refuse("train.on_divergence", "\"stop\"", "whose ranks have no step in common to go back to",
           "\"rollback\"");
  if (config.train.early_stopping != 0)
    refuse("train.early_stopping", "0", "whose last round belongs to a known end",
           fmt::format("{}", config.train.early_stopping));
}

}  // namespace eqt::config
