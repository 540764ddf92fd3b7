// SPDX-License-Identifier: Apache-2.0
// Networks with 8-bit operands, alone.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "model/own/own_replica.hpp"
#include "model/own/workspace.hpp"
#include "model/process_settings.hpp"
#include "model/unit/int8_support.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

TEST_CASE("an 8-bit step has the same bytes with plain loops and with vectors") {
  const ModelOptions options = GENERATE(
      options_of(models::resnet20, Shortcut::projection),
      options_of(models::resnet20, Shortcut::padding),
      with_norm(normalizations::evonorm_s0, options_of(models::resnet20, Shortcut::padding)),
      with_norm(normalizations::range_evonorm, options_of(models::resnet20)),
      options_of(models::mobilenet_v2), options_of(models::mobilenet_v3_small),
      options_of(models::efficientnet_lite0), options_of(models::vit_tiny));
  const auto fast = make_int8_replica(options);
  const auto plain = make_int8_replica(options, int8::Kernels::scalar);
  const auto batch = stripes(3, 1);
  CHECK(fast->forward_backward(batch, {}) == plain->forward_backward(batch, {}));
  CHECK(std::ranges::equal(fast->gradient(), plain->gradient()));
  CHECK(std::ranges::equal(fast->buffers(), plain->buffers()));
}

// The figures were found on x86-64 with AVX-512. There is nothing to derive them from: they are
// here so that other processors are compared with that one.
TEST_CASE("an 8-bit step has the bytes that it has on other processors") {
  using namespace normalizations;
  const auto [norm, expected] = GENERATE(values<std::pair<Entry<NormalizationRow>, std::uint64_t>>(
      {{batchnorm, 0x8aaa06c1759372a8},
       {groupnorm, 0x2decc9eed485bd99},
       {evonorm_s0, 0x7782a2d4d0ace007},
       {range_batchnorm, 0x93852fdc6161deb0},
       {range_evonorm, 0x10c3c0a4a34223a8}}));
  const auto replica = make_int8_replica(with_norm(norm, options_of(models::resnet20)));
  for (const std::uint64_t seed : {1u, 2u}) {
    replica->forward_backward(stripes(8, seed), {});
    descend(*replica, 0.05f);
  }
  CAPTURE(norm->name);
  CHECK(checksum(std::as_bytes(replica->parameters())) == expected);
}

TEST_CASE("threads do not change a bit of an 8-bit step") {
  using namespace normalizations;
  // ResNet-18 has layers whose gradients are divided by outputs.
  const auto [options, size] = GENERATE(values<std::pair<ModelOptions, std::size_t>>(
      {{options_of(models::resnet20), 8},
       {options_of(models::resnet20), 6},
       {options_of(models::resnet20), 3},
       {with_norm(groupnorm, options_of(models::vgg11)), 4},
       {with_norm(range_batchnorm, options_of(models::resnet20)), 8},
       {with_norm(range_evonorm, options_of(models::resnet20)), 4},
       {options_of(models::alexnet), 4},
       {options_of(models::efficientnet_lite0), 4},
       {options_of(models::mobilenet_v3_small), 8},
       {options_of(models::vit_tiny), 3},
       {options_of(models::resnet18), 4}}));
  CAPTURE(options.model->name, options.normalization->name, size);
  const auto batch = stripes(size, 1);
  const auto one = make_int8_replica(options, int8::fastest_here(), 1);
  const double loss = one->forward_backward(batch, {});
  data::Array expected, found;
  one->predict(batch, expected);
  for (const int threads : {2, 3, 4, 7}) {
    CAPTURE(threads);
    const auto many = make_int8_replica(options, int8::fastest_here(), threads);
    CHECK(many->forward_backward(batch, {}) == loss);
    CHECK(std::ranges::equal(many->gradient(), one->gradient()));
    CHECK(std::ranges::equal(many->buffers(), one->buffers()));
    many->predict(batch, found);
    CHECK(std::ranges::equal(found.get<float>(), expected.get<float>()));
  }
}

// Parts of a step may be left out, which then must not be read.
TEST_CASE("what memory holds before a step changes nothing", "[memory]") {
  const auto row = GENERATE(&models::resnet20, &models::airbench_small, &models::mobilenet_v3_small,
                            &models::efficientnet_lite0, &models::vit_tiny);
  const auto make = GENERATE(
      +[](const ModelOptions& options) { return make_int8_replica(rounded(options)); },
      +[](const ModelOptions& options) { return make_float32_replica(options); });
  ModelOptions options = options_of(*row);
  options.seed = 3;
  CAPTURE(row->name);
  const auto batch = stripes(8, 1);
  const auto usual = make(options);
  usual->forward_backward(batch, {});
  keep_freed_memory();
  std::vector<std::byte>(std::size_t{128} << 20, std::byte{0xff});  // all floats are not numbers
  const auto dirty = make(options);
  dirty->forward_backward(batch, {});
  CHECK(std::ranges::equal(dirty->gradient(), usual->gradient()));
}

