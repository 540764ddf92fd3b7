// SPDX-License-Identifier: Apache-2.0
#include "report/quantities.hpp"

#include <array>

namespace eqt::report {
namespace {

Figure step_seconds(const Run& run) {
  const double seconds = run.outcome.step_seconds.total;
  return seconds > 0 ? finite(seconds) : Figure();
}

constexpr Digits kLoss{4}, kThree{-1, 3}, kFour{-1, 4};

constexpr std::array kQuantities{
    Quantity{"test_accuracy", "test accuracy [%]", kPercent, 100, true, test_accuracy},
    Quantity{"best_test_accuracy", "best [%]", kPercent, 100, false,
             [](const Run& run) { return run.outcome.best_test_accuracy; }},
    Quantity{"node_test_accuracy_mean", "nodes' mean [%]", kPercent, 100, false,
             [](const Run& run) { return run.outcome.node_accuracy_mean; }},
    Quantity{"node_test_accuracy_min", "worst node [%]", kPercent, 100, false,
             [](const Run& run) { return run.outcome.node_accuracy_min; }},
    Quantity{"train_loss", "train loss", kLoss, 1, true,
             [](const Run& run) { return run.outcome.train_loss; }},
    Quantity{"test_loss", "test loss", kLoss, 1, false,
             [](const Run& run) { return run.outcome.test_loss; }},
    Quantity{"step_seconds", "s per step", kFour, 1, true, step_seconds},
    Quantity{"images_per_second",
             "images/s",
             {1},
             1,
             false,
             [](const Run& run) { return run.outcome.images_per_second; }},
    Quantity{"sent_bytes_per_rank", "sent per rank [MB]", kFour, 1e-6, true, bytes_per_rank},
    Quantity{"compression_ratio",
             "ratio",
             {2},
             1,
             true,
             [](const Run& run) { return run.outcome.compression_ratio; }},
    Quantity{"bits_per_value",
             "bits/value",
             {3},
             1,
             true,
             [](const Run& run) { return run.outcome.bits_per_value; }},
    Quantity{"quantization_variance", "variance", kThree, 1, true,
             [](const Run& run) { return run.outcome.quantization_variance; }},
    Quantity{"mean_quantization_variance", "mean's variance", kThree, 1, true,
             [](const Run& run) { return run.outcome.mean_quantization_variance; }},
    Quantity{"consensus_distance", "consensus distance", kThree, 1, true,
             [](const Run& run) { return run.outcome.consensus_distance; }},
    Quantity{"wall_seconds",
             "wall [s]",
             {1},
             1,
             false,
             [](const Run& run) { return run.outcome.wall_seconds; }},
    Quantity{"peak_rss_mib",
             "peak [MiB]",
             {0},
             1,
             false,
             [](const Run& run) { return run.outcome.peak_rss_mib; }},
};

}  // namespace

Figure test_accuracy(const Run& run) { return run.outcome.test_accuracy; }

Figure bytes_per_rank(const Run& run) {
  if (run.epochs.empty() && !run.finished) return {};
  return static_cast<double>(run.outcome.sent_bytes) / run.ranks;
}

std::span<const Quantity> quantities() { return kQuantities; }

}  // namespace eqt::report
