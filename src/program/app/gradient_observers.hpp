// SPDX-License-Identifier: Apache-2.0
// Observers write gradients during a run: a rank's own, every few steps, to a file
// (output.dump_gradients); for TensorBoard, histograms of gradients and of level usage at the end
// of each epoch, and the samples of the first step.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "metrics/sink.hpp"
#include "model/replica.hpp"
#include "train/gradient_observer.hpp"

namespace eqt::app {

/// Histograms "gradient/all" and "gradient/TENSOR" for tensors that are compressed (others are
/// small), of rank 0's own gradient; and "level_usage", the codes -n to n of that gradient, if
/// ranks average gradients with a level codec tensor by tensor: with the random numbers of the
/// step, but without error feedback and shared scales.
/// @param compressor of the run, whose current levels are used
std::unique_ptr<train::GradientObserver> make_gradient_histograms(
    const config::RunConfig& config, model::Replica& replica, const codec::Compressor& compressor,
    metrics::Sink& sink);

/// The histogram of codes from -n to n.
/// @param counts 2n + 1 of them
metrics::HistogramRecord code_histogram(StepId step, std::span<const std::uint64_t> counts);

/// Passes each step to those of both that ask for it. Either may be null; if both are, the result
/// is null.
std::unique_ptr<train::GradientObserver> make_both_observers(
    std::unique_ptr<train::GradientObserver> first,
    std::unique_ptr<train::GradientObserver> second);

struct GradientDumpOptions {
  std::string run_folder;
  StepId every = 1;
  Rank rank = 0;               // whose gradient
  std::size_t batch_size = 0;  // of this rank
};

/// Writes the gradient of every `every`th step (metrics/gradient_file.hpp) when the step is done.
/// Copies each slice when backward has completed it, because ranks average in place.
/// @throws Error{output} if the folder cannot be made; later, if a file cannot be written
std::unique_ptr<train::GradientObserver> make_gradient_dump(model::Replica& replica,
                                                            const GradientDumpOptions& options);

}  // namespace eqt::app
