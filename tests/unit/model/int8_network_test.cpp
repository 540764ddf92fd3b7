// SPDX-License-Identifier: Apache-2.0
// Networks with 8-bit operands, compared with those that LibTorch runs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/formats.hpp"
#include "model/precision/arena.hpp"
#include "model/precision/int8_replica.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/refusal.hpp"
#include "support/rounded_weights.hpp"
#include "support/saved_state.hpp"
#include "support/temporary_folder.hpp"
#include "unit/model/support.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kCifar{3, 32, 32};

ModelOptions options_of(const ModelRow& model, Shortcut shortcut = Shortcut::projection) {
  return {.model = model, .inputs = test::pictures(kCifar), .shortcut = shortcut};
}

ModelOptions with_norm(Entry<NormalizationRow> norm, ModelOptions options) {
  options.normalization = norm;
  return options;
}

ModelOptions rounded(ModelOptions options) {
  options.precision = Precision::int8;
  return options;
}

/// The same network twice.
struct Pair {
  std::unique_ptr<Replica> exact, rounded;
  explicit Pair(const ModelOptions& options)
      : exact(make_replica(options)), rounded(make_int8_replica(options, *exact)) {}
};

/// Pictures of stripes, which networks learn to tell apart.
data::Batch stripes(std::size_t size, std::uint64_t seed) {
  const data::LabelledBytes set = data::make_synthetic(size, data::SyntheticPart::train, seed);
  std::vector<float> images;
  for (const auto byte : set.pixels) images.push_back(static_cast<float>(byte) / 64.0f - 2);
  const std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
  data::Batch batch;
  test::write_pictures(kCifar, 10, images, labels, batch);
  return batch;
}

/// |a - b|^2 / |b|^2.
double relative_error(std::span<const float> a, std::span<const float> b) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return error / norm;
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

void descend(Replica& replica, float rate) {
  const auto gradient = replica.gradient();
  const auto parameters = replica.parameters();
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= rate * gradient[i];
}

TEST_CASE("an 8-bit network has the layout and the initial values of LibTorch's") {
  using namespace models;
  std::vector<ModelOptions> all;
  for (const ModelRow* row : {&resnet18, &resnet20, &resnet50, &resnet56, &vgg11, &alexnet})
    all.push_back(options_of(*row));
  for (const Entry<NormalizationRow> norm : NormalizationRow::all())
    for (const ModelRow* row : {&resnet20, &vgg11})
      all.push_back(with_norm(norm, options_of(*row)));
  for (const ModelOptions& options : all) {
    CAPTURE(options.model->name, options.normalization->name);
    const auto exact = make_replica(options);
    const auto other = make_replica(rounded(options));
    REQUIRE(exact->layout().size() == other->layout().size());
    for (std::size_t i = 0; i < exact->layout().size(); ++i) {
      CHECK(exact->layout()[i].name == other->layout()[i].name);
      CHECK(exact->layout()[i].shape == other->layout()[i].shape);
    }
    CHECK(std::ranges::equal(exact->parameters(), other->parameters()));
    CHECK(std::ranges::equal(exact->buffers(), other->buffers()));
  }
}

