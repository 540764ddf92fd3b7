// SPDX-License-Identifier: Apache-2.0
// Parameters that are not trained are in no layout, and change nothing for the others.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/own/own_replica.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kShape{3, 32, 32};

ModelOptions with_frozen(std::vector<std::string> patterns) {
  return {
      .model = models::resnet20, .inputs = test::pictures(kShape), .freeze = std::move(patterns)};
}

std::string refusal(std::vector<std::string> patterns) {
  return test::refusal(Kind::usage, [&] { make_replica(with_frozen(std::move(patterns))); });
}

using Made = std::unique_ptr<Replica>;
Made make_with_torch(const ModelOptions& options) { return make_replica(options); }
Made make_own(const ModelOptions& options) { return make_float32_replica(options); }
Made make_rounded(const ModelOptions& options) { return make_int8_replica(options); }

const TensorSlice& slice_named(const Layout& layout, const std::string& name) {
  return *std::ranges::find(layout, name, &TensorSlice::name);
}

TEST_CASE("gradients of the others are the same as without frozen parameters", "[frozen]") {
  const auto make = GENERATE(&make_with_torch, &make_own, &make_rounded);
  const auto whole = make(with_frozen({}));
  const auto part = make(with_frozen({"conv1.*", "bn1.*", "layer1.*", "*.bn2.bias"}));
  CHECK(whole->frozen().empty());
  CHECK(part->frozen().size() + part->parameters().size() == whole->parameters().size());
  const data::Batch batch = random_batch(8, kShape);
  std::set<std::size_t> announced;
  const double loss = whole->forward_backward(batch, {});
  CHECK(part->forward_backward(batch, [&](std::size_t slice) { announced.insert(slice); }) == loss);
  CHECK(announced.size() == part->layout().size());
  for (const TensorSlice& slice : part->layout()) {
    INFO(slice.name);
    CHECK_FALSE(slice.name.starts_with("layer1."));
    const TensorSlice& same = slice_named(whole->layout(), slice.name);
    CHECK(std::ranges::equal(part->gradient().subspan(slice.offset, slice.count),
                             whole->gradient().subspan(same.offset, same.count)));
  }
}

TEST_CASE("weights are saved and loaded with those that are frozen", "[frozen]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/model.pt";
  ModelOptions other = with_frozen({});
  other.seed = 2;
  const auto source = make_replica(other);
  source->save_weights(path);
  const auto make = GENERATE(&make_with_torch, &make_own);
  const auto frozen = make(with_frozen({"layer*"}));
  frozen->load_weights(path);
  frozen->save_weights(path);
  const auto copy = make_replica(with_frozen({}));
  copy->load_weights(path);
  CHECK(std::ranges::equal(copy->parameters(), source->parameters()));
}

TEST_CASE("the state of a replica has its frozen parameters", "[frozen]") {
  const auto make = GENERATE(&make_with_torch, &make_own);
  const auto frozen = make(with_frozen({"layer*"}));
  const auto spans = test::spans_of(*frozen, Across::same);
  CHECK(std::ranges::any_of(spans, [&](std::span<float> values) {
    return values.data() == frozen->frozen().data() && values.size() == frozen->frozen().size();
  }));
}

TEST_CASE("patterns of nothing and of everything are refused", "[frozen]") {
  test::says(refusal({"layer1.*", "head.*"}), "head.*");
  test::says(refusal({"*"}), "at least one parameter");
}

TEST_CASE("mixup's loss is the weighted sum of two on the mixture", "[mixup]") {
  // A batch that is its own reverse: the mixture is the batch, whatever the share.
  ModelOptions options = with_frozen({});
  const auto plain = make_replica(options);
  options.task.mixup = 0.4;
  const auto mixed = make_replica(options);
  data::Batch batch = random_batch(2, kShape);
  const auto images = batch.inputs[0].get<float>();
  std::copy_n(images.begin(), images.size() / 2, images.begin() + std::ssize(images) / 2);
  const auto labels = batch.targets.get<std::int64_t>();
  labels[1] = labels[0];
  const double loss = plain->forward_backward(batch, {});
  CHECK(mixed->forward_backward(batch, {}) == Approx(loss).epsilon(1e-5));
  for (std::size_t i = 0; i < plain->gradient().size(); i += 997)
    CHECK(mixed->gradient()[i] == Approx(plain->gradient()[i]).margin(1e-4));
  // Another one: the loss differs, from batch to batch too.
  const data::Batch usual = random_batch(8, kShape);
  const double first = mixed->forward_backward(usual, {});
  CHECK(first != plain->forward_backward(usual, {}));
  CHECK(mixed->forward_backward(usual, {}) != first);
  CHECK(mixed->evaluate(usual).count == 8);
}

}  // namespace
}  // namespace eqt::model
