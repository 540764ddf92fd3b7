// SPDX-License-Identifier: Apache-2.0
#include "train/selection.hpp"

#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::train;

TEST_CASE("the best evaluation is the first of the highest", "[selection]") {
  Selection selection({.early_stopping = 0, .keeps_best = true});
  CHECK(selection.note(1, 0.5).is_best);
  CHECK_FALSE(selection.note(2, 0.5).is_best);
  CHECK_FALSE(selection.note(3, 0.4).is_best);
  CHECK(selection.note(4, 0.6).is_best);
  CHECK(selection.best_epoch() == 4);
  CHECK_FALSE(selection.has_stopped());
}

TEST_CASE("metrics below 0 are compared as well", "[selection]") {
  Selection selection({.early_stopping = 0, .keeps_best = true});
  CHECK(selection.note(1, -2).is_best);
  CHECK(selection.note(2, -1).is_best);
  CHECK_FALSE(selection.note(3, -3).is_best);
}

TEST_CASE("training stops after the epochs of patience", "[selection]") {
  Selection selection({.early_stopping = 2, .keeps_best = false});
  CHECK_FALSE(selection.note(1, 0.5).stop);
  CHECK_FALSE(selection.note(2, 0.4).stop);
  CHECK(selection.note(3, 0.5).stop);
  CHECK(selection.has_stopped());
  CHECK(selection.best_epoch() == 1);
}

TEST_CASE("patience counts epochs, not evaluations", "[selection]") {
  Selection selection({.early_stopping = 4, .keeps_best = false});
  CHECK_FALSE(selection.note(3, 0.5).stop);
  CHECK_FALSE(selection.note(6, 0.5).stop);
  CHECK(selection.note(9, 0.5).stop);
}

TEST_CASE("a selection that is off notes nothing", "[selection]") {
  Selection selection({});
  CHECK_FALSE(selection.is_on());
  CHECK_FALSE(selection.note(1, 1).is_best);
  CHECK_FALSE(selection.note(100, 0).stop);
}

TEST_CASE("scores are in the order of losses where a metric follows from the loss", "[selection]") {
  // Of losses above 709 the perplexity is no number.
  const model::Measures measures{.task = model::tasks::language_model, .outputs = 8};
  const auto score = [&](double loss) {
    return score_of(measures, {.loss_sum = 4 * loss, .count = 4});
  };
  CHECK(score(2047) > score(3734));
  CHECK(score(97) > score(2047));
  CHECK(score(1.5) > score(97));
  const model::Measures accuracy{.task = model::tasks::classification, .outputs = 10};
  CHECK(score_of(accuracy, {.loss_sum = 9, .count = 4, .sums = {3, 4}}) >
        score_of(accuracy, {.loss_sum = 1, .count = 4, .sums = {2, 4}}));
}
