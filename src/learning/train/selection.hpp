// SPDX-License-Identifier: Apache-2.0
// Which evaluation was the best so far, and whether training should stop.

#pragma once

#include <cstdint>

#include "core/saved_state.hpp"
#include "model/replica.hpp"

namespace eqt::train {

/// Returns a number that is better if it is larger: the main metric, or the loss below 0.
double score_of(const model::Measures& measures, const model::Evaluation& evaluation);

class Selection {
 public:
  struct Options {
    std::uint64_t early_stopping = 0;  // epochs without a better evaluation; 0 = it never stops
    bool keeps_best = false;
  };
  struct Verdict {
    bool is_best = false;  // better than all before
    bool stop = false;
  };

  explicit Selection(const Options& options) : options_(options) {}

  bool is_on() const { return options_.keeps_best || options_.early_stopping > 0; }
  /// @param epoch number of the epoch that was evaluated, from 1
  Verdict note(std::uint64_t epoch, double score);
  std::uint64_t best_epoch() const { return best_epoch_; }
  bool has_stopped() const { return stopped_; }

  void visit_state(StateVisitor& visitor);

 private:
  Options options_;
  double best_ = 0;
  std::uint64_t best_epoch_ = 0;  // 0: none was evaluated
  bool stopped_ = false;
};

}  // namespace eqt::train
