// SPDX-License-Identifier: Apache-2.0
// Parameters that are not trained are in no layout, and change nothing for the others.

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/own/own_replica.hpp"
#include "model/own/workspace.hpp"
#include "model/replica.hpp"
#include "model/unit/int8_support.hpp"
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

/// A network and patterns of what is frozen in it.
struct Frozen {
  Entry<ModelRow> model;
  std::vector<std::string> patterns;
  Entry<NormalizationRow> norm = normalizations::batchnorm;
  Shortcut shortcut = Shortcut::projection;
};

TEST_CASE("gradients of the others are the same as without frozen parameters", "[frozen]") {
  using namespace models;
  const auto make = GENERATE(&make_with_torch, &make_own, &make_rounded);
  // A beginning, all but the last layer, all but a branch beside frozen ones, layers in the middle,
  // convolutions or norms alone, a bias.
  const auto [model, patterns, norm, shortcut] = GENERATE(values<Frozen>({
      {resnet20, {"conv1.*", "bn1.*", "layer1.*", "*.bn2.bias"}},
      {resnet20,
       {"conv*", "bn1.*", "layer?.0.*", "layer?.2.*"},
       normalizations::batchnorm,
       Shortcut::padding},
      {resnet20, {"*conv?.weight", "*downsample.0.*", "fc.*"}},
      {resnet20, {"*bn?.*", "*downsample.1.*"}, normalizations::range_batchnorm},
      {resnet20, {"conv1.*", "bn1.*", "layer1.*", "layer2.0.*", "*.v"}, normalizations::evonorm_s0},
      {resnet18,
       {"conv1.*", "bn1.*", "layer1.*", "layer2.?.conv?.*", "layer2.?.bn?.*", "layer3.0.conv?.*"}},
      {resnet18, {"conv1.*", "bn1.*", "layer*"}},
      {vgg11, {"features.0.*", "features.1.*", "*.weight"}},
      {alexnet, {"features.0.*", "features.?.bias", "classifier.weight"}},
      {airbench_small, {"whiten.*", "block1.*", "block2.conv1.*"}},
      {airbench_small, {"block*"}},
      {mobilenet_v2, {"features.?.*", "features.1?.*"}},
      {mobilenet_v3_small, {"features.*"}},
      {mobilenet_v3_small, {"features.?.*", "features.10.*", "features.11.block.0.*"}},
      {mobilenet_v3_small, {"*.0.weight", "*.1.weight", "*.1.bias", "*.fc1.*", "classifier.*"}},
      {efficientnet_lite0, {"conv_stem.*", "bn?.*", "blocks.*"}},
      {vit_tiny, {"cls_token", "pos_embed", "patch_embed.*", "blocks.?.*"}},
      {vit_tiny, {"cls_token", "pos_embed", "patch_embed.*", "blocks.*", "norm.*"}},
      {vit_tiny, {"*.weight", "cls_token"}},
      {vit_tiny, {"*.norm?.*", "*.attn.*", "pos_embed", "head.*"}},
  }));
  const auto options = [&](std::vector<std::string> frozen) -> ModelOptions {
    return {.model = model,
            .inputs = test::pictures(kShape),
            .normalization = norm,
            .shortcut = shortcut,
            .freeze = std::move(frozen)};
  };
  CAPTURE(model->name, patterns);
  const auto whole = make(options({})), part = make(options(patterns));
  const std::size_t all = whole->frozen().size() + whole->parameters().size();
  CHECK(part->frozen().size() + part->parameters().size() == all);
  CHECK(part->parameters().size() < whole->parameters().size());
  const data::Batch batch = random_batch(4, kShape);
  std::set<std::size_t> announced;
  std::ranges::fill(part->gradient(), std::numeric_limits<float>::quiet_NaN());
  const double loss = whole->forward_backward(batch, {});
  CHECK(part->forward_backward(batch, [&](std::size_t slice) { announced.insert(slice); }) == loss);
  CHECK(announced.size() == part->layout().size());
  for (const TensorSlice& slice : part->layout()) {
    INFO(slice.name);
    const TensorSlice& same = slice_named(whole->layout(), slice.name);
    CHECK(std::ranges::equal(part->gradient().subspan(slice.offset, slice.count),
                             whole->gradient().subspan(same.offset, same.count)));
  }
}

constexpr std::size_t kSamples = 32;

