// SPDX-License-Identifier: Apache-2.0
// An exponential moving average of a replica's parameters and running statistics.
//
// Source   B. Polyak, A. Juditsky, SIAM J. Control Optim. 30 (1992), for the plain mean; the decay
//          of the first steps is that of TensorFlow's ExponentialMovingAverage with num_updates
// Step     a <- d a + (1 - d) x, where d = min(decay, (1 + t) / (10 + t)) and t is the number of
//          steps before

#pragma once

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"
#include "model/replica.hpp"

namespace eqt::train {

class WeightAverage {
 public:
  /// @pre 0 < decay < 1
  explicit WeightAverage(double decay) : decay_(decay) {}

  /// The average is the replica as it is.
  void start(model::Replica& replica);
  /// Called after step number `step`, from 0. @pre start() or a restored state
  void update(model::Replica& replica, StepId step);
  /// The replica gets the average, and this object what the replica had.
  void exchange_with(model::Replica& replica);
  /// @param models rule by which the models of ranks are converted
  void visit_state(StateVisitor& visitor, model::Replica& replica, Across models);

 private:
  void make_room(model::Replica& replica);

  double decay_;
  FlatBuffer parameters_, buffers_;
};

}  // namespace eqt::train