// At the start of training gradients depend so much on every bit that rounding the weights alone
// changes them by 3 to 20 %; so 8-bit operands are judged by that.
TEST_CASE("an 8-bit gradient differs from the float32 one hardly more than one of 8-bit weights") {
  using namespace models;
  const auto options = GENERATE(values<ModelOptions>(
      {options_of(resnet20),
       options_of(resnet20, Shortcut::padding),
       options_of(vgg11),
       options_of(alexnet),
       with_norm(normalizations::groupnorm, options_of(resnet20)),
       with_norm(normalizations::groupnorm, options_of(vgg11)),
       with_norm(normalizations::evonorm_s0, options_of(resnet20)),
       with_norm(normalizations::evonorm_s0, options_of(vgg11)),
       with_norm(normalizations::range_batchnorm, options_of(resnet20)),
       with_norm(normalizations::range_evonorm, options_of(resnet20)),
       with_norm(normalizations::range_evonorm, options_of(resnet20, Shortcut::padding)),
       {.model = resnet18, .inputs = test::pictures({1, 28, 28}), .outputs = 7}}));
  CAPTURE(options.model->name, options.normalization->name, name_of(options.shortcut));
  const Pair pair(options);
  const bool grey = options.outputs == 7;
  for (int step = 0; step < 2; ++step) {
    const auto seed = static_cast<std::uint64_t>(step + 1);
    const auto batch = grey ? random_batch(8, {1, 28, 28}, 7, seed) : stripes(16, seed);
    const std::vector<float> parameters = copy_of(pair.exact->parameters());
    const std::vector<float> buffers = copy_of(pair.exact->buffers());
    const double loss = pair.exact->forward_backward(batch, {});
    CHECK(pair.rounded->forward_backward(batch, {}) == Approx(loss).epsilon(0.05));
    const std::vector<float> gradient = copy_of(pair.exact->gradient());
    const double error = relative_error(pair.rounded->gradient(), gradient);
    if (!buffers.empty())
      CHECK(relative_error(pair.rounded->buffers(), pair.exact->buffers()) < 1e-3);

    std::ranges::copy(buffers, pair.exact->buffers().begin());
    test::round_weights(*pair.exact);
    pair.exact->forward_backward(batch, {});
    const double unavoidable = relative_error(pair.exact->gradient(), gradient);
    CAPTURE(step, error, unavoidable);
    CHECK(error < std::max(4 * unavoidable, 0.01));

    std::ranges::copy(parameters, pair.exact->parameters().begin());
    std::ranges::copy(gradient, pair.exact->gradient().begin());
    descend(*pair.exact, 0.05f);
    std::ranges::copy(pair.exact->parameters(), pair.rounded->parameters().begin());
    std::ranges::copy(pair.exact->buffers(), pair.rounded->buffers().begin());
  }
}

/// The squared relative error of a gradient for options of 8-bit training, and of its mean over
/// eight draws of the random bits.
struct GradientError {
  double single = 0, mean = 0;
};

GradientError gradient_error(ModelOptions options, const Int8Options& choice, Replica& exact,
                             const data::Batch& batch) {
  options.int8 = choice;
  constexpr int kDraws = 8;
  GradientError error;
  std::vector<float> sum(exact.gradient().size());
  for (int draw = 0; draw < kDraws; ++draw) {
    options.rank = draw;
    const auto replica = make_int8_replica(options, exact);
    replica->forward_backward(batch, {});
    error.single += relative_error(replica->gradient(), exact.gradient()) / kDraws;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += replica->gradient()[i] / kDraws;
  }
  error.mean = relative_error(sum, exact.gradient());
  return error;
}

// EvoNorm-S0, because its gradients do not depend on every bit as those of batch norm do.
TEST_CASE("options of 8-bit training change gradients as they say") {
  ModelOptions options = with_norm(normalizations::evonorm_s0, options_of(models::resnet20));
  const auto exact = make_replica(options);
  const auto batch = stripes(16, 3);
  for (int step = 0; step < 5; ++step) {
    exact->forward_backward(batch, {});
    descend(*exact, 0.05f);
  }
  exact->forward_backward(batch, {});
  const auto of = [&](const Int8Options& choice) {
    return gradient_error(options, choice, *exact, batch);
  };
  const GradientError usual = of({});
  const GradientError tensor = of({.ranges = Int8Ranges::tensor});
  const GradientError paper = of({.ranges = Int8Ranges::paper});
  const GradientError nearest = of({.error_rounding = ErrorRounding::nearest});
  const GradientError wide = of({.weight_gradient = WeightGradient::int16});
  const GradientError floats = of({.weight_gradient = WeightGradient::fp32});
  CHECK(usual.single < 0.03);
  CHECK(tensor.single > usual.single);
  CHECK(paper.single > usual.single);
  // Random rounding averages out, rounding to nearest does not.
  CHECK(usual.mean < 0.9 * usual.single);
  CHECK(nearest.mean == Approx(nearest.single));
  // 14 bits are as good as 24 where activations have 8.
  CHECK(wide.single < usual.single);
  CHECK(wide.single == Approx(floats.single).epsilon(1e-3));
}