TEST_CASE("what is in front of all that is trained keeps nothing for the backward pass",
          "[frozen]") {
  using precision::Pass;
  // Of the last block: its input, and the outputs of its two convolutions.
  constexpr std::size_t kValues = 8 * 8 * 64;
  const auto block = make_rounded(
      with_frozen({"conv1.*", "bn1.*", "layer1.*", "layer2.*", "layer3.0.*", "layer3.1.*"}));
  CHECK(block->int8_use(kSamples)->saved_bytes == kSamples * 3 * (kValues + sizeof(float)));
  // With the head alone a training pass has the arrays of an evaluation.
  const ModelOptions options = {
      .model = models::mobilenet_v2, .inputs = test::pictures(kShape), .freeze = {"features.*"}};
  const precision::Plan plan = precision::make_plan(options);
  const auto bytes = [&](Pass pass) {
    return precision::workspace_bytes<float>(plan, kSamples, pass).block;
  };
  CHECK(bytes(Pass::training) == bytes(Pass::evaluation));
  CHECK(precision::saved_bytes<float>(plan, kSamples) == 0);
}

TEST_CASE("the memory that is estimated is less with a frozen beginning", "[frozen]") {
  const Frozen frozen = GENERATE(values<Frozen>(
      {{models::mobilenet_v2, {"features.*"}},
       {models::vit_tiny, {"cls_token", "pos_embed", "patch_embed.*", "blocks.*"}}}));
  ModelOptions options = {.model = frozen.model, .inputs = test::pictures(kShape)};
  const auto check = [&](const auto& memory_of) {
    options.freeze.clear();
    const NetworkMemory whole = memory_of(options);
    options.freeze = frozen.patterns;
    const NetworkMemory head = memory_of(options);
    CHECK(head.gradient_bytes < whole.gradient_bytes / 2);
  };
  check([](const ModelOptions& network) { return float32_memory(network, kSamples); });
  check([](const ModelOptions& network) { return int8_memory(network, kSamples); });
  check([](const ModelOptions& network) {
    return measure_network_memory(network, kSamples, kSamples);
  });
}

/// The names of all parameters of batch normalizations.
std::vector<std::string> norms_of(const ModelOptions& options) {
  const precision::Plan plan = precision::make_plan(options);
  std::vector<std::string> names;
  for (const precision::Branch& branch : plan.branches)
    for (const std::size_t tensor : {*branch.norm, *branch.norm + 1})
      names.push_back(plan.tensors[tensor].name);
  return names;
}

Made make_by_layers(const ModelOptions& options) {
  ModelOptions with = options;
  with.placement = {.mirrored = true, .torch_layers = true};
  return make_replica(with);
}

/// Means and variances, or inverses of ranges, that are far from those of a batch.
void set_statistics(Replica& replica) {
  const auto buffers = replica.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    buffers[i] = 0.4f + 0.1f * static_cast<float>(i % 7);
}

TEST_CASE("frozen norms that keep running statistics train by them, as an evaluation", "[frozen]") {
  const auto make = GENERATE(&make_with_torch, &make_by_layers, &make_own, &make_rounded);
  const auto& row = *GENERATE(&models::resnet20, &models::vgg11, &models::airbench_small);
  const auto& norm = *GENERATE(&normalizations::batchnorm, &normalizations::range_batchnorm);
  if (make == &make_by_layers && norm.by_range) return;  // LibTorch has no such operation
  CAPTURE(row.name, norm.name);
  ModelOptions options = {.model = row, .inputs = test::pictures(kShape), .normalization = norm};
  options.freeze = norms_of(options);
  options.frozen_norms = FrozenNorms::running;
  const auto replica = make(options);
  set_statistics(*replica);
  const std::vector<float> buffers = copy_of(replica->buffers());
  const data::Batch batch = random_batch(4, kShape);
  const double loss = replica->evaluate(batch).loss();
  CHECK(replica->forward_backward(batch, {}) == Approx(loss).epsilon(1e-6));
  CHECK(copy_of(replica->buffers()) == buffers);
  test::StateSpans state;
  replica->visit_state(state, Across::same);
  CHECK(std::accumulate(state.counts.begin(), state.counts.end(), std::uint64_t{0}) == 1);
  // With 8 bits each place in a batch has random bits of its own; and of two maxima that are nearly
  // equal another one may get the gradient, where LibTorch rounds a smaller batch otherwise.
  if (make == &make_rounded || row.whitens) return;

  // No sample of the batch changes the gradient of another.
  const std::vector<float> gradient = copy_of(replica->gradient());
  std::vector<float> mean(gradient.size());
  const auto images = test::images_in(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    data::Batch single;
    test::write_pictures(kShape, 10, images.subspan(i * kShape.values(), kShape.values()),
                         test::labels_in(batch).subspan(i, 1), single);
    replica->forward_backward(single, {});
    for (std::size_t k = 0; k < mean.size(); ++k)
      mean[k] += replica->gradient()[k] / static_cast<float>(batch.size());
  }
  CHECK(relative_error(mean, gradient) < 1e-9);
}

