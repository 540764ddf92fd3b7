// SPDX-License-Identifier: Apache-2.0
#include "train/selection.hpp"

#include <array>
#include <cmath>

namespace eqt::train {

double score_of(const model::Measures& measures, const model::Evaluation& evaluation) {
  const metrics::MetricRecord main = measures.of(&evaluation).front();
  // A main metric that is better the lower it is grows with the loss, and may be too large for a
  // number, as a perplexity.
  return main.higher_is_better && std::isfinite(main.value) ? main.value : -evaluation.loss();
}

Selection::Verdict Selection::note(std::uint64_t epoch, double score) {
  if (!is_on()) return {};
  Verdict verdict;
  verdict.is_best = best_epoch_ == 0 || score > best_;
  if (verdict.is_best) {
    best_ = score;
    best_epoch_ = epoch;
  }
  stopped_ = options_.early_stopping > 0 && epoch - best_epoch_ >= options_.early_stopping;
  verdict.stop = stopped_;
  return verdict;
}

void Selection::visit_state(StateVisitor& visitor) {
  std::array<std::uint64_t, 2> numbers = {best_epoch_, stopped_ ? 1u : 0u};
  visitor.real("best", best_, Across::same);
  visitor.numbers("best epoch, stopped", numbers, Across::same);
  if (!visitor.restores()) return;
  best_epoch_ = numbers[0];
  stopped_ = numbers[1] != 0;
}

}  // namespace eqt::train
