// SPDX-License-Identifier: Apache-2.0
#include "config/auto_checks.hpp"

#include "config/chosen_grades.hpp"
#include "core/error.hpp"
#include "data/partition_plan.hpp"

namespace eqt::config {

void check_auto(const RunConfig& config, const std::string& origin) {
  const CompressorConfig& compressor = config.compressor;
  if (!compressor.adapts_grades()) {
    if (!compressor.replay.empty())
      fail(Kind::usage,
           "{}: expected compressor.name \"auto\", compressor.bits \"auto\" or "
           "compressor.elasticity \"measured\" with compressor.replay, which repeats decisions "
           "about grades, found the compressor \"{}\" as it is; leave compressor.replay out",
           origin, compressor.name->name);
    return;
  }
  const std::string cause = setting_of_grades(compressor);
  if (compressor.noise_cap < compressor.noise_share)
    fail(Kind::usage,
         "{}: expected compressor.noise_cap of at least compressor.noise_share {}, found {}; raise "
         "it",
         origin, compressor.noise_share, compressor.noise_cap);
  if (compressor.observe_every < 2 && !(config.data.partition.kind == data::kIidPartition))
    fail(Kind::usage,
         "{}: expected compressor.observe_every of at least 2 with data.partition.kind \"{}\", "
         "where pairs of steps are observed, found {}; raise it",
         origin, config.data.partition.kind->name, compressor.observe_every);
  const auto& s = config.synchronization;
  if (!s.algorithm->averages_gradients || s.algorithm->lazy)
    fail(
        Kind::usage,
        "{}: expected synchronization.algorithm \"allreduce\" with {}, which measures the noise of "
        "gradients, found \"{}\"; set one of the two",
        origin, cause, s.algorithm->name);
  if (s.error_feedback == ErrorFeedback::ef14 || s.error_feedback == ErrorFeedback::ef21)
    fail(
        Kind::usage,
        "{}: expected synchronization.error_feedback \"auto\" or \"none\" with {}, which keeps the "
        "mean unbiased, found \"{}\"; leave it out",
        origin, cause, name_of(s.error_feedback));
}

}  // namespace eqt::config
