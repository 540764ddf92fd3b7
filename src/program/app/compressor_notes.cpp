// SPDX-License-Identifier: Apache-2.0
#include "app/compressor_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "config/synchronization_checks.hpp"
#include "setup/build_messages.hpp"

namespace eqt::app {
namespace {

// A step changes every value by the learning rate; the rates of stochastic gradient descent are far
// larger.
constexpr double kLargestSignRate = 0.01;

// A bound from which training without error feedback was seen to end lower (docs/choosing.md).
constexpr double kFeltVariance = 0.2;

struct VarianceBound {
  std::optional<double> variance;  // the largest over tensors; empty if one has no bound
  std::size_t tensors = 0;         // compressed ones
};

VarianceBound bound_of(const config::RunConfig& config, const Layout& layout,
                       const codec::Compressor& compressor) {
  VarianceBound bounds{.variance = 0.0};
  for (const pipeline::FusionBucket& bucket : setup::make_plan(config, layout, compressor)) {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed) continue;
      ++bounds.tensors;
      const auto bound = compressor.variance_bound(segment.count);
      if (!bound || !bounds.variance) {
        bounds.variance.reset();
      } else {
        bounds.variance = std::max(*bounds.variance, *bound);
      }
    }
  }
  return bounds;
}

/// Empty: what is not sent is lost.
std::optional<std::string> memory_of(const config::RunConfig& config,
                                     const codec::Properties& properties) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.averages()) return fmt::format("by the algorithm {}", algorithm.name);
  if (properties.forgets_sent || properties.votes) return "its own";
  const config::ErrorFeedback feedback = config::settled_feedback(config, properties);
  if (feedback == config::ErrorFeedback::none) return {};
  return std::string(name_of(feedback));
}

}  // namespace

std::vector<std::string> noise_notes(const config::RunConfig& config) {
  if (!config.compressor.adapts_grades()) return {};
  const std::string_view name = config.compressor.name->name;
  if (config.train.is_emulated())
    return {fmt::format(
        "compressor {}: gradients of emulated boards are drawn, so all of them is noise, and "
        "grades say nothing about those of a network",
        name)};
  const data::PartitionRow& partition = *config.data.partition.kind;
  if (partition.reshuffles) return {};
  return {fmt::format(
      "warning: compressor {}: expected data.partition.kind \"iid\", found \"{}\": what ranks' "
      "data differ in counts as noise, so compression adds more than compressor.noise_share {}; "
      "try a smaller one",
      name, partition.name, config.compressor.noise_share)};
}

std::vector<std::string> compressor_notes(const config::RunConfig& config, const Layout& layout) {
  const auto compressor = config.compressor.make();
  const codec::Properties properties = compressor->properties();
  if (properties.lossless) return {};
  const VarianceBound bounds = bound_of(config, layout, *compressor);
  const std::string_view name = config.compressor.name->name;
  if (bounds.tensors == 0)
    return {
        fmt::format("compressor: {}: every tensor is below compressor.skip_below {} or has one "
                    "dimension, and is sent as float32",
                    name, config.compressor.skip_below)};
  const std::optional<std::string> memory = memory_of(config, properties);
  const std::string variance = bounds.variance ? fmt::format("at most {:.3g}", *bounds.variance)
                                               : std::string("no bound is known");
  std::vector<std::string> notes = {fmt::format(
      "compressor: {}, {}; error feedback: {}; variance of a message, relative to the "
      "gradient's square: {}",
      name, properties.unbiased ? "unbiased" : "biased", memory.value_or("none"), variance)};
  // Grades that are too noisy for a run's gradients are not chosen.
  if (bounds.variance && *bounds.variance > 1 && !memory && !config.compressor.adapts_grades())
    notes.push_back(fmt::format(
        "warning: compressor {}: expected a variance bound of at most 1 without error feedback, "
        "found {:.3g}: the error may be larger than the gradient; try more compressor.bits, a "
        "smaller compressor.bucket_size, or elastiquant, whose bound at equal bits is lower",
        name, *bounds.variance));
  if (bounds.variance && *bounds.variance >= kFeltVariance && *bounds.variance < 1 && !memory &&
      !properties.scales_up && !config.compressor.adapts_grades())
    notes.push_back(
        "compressor: with synchronization.error_feedback \"ef14\" the same bytes ended at a higher "
        "accuracy where that was measured (docs/choosing.md); it keeps a residual of the model's "
        "size");
  std::ranges::move(noise_notes(config), std::back_inserter(notes));
  const double ef21_momentum = config.synchronization.ef21_momentum;
  if (ef21_momentum < 1 && config.optimizer.momentum > 0)
    notes.push_back(fmt::format(
        "warning: synchronization.ef21_momentum {}: expected optimizer.momentum 0, since momentum "
        "after momentum delays a gradient twice, found {}; set it to 0",
        ef21_momentum, config.optimizer.momentum));
  if (properties.votes && config.optimizer.learning_rate > kLargestSignRate)
    notes.push_back(fmt::format(
        "warning: compressor {}: expected optimizer.learning_rate of at most {}, by which every "
        "value moves in a step, found {}; try 0.001",
        name, kLargestSignRate, config.optimizer.learning_rate));
  return notes;
}

}  // namespace eqt::app