TEST_CASE("threads do not change a bit of other ranges and gradients") {
  const auto row = GENERATE(&models::resnet20, &models::mobilenet_v2, &models::mobilenet_v3_small);
  ModelOptions options = options_of(*row);
  options.int8 =
      GENERATE(Int8Options{.ranges = Int8Ranges::tensor}, Int8Options{.ranges = Int8Ranges::paper},
               Int8Options{.weight_gradient = WeightGradient::int16},
               Int8Options{.weight_gradient = WeightGradient::fp32});
  const auto batch = stripes(4, 1);
  const auto one = make_int8_replica(options, int8::fastest_here(), 1);
  const auto many = make_int8_replica(options, int8::fastest_here(), 4);
  CHECK(one->forward_backward(batch, {}) == many->forward_backward(batch, {}));
  CHECK(std::ranges::equal(many->gradient(), one->gradient()));
  CHECK(many->int8_use(4)->clipped_values == one->int8_use(4)->clipped_values);
}

TEST_CASE("an 8-bit network repeats its steps, learns, and then allocates nothing") {
  // With 0.1 a vision transformer of float32 operands does not learn either.
  const auto [unrounded, rate] = GENERATE(values<std::pair<ModelOptions, float>>(
      {{options_of(models::resnet20, Shortcut::padding), 0.1f},
       {options_of(models::efficientnet_lite0), 0.1f},
       {options_of(models::vit_tiny), 0.02f}}));
  const ModelOptions options = rounded(unrounded);
  CAPTURE(options.model->name);
  const auto first = make_int8_replica(options), second = make_int8_replica(options);
  ModelOptions elsewhere = options;
  elsewhere.rank = 1;
  const auto other_rank = make_int8_replica(elsewhere);
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
    for (Replica* const replica : {first.get(), second.get()}) descend(*replica, rate);
  }
  CHECK(at_last < 0.7 * at_first);
}

// From then on it belongs to whoever averages it, and may change at once.
TEST_CASE("each slice of an 8-bit network is announced once, complete, the last layer first") {
  const auto row = GENERATE(&models::resnet20, &models::mobilenet_v3_small, &models::vit_tiny);
  const ModelOptions options = rounded(options_of(*row));
  const auto replica = make_int8_replica(options), other = make_int8_replica(options);
  const auto batch = stripes(4, 1);
  std::vector<std::size_t> order;
  std::vector<std::vector<float>> seen(replica->layout().size());
  std::ranges::fill(replica->gradient(), std::numeric_limits<float>::quiet_NaN());
  replica->forward_backward(batch, [&](std::size_t i) {
    order.push_back(i);
    const TensorSlice& slice = replica->layout()[i];
    const auto gradient = replica->gradient().subspan(slice.offset, slice.count);
    seen[i] = copy_of(gradient);
    std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
  });
  REQUIRE(order.size() == seen.size());
  CHECK(order.front() + 1 == seen.size());
  CHECK(order.back() == 0);
  other->forward_backward(batch, {});
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const TensorSlice& slice = replica->layout()[i];
    CAPTURE(row->name, slice.name);
    CHECK(std::ranges::equal(seen[i], other->gradient().subspan(slice.offset, slice.count)));
  }
}