TEST_CASE("the losses of all tasks of pictures are LibTorch's") {
  ModelOptions options = options_of(models::resnet20);
  data::Batch batch = stripes(6, 1);
  const auto target = [&](const data::ArraySpec& spec) {
    options.target = spec;
    const auto values = batch.targets.prepare<float>(spec, batch.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 1.0f : 0.0f;
  };
  SECTION("smoothed, weighted classification") {
    options.task.label_smoothing = 0.1;
    options.task.class_weights = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5};
  }
  SECTION("mixup") { options.task.mixup = 0.4; }
  SECTION("multi-label") {
    options.task.kind = tasks::multi_label;
    target({.name = "flags", .shape = {10}});
  }
  SECTION("regression") {
    options.task.kind = tasks::regression;
    target({.name = "values", .shape = {10}});
  }
  const Pair pair(options);
  const double loss = pair.exact->forward_backward(batch, {});
  CHECK(pair.rounded->forward_backward(batch, {}) == Approx(loss).epsilon(0.02));
  const TensorSlice& bias = pair.exact->layout().back();
  CHECK(relative_error(pair.rounded->gradient().subspan(bias.offset, bias.count),
                       pair.exact->gradient().subspan(bias.offset, bias.count)) < 1e-3);
  std::ranges::copy(pair.exact->buffers(), pair.rounded->buffers().begin());
  const Evaluation wanted = pair.exact->evaluate(batch), found = pair.rounded->evaluate(batch);
  CHECK(found.loss() == Approx(wanted.loss()).epsilon(0.05));
  CHECK(found.count == wanted.count);
  REQUIRE(found.sums.size() == wanted.sums.size());
  for (std::size_t i = 0; i < found.sums.size(); ++i)
    CHECK(found.sums[i] == Approx(wanted.sums[i]).margin(1.5).epsilon(0.05));
}

TEST_CASE("an 8-bit step has the same bytes with plain loops and with vectors") {
  const ModelOptions options = GENERATE(
      options_of(models::resnet20, Shortcut::projection),
      options_of(models::resnet20, Shortcut::padding),
      with_norm(normalizations::evonorm_s0, options_of(models::resnet20, Shortcut::padding)),
      with_norm(normalizations::range_evonorm, options_of(models::resnet20)));
  const auto exact = make_replica(options);
  const auto fast = make_int8_replica(options, *exact);
  const auto plain = make_int8_replica(options, *exact, int8::Kernels::scalar);
  const auto batch = stripes(3, 1);
  CHECK(fast->forward_backward(batch, {}) == plain->forward_backward(batch, {}));
  CHECK(std::ranges::equal(fast->gradient(), plain->gradient()));
  CHECK(std::ranges::equal(fast->buffers(), plain->buffers()));
}

TEST_CASE("an 8-bit network repeats its steps, learns, and then allocates nothing") {
  const ModelOptions options = rounded(options_of(models::resnet20, Shortcut::padding));
  const auto first = make_replica(options), second = make_replica(options);
  ModelOptions elsewhere = options;
  elsewhere.rank = 1;
  const auto other_rank = make_replica(elsewhere);
  double at_first = 0, at_last = 0;
  for (int step = 0; step < 12; ++step) {
    const auto batch = stripes(24, 7);
    const std::size_t before = test::allocations();
    at_last = first->forward_backward(batch, {});
    if (step > 0) CHECK(test::allocations() == before);
    if (step == 0) {
      at_first = at_last;
      other_rank->forward_backward(batch, {});
      CHECK_FALSE(std::ranges::equal(first->gradient(), other_rank->gradient()));
    }
    if (step < 2) {
      CHECK(second->forward_backward(batch, {}) == at_last);
      CHECK(std::ranges::equal(first->gradient(), second->gradient()));
    }
    for (Replica* const replica : {first.get(), second.get()}) descend(*replica, 0.1f);
  }
  CHECK(at_last < 0.7 * at_first);
}

TEST_CASE("each slice of an 8-bit network is announced once, complete, the last layer first") {
  const auto replica = make_replica(rounded(options_of(models::resnet20)));
  const auto batch = stripes(4, 1);
  std::vector<std::size_t> order;
  std::vector<std::vector<float>> seen(replica->layout().size());
  std::ranges::fill(replica->gradient(), std::numeric_limits<float>::quiet_NaN());
  replica->forward_backward(batch, [&](std::size_t i) {
    order.push_back(i);
    const TensorSlice& slice = replica->layout()[i];
    seen[i] = copy_of(replica->gradient().subspan(slice.offset, slice.count));
  });
  REQUIRE(order.size() == seen.size());
  CHECK(order.front() + 1 == seen.size());
  CHECK(order.back() == 0);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const TensorSlice& slice = replica->layout()[i];
    CHECK(std::ranges::equal(seen[i], replica->gradient().subspan(slice.offset, slice.count)));
  }
}