TEST_CASE("all engines have one gradient behind norms that keep running statistics", "[frozen]") {
  const auto& row =
      *GENERATE(&models::resnet20, &models::resnet18, &models::vgg11, &models::mobilenet_v2);
  ModelOptions options = {.model = row, .inputs = test::pictures(kShape)};
  options.freeze = norms_of(options);
  options.frozen_norms = FrozenNorms::running;
  const auto by_layers = make_by_layers(options);  // LibTorch's own batch_norm
  const data::Batch batch = random_batch(4, kShape);
  const auto gradient_of = [&](Replica& replica) {
    std::ranges::copy(by_layers->parameters(), replica.parameters().begin());
    std::ranges::copy(by_layers->frozen(), replica.frozen().begin());
    set_statistics(replica);
    replica.forward_backward(batch, {});
    return copy_of(replica.gradient());
  };
  const std::vector<float> expected = gradient_of(*by_layers);
  CAPTURE(row.name);
  CHECK(relative_error(gradient_of(*make_with_torch(options)), expected) < 1e-8);
  CHECK(relative_error(gradient_of(*make_own(options)), expected) < 1e-8);
  CHECK(relative_error(gradient_of(*make_rounded(options)), expected) < 0.1);
}

TEST_CASE("norms with a trained parameter follow the batch beside those that keep", "[frozen]") {
  const auto make = GENERATE(&make_with_torch, &make_own, &make_rounded);
  ModelOptions options = with_frozen({"layer1.0.bn1.*", "layer1.0.bn2.weight", "conv1.*"});
  options.frozen_norms = FrozenNorms::running;
  const auto replica = make(options);
  const std::vector<float> before = copy_of(replica->buffers());
  replica->forward_backward(random_batch(8, kShape), {});
  // bn1 of the network comes first, with 16 channels; then the norm that keeps mean and variance.
  const auto buffers = replica->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CAPTURE(i);
    CHECK((buffers[i] == before[i]) == (i >= 32 && i < 64));
  }
  test::StateSpans state;
  replica->visit_state(state, Across::same);
  std::vector<std::uint64_t> counts(22, 1);  // of the replica's batches, then of each norm's
  counts[2] = 0;
  CHECK(state.counts == counts);
  // A mean of ranks gets back what they all have.
  std::vector<float> mean(buffers.size(), -1);
  replica->keep_constants(mean);
  for (std::size_t i = 0; i < mean.size(); ++i)
    CHECK(mean[i] == (i >= 32 && i < 64 ? before[i] : -1));
}

TEST_CASE("running statistics of frozen norms need a frozen norm that has them", "[frozen]") {
  const auto make = GENERATE(&make_with_torch, &make_own, &make_rounded);
  const auto refused = [&](ModelOptions options) {
    options.frozen_norms = FrozenNorms::running;
    return test::refusal(Kind::usage, [&] { make(options); });
  };
  const std::string expected = "model.frozen_norms: expected with \"running\" a normalization";
  test::says(refused(with_frozen({})), expected);
  test::says(refused(with_frozen({"*.weight"})), expected);
  ModelOptions groups = with_frozen({"*bn1.*"});
  groups.normalization = normalizations::groupnorm;
  test::says(refused(groups), expected);
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

TEST_CASE("frozen parameters that are written between batches count from the next one",
          "[frozen]") {
  const auto make = GENERATE(&make_with_torch, &make_own, &make_rounded);
  const test::TemporaryFolder folder;
  const auto used = make(with_frozen({"conv1.*", "bn1.*", "layer*"}));
  const data::Batch batch = random_batch(4, kShape);
  const double before = used->evaluate(batch).loss();
  used->forward_backward(batch, {});
  const auto fresh = make(with_frozen({"conv1.*", "bn1.*", "layer*"}));
  const auto check = [&] {
    std::ranges::copy(fresh->buffers(), used->buffers().begin());
    const double loss = used->evaluate(batch).loss();
    CHECK(loss == fresh->evaluate(batch).loss());
    CHECK(loss != before);
  };
  for (Replica* const replica : {used.get(), fresh.get()})
    for (float& value : replica->frozen()) value *= 0.5f;
  check();
  for (float& value : fresh->frozen()) value *= 3;
  fresh->save_weights(folder.path() + "/model.pt");
  used->load_weights(folder.path() + "/model.pt");
  check();
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