TEST_CASE("8-bit evaluation does not depend on the batch") {
  const auto row = GENERATE(&models::vgg11, &models::vit_tiny);
  const ModelOptions options = rounded(options_of(*row));
  const auto replica = make_int8_replica(options);
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

TEST_CASE("an 8-bit network trains with weights that were rounded for it, until it is released") {
  const ModelOptions options = rounded(options_of(models::resnet20));
  const auto replica = make_int8_replica(options), other = make_int8_replica(options);
  WeightRounding* const network = replica->weight_rounding();
  REQUIRE(network != nullptr);
  const auto batch = stripes(4, 1);
  // The other network's own weights.
  std::size_t count = 0;
  for (std::size_t s = 0; s < other->layout().size(); ++s) {
    const TensorSlice& slice = other->layout()[s];
    const auto weights = other->parameters().subspan(slice.offset, slice.count);
    const bool convolves = slice.shape.size() == 4;
    if (convolves)
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = 0.5f * weights[i] + 0.001f * static_cast<float>(i % 7);
    const auto rows = network->round(s, weights);
    REQUIRE(rows.has_value() == convolves);
    if (!convolves) continue;
    ++count;
    REQUIRE(rows->values.size() == slice.count);
    REQUIRE(rows->scales.size() == static_cast<std::size_t>(slice.shape.front()));
    const std::size_t columns = slice.count / rows->scales.size();
    for (std::size_t i = 0; i < slice.count; ++i)
      CHECK(std::abs(rows->scales[i / columns] * static_cast<float>(rows->values[i]) -
                     weights[i]) <= 0.501f * rows->scales[i / columns]);
  }
  CHECK(count == 21);
  for (int part = 0; part < 2; ++part) {  // of an accumulated step
    CHECK(replica->forward_backward(batch, {}) == other->forward_backward(batch, {}));
    CHECK(copy_of(replica->gradient()) == copy_of(other->gradient()));
  }
  network->release();
  CHECK(replica->forward_backward(batch, {}) != other->forward_backward(batch, {}));
}

TEST_CASE("weights that were rounded for a network are not those of an evaluation") {
  const ModelOptions options = rounded(options_of(models::resnet20));
  const auto replica = make_int8_replica(options);
  const auto batch = stripes(4, 1);
  const double loss = replica->evaluate(batch).loss();
  const TensorSlice& slice = replica->layout()[3];
  const std::vector<float> weights(slice.count, 0.125f);
  REQUIRE(replica->weight_rounding()->round(3, weights));
  CHECK(replica->evaluate(batch).loss() == loss);
}

TEST_CASE("a value that is not finite ends an 8-bit step with the layer and the step") {
  const auto replica = make_int8_replica(rounded(options_of(models::resnet20)));
  const TensorSlice& slice = replica->layout()[3];
  REQUIRE(slice.name == "layer1.0.conv1.weight");
  const auto weights = replica->parameters().subspan(slice.offset, slice.count);
  SECTION("a weight") {
    weights[5] = std::numeric_limits<float>::infinity();
    test::says(test::refusal(Kind::diverged, [&] { replica->evaluate(stripes(1, 1)); }),
               "step 0, layer1.0.conv1: weights");
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
    return test::refusal(Kind::usage, [&] { make_int8_replica(rounded(std::move(options))); });
  };
  ModelOptions options = with_norm(normalizations::groupnorm, options_of(models::resnet20));
  options.norm_groups = 3;
  test::says(sentence(options), "expected groups that divide");
  options = options_of(models::vit_tiny);
  options.int8.ranges = Int8Ranges::tensor;
  test::says(sentence(options), "model.int8.ranges: expected \"sample\" for vit_tiny");
  options.int8 = {.weight_gradient = WeightGradient::int16};
  test::says(sentence(options), "model.int8.weight_gradient: expected \"int8\" for vit_tiny");
  options = options_of(models::resnet20);
  options.freeze = {"layer9.*"};
  test::says(sentence(options), "model.freeze: expected patterns that match");
  options.freeze = {"*"};
  test::says(sentence(options), "at least one parameter");
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

TEST_CASE("the arena of ResNet-20 and 32 pictures has less than 9.5 MB") {
  const ModelOptions options = options_of(models::resnet20);
  const std::uint64_t arena = make_int8_replica(options)->int8_use(32)->arena_bytes;
  CHECK(arena > 8'500'000);
  CHECK(arena < 9'500'000);
  // Weights as three passes read them, and the values of a chunk.
  const std::uint64_t all = int8_memory(options, 32).gradient_bytes;
  CHECK(all > arena + 1'000'000);
  CHECK(all < arena + 10'000'000);
}

TEST_CASE("an 8-bit network says which kernels it uses, and how many bytes a step and keeps") {
  const ModelOptions options = options_of(models::resnet20);
  const auto replica = make_int8_replica(options, int8::Kernels::scalar);
  const auto use = replica->int8_use(32);
  REQUIRE(use);
  CHECK(use->kernels == "scalar");
  // He et al., table 6: 7, 6 and 6 layers, and the outputs of two projections. Kept are the
  // picture, all of these, and the sums of blocks without a projection but the last.
  constexpr std::size_t kOutputs = 7 * (32 * 32 * 16 + 16 * 16 * 32 + 8 * 8 * 64);
  constexpr std::size_t kSums = 3 * 32 * 32 * 16 + 2 * 16 * 16 * 32 + 8 * 8 * 64;
  constexpr std::size_t kArrays = 1 + 21 + 6;
  CHECK(use->saved_bytes == 32 * (32 * 32 * 3 + kOutputs + kSums + kArrays * sizeof(float)));
  CHECK(use->arena_bytes > use->saved_bytes);
}

TEST_CASE("only the paper's ranges clip, in training") {
  ModelOptions options = options_of(models::resnet20);
  options.int8.ranges = GENERATE(Int8Ranges::sample, Int8Ranges::tensor, Int8Ranges::paper);
  CAPTURE(name_of(options.int8.ranges));
  const auto replica = make_int8_replica(rounded(options));
  const auto batch = stripes(4, 1);
  const auto clipped = [&] { return replica->int8_use(4)->clipped_values; };
  replica->evaluate(batch);
  CHECK(clipped() == 0);
  replica->forward_backward(batch, {});
  CHECK((clipped() > 0) == (options.int8.ranges == Int8Ranges::paper));
}

}  // namespace
}  // namespace eqt::model
