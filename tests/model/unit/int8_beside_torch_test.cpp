// SPDX-License-Identifier: Apache-2.0
// Networks with 8-bit operands, compared with those that LibTorch runs.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/own/own_replica.hpp"
#include "model/unit/int8_support.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/rounded_weights.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::model {
namespace {

/// The same network twice.
struct Pair {
  std::unique_ptr<Replica> exact, rounded;
  explicit Pair(const ModelOptions& options)
      : exact(make_replica(options)), rounded(make_int8_replica(options)) {
    std::ranges::copy(exact->parameters(), rounded->parameters().begin());
    std::ranges::copy(exact->frozen(), rounded->frozen().begin());
  }
};

TEST_CASE(
    "an 8-bit network has the layout and, but for rounding, the initial values of LibTorch's") {
  using namespace models;
  std::vector<ModelOptions> all;
  for (const ModelRow* row :
       {&resnet18, &resnet20, &resnet50, &resnet56, &vgg11, &alexnet, &airbench, &airbench_small,
        &mobilenet_v2, &mobilenet_v3_small, &efficientnet_lite0, &vit_tiny})
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
    // LibTorch has approximations of its own of the logarithm and of circular functions.
    CHECK(relative_error(other->parameters(), exact->parameters()) < 1e-13);
    CHECK(other->frozen().size() == exact->frozen().size());
    if (!exact->frozen().empty()) CHECK(relative_error(other->frozen(), exact->frozen()) < 1e-13);
    CHECK(std::ranges::equal(exact->buffers(), other->buffers()));
    CHECK_FALSE(exact->int8_use(32));
  }
}

/// timm's last layer starts so wide that the loss depends on every rounding.
void narrow_head(const Pair& pair) {
  for (Replica* const replica : {pair.exact.get(), pair.rounded.get()}) {
    const TensorSlice& weight = *(replica->layout().end() - 2);
    REQUIRE(weight.name == "classifier.weight");
    for (float& w : replica->parameters().subspan(weight.offset, weight.count)) w /= 16;
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
       options_of(mobilenet_v2),
       options_of(mobilenet_v3_small),
       options_of(efficientnet_lite0),
       options_of(vit_tiny),
       {.model = resnet18, .inputs = test::pictures({1, 28, 28}), .outputs = 7}}));
  CAPTURE(options.model->name, options.normalization->name, name_of(options.shortcut));
  const Pair pair(options);
  if (options.model == efficientnet_lite0) narrow_head(pair);
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
    const auto replica = make_int8_replica(options);
    std::ranges::copy(exact.parameters(), replica->parameters().begin());
    std::ranges::copy(exact.frozen(), replica->frozen().begin());
    std::ranges::copy(exact.buffers(), replica->buffers().begin());
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

// Rounding makes values of the last pixels equal, so that several share the gradient of a maximum.
// That is most of the difference: GELU has no edge that rounding could open or close.
TEST_CASE("an 8-bit gradient of airbench differs by a tenth of its square") {
  const ModelOptions options = options_of(models::airbench);
  const Pair pair(options);
  const auto batch = stripes(16, 3);
  const double loss = pair.exact->forward_backward(batch, {});
  CHECK(pair.rounded->forward_backward(batch, {}) == Approx(loss).epsilon(0.01));
  const GradientError error = gradient_error(options, {}, *pair.exact, batch);
  CAPTURE(error.single, error.mean);
  CHECK(error.single < 0.12);
  CHECK(error.mean < error.single);
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

}  // namespace
}  // namespace eqt::model
