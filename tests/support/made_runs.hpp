// SPDX-License-Identifier: Apache-2.0
// Runs as read by a report, with known figures.

#pragma once

#include <string>
#include <vector>

#include "report/run.hpp"

namespace eqt::test {

using report::Epoch;
using report::Run;

/// Two seeds of two compressors; the second one's second loss is not finite.
inline std::vector<Run> made_runs(const std::string& name) {
  std::vector<Run> runs;
  for (const int i : {0, 1, 2, 3}) {
    Run run;
    run.dataset = "cifar10";
    run.seed = std::to_string(i % 2);
    run.ranks = 2;
    run.finished = true;
    run.settings = {{"compressor.name", i < 2 ? "none" : name}};
    run.compressor = run.setting("compressor.name");
    run.class_histogram = {{10, 20}, {30, 40}};
    for (const int e : {1, 2, 3}) {
      Epoch epoch;
      epoch.epoch = static_cast<std::uint64_t>(e);
      epoch.step = 10 * epoch.epoch;
      epoch.train_loss = 4.0 / e + 0.1 * i;
      if (i >= 2 && e == 2) epoch.train_loss = {};
      if (e != 2) epoch.test_accuracy = 0.2 * e + 0.01 * i;
      epoch.seconds.total = 5;
      epoch.sent_bytes = 2000000;
      run.epochs.push_back(epoch);
    }
    run.outcome.epochs = 3;
    run.outcome.test_accuracy = run.epochs[2].test_accuracy;
    run.outcome.sent_bytes = 6000000;
    run.outcome.bits_per_value = 32;
    run.outcome.step_seconds.compute = 0.25;
    run.outcome.step_seconds.transfer = 0.5;
    run.outcome.step_seconds.total = 0.75;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace eqt::test