TEST_CASE("8-bit evaluation does not depend on the batch") {
  const ModelOptions options = rounded(options_of(models::vgg11));
  const auto replica = make_replica(options);
  const auto batch = stripes(20, 1);
  data::Array all, one;
  replica->predict(batch, all);
  const auto images = test::images_in(batch);
  data::Batch single;
  test::write_pictures(kCifar, 10, images.subspan(18 * kCifar.values(), kCifar.values()),
                       test::labels_in(batch).subspan(18, 1), single);
  replica->predict(single, one);
  CHECK(std::ranges::equal(one.get<float>(), all.get<float>().subspan(180, 10)));
}

/// Copies the state of one replica into another.
class Transfer final : public StateVisitor {
 public:
  void values(std::string_view, std::span<float> values, Across) override {
    if (!restores_) {
      floats_.push_back(copy_of(values));
    } else {
      std::ranges::copy(floats_.at(next_float_++), values.begin());
    }
  }
  void doubles(std::string_view, std::span<double>, Across) override {}
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    if (!restores_) {
      numbers_.emplace_back(values.begin(), values.end());
    } else {
      REQUIRE(numbers_.at(next_number_).size() == values.size());
      std::ranges::copy(numbers_.at(next_number_++), values.begin());
    }
  }
  void placed(std::string_view, std::span<float>,
              const std::function<std::vector<SliceRange>()>&) override {}
  bool restores() const noexcept override { return restores_; }
  void enter(std::string_view) override {}
  void leave() override {}
  void start_restoring() { restores_ = true; }

 private:
  bool restores_ = false;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<std::uint64_t>> numbers_;
  std::size_t next_float_ = 0, next_number_ = 0;
};

void continue_as(Replica& from, Replica& to) {
  Transfer transfer;
  from.visit_state(transfer, Across::same);
  transfer.start_restoring();
  to.visit_state(transfer, Across::same);
}

TEST_CASE("an 8-bit run resumes with the same bytes, also as a float32 one and back") {
  const ModelOptions options = options_of(models::resnet20);
  const auto replica = make_replica(rounded(options));
  replica->forward_backward(stripes(4, 1), {});
  descend(*replica, 0.1f);
  ModelOptions other = options;
  other.seed = 1;
  const auto exact = make_replica(other);
  continue_as(*replica, *exact);
  const auto resumed = make_replica(rounded(other));
  continue_as(*exact, *resumed);
  const auto batch = stripes(4, 2);
  CHECK(replica->forward_backward(batch, {}) == resumed->forward_backward(batch, {}));
  CHECK(std::ranges::equal(replica->gradient(), resumed->gradient()));
  CHECK(std::ranges::equal(replica->buffers(), resumed->buffers()));
}

TEST_CASE("weights of an 8-bit network are those of a float32 one") {
  const ModelOptions options = options_of(models::resnet20);
  const auto replica = make_replica(rounded(options));
  replica->forward_backward(stripes(4, 1), {});
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/model.pt", again = folder.path() + "/again.pt";
  replica->save_weights(file);
  ModelOptions other = options;
  other.seed = 2;
  const auto exact = make_replica(other), back = make_replica(rounded(other));
  exact->load_weights(file);
  CHECK(std::ranges::equal(exact->parameters(), replica->parameters()));
  CHECK(std::ranges::equal(exact->buffers(), replica->buffers()));
  exact->save_weights(again);
  back->load_weights(again);
  CHECK(std::ranges::equal(back->parameters(), replica->parameters()));
  CHECK(std::ranges::equal(back->buffers(), replica->buffers()));
}

TEST_CASE("a value that is not finite ends an 8-bit step with the layer and the step") {
  const auto replica = make_replica(rounded(options_of(models::resnet20)));
  const TensorSlice& slice = replica->layout()[3];
  REQUIRE(slice.name == "layer1.0.conv1.weight");
  const auto weights = replica->parameters().subspan(slice.offset, slice.count);
  SECTION("a weight") {
    weights[5] = std::numeric_limits<float>::infinity();
    test::says(test::refusal(Kind::diverged, [&] { replica->evaluate(stripes(1, 1)); }),
               "layer1.0.conv1: weights");
  }
  SECTION("an output") {
    std::ranges::fill(weights, std::numeric_limits<float>::max());
    const std::string sentence =
        test::refusal(Kind::diverged, [&] { replica->forward_backward(stripes(2, 1), {}); });
    test::says(sentence, "step 0, layer1.0.conv1: outputs");
  }
}

