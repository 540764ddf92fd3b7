// SPDX-License-Identifier: Apache-2.0
// output.dump_gradients: writes a rank's own gradient to a file every few steps.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/layout.hpp"
#include "model/replica.hpp"
#include "train/gradient_observer.hpp"

namespace eqt::app {

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