TEST_CASE("what is not built with 8-bit operands is refused with a sentence") {
  const auto sentence = [](ModelOptions options) {
    return test::refusal(Kind::usage, [&] { make_replica(rounded(std::move(options))); });
  };
  ModelOptions options = with_norm(normalizations::groupnorm, options_of(models::resnet20));
  options.norm_groups = 3;
  test::says(sentence(options), "expected groups that divide");
  options = options_of(models::resnet20);
  options.freeze = {"layer1.*"};
  test::says(sentence(options), "model.freeze");
}

TEST_CASE("the arena: what is in use at the same time has places of its own") {
  using namespace precision;
  const std::vector<ArenaItem> items = {{100, 0, 3}, {300, 1, 2}, {0, 0, 9},   {64, 4, 5},
                                        {70, 3, 4},  {900, 6, 7}, {400, 2, 6}, {65, 0, 0}};
  const ArenaPlan plan = place_items(items);
  std::size_t all = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    CHECK(plan.offsets[i] % kArenaAlignment == 0);
    CHECK(plan.offsets[i] + items[i].bytes <= plan.bytes);
    all += items[i].bytes;
    for (std::size_t j = 0; j < i; ++j) {
      const bool together = items[i].first <= items[j].last && items[j].first <= items[i].last;
      const bool apart = plan.offsets[i] + items[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + items[j].bytes <= plan.offsets[i];
      CHECK((!together || apart));
    }
  }
  CHECK(plan.bytes < all);
}

TEST_CASE("the arena of ResNet-20 and 32 pictures has less than 15 MB") {
  const Int8Memory memory = int8_memory(options_of(models::resnet20), 32);
  CHECK(memory.arena_bytes > 12'000'000);
  CHECK(memory.arena_bytes < 15'000'000);
  // Weights as three passes read them, and the values of a chunk.
  CHECK(memory.bytes > memory.arena_bytes + 1'000'000);
  CHECK(memory.bytes < memory.arena_bytes + 10'000'000);
}

TEST_CASE("an 8-bit network says which kernels it uses, and how many bytes a step and keeps") {
  const ModelOptions options = options_of(models::resnet20);
  const auto exact = make_replica(options);
  CHECK_FALSE(exact->int8_use(32));
  const auto replica = make_int8_replica(options, *exact, int8::Kernels::scalar);
  const auto use = replica->int8_use(32);
  REQUIRE(use);
  CHECK(use->kernels == "scalar");
  CHECK(use->arena_bytes == int8_memory(options, 32).arena_bytes);
  // He et al., table 6: 7, 6 and 6 layers, and the outputs of two projections. Kept are the
  // picture, all of these, and their activations without the last and those of projections.
  constexpr std::size_t kOutputs = 7 * (32 * 32 * 16 + 16 * 16 * 32 + 8 * 8 * 64);
  constexpr std::size_t kActivations = kOutputs - 16 * 16 * 32 - 2 * 8 * 8 * 64;
  constexpr std::size_t kArrays = 1 + 21 + 18;
  CHECK(use->saved_bytes == 32 * (32 * 32 * 3 + kOutputs + kActivations + kArrays * sizeof(float)));
  CHECK(use->arena_bytes > use->saved_bytes);
}

TEST_CASE("only the paper's ranges clip, in training") {
  ModelOptions options = options_of(models::resnet20);
  options.int8.ranges = GENERATE(Int8Ranges::sample, Int8Ranges::tensor, Int8Ranges::paper);
  CAPTURE(name_of(options.int8.ranges));
  const auto replica = make_replica(rounded(options));
  const auto batch = stripes(4, 1);
  const auto clipped = [&] { return replica->int8_use(4)->clipped_values; };
  replica->evaluate(batch);
  CHECK(clipped() == 0);
  replica->forward_backward(batch, {});
  CHECK((clipped() > 0) == (options.int8.ranges == Int8Ranges::paper));
}

}  // namespace
}  // namespace eqt::model
