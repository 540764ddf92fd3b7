// SPDX-License-Identifier: Apache-2.0
// A network that computes on copies of its parameters, as on a device, and one that computes with
// LibTorch's layers, as there.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "model/compute_device.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kShape{3, 32, 32};
constexpr Placement kValues{.mirrored = true}, kLayers{.mirrored = true, .torch_layers = true};

/// One step of plain SGD on the host's values.
void descend(Replica& replica) {
  const auto parameters = replica.parameters(), gradient = replica.gradient();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.05f * gradient[i];
}

struct Networks {
  ModelOptions options;
  std::unique_ptr<Replica> plain = make_replica(options);
  std::unique_ptr<Replica> mirrored = make_replica([this] {
    ModelOptions with = options;
    with.placement = kValues;
    return with;
  }());
};

Networks networks(const ModelRow& model, const NormalizationRow& normalization) {
  return {.options = {
              .model = model, .inputs = test::pictures(kShape), .normalization = normalization}};
}

void check_equal(Replica& one, Replica& other) {
  CHECK(std::ranges::equal(one.parameters(), other.parameters()));
  CHECK(std::ranges::equal(one.gradient(), other.gradient()));
  CHECK(std::ranges::equal(one.buffers(), other.buffers()));
}

TEST_CASE("steps on a mirror give the same bits", "[mirror]") {
  using namespace normalizations;
  const auto& [model, normalization] =
      GENERATE_COPY(values<std::pair<const ModelRow*, const NormalizationRow*>>(
          {{&models::resnet20, &batchnorm},
           {&models::resnet20, &evonorm_s0},
           {&models::alexnet, &batchnorm}}));
  CAPTURE(model->name, normalization->name);
  const Networks two = networks(*model, *normalization);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const data::Batch batch = random_batch(6, kShape, 10, step + 1);
    std::vector<std::size_t> announced;
    const double loss = two.plain->forward_backward(batch, {});
    const double mirrored = two.mirrored->forward_backward(batch, [&](std::size_t slice) {
      announced.push_back(slice);
      // It is complete: nothing that follows changes it.
      const TensorSlice& place = two.plain->layout()[slice];
      CHECK(std::ranges::equal(two.mirrored->gradient().subspan(place.offset, place.count),
                               two.plain->gradient().subspan(place.offset, place.count)));
    });
    CHECK(mirrored == loss);
    check_equal(*two.plain, *two.mirrored);
    CHECK(announced.size() == two.plain->layout().size());
    CHECK(announced.front() + 1 == announced.size());
    std::ranges::sort(announced);
    CHECK(std::ranges::adjacent_find(announced) == announced.end());
    descend(*two.plain);
    descend(*two.mirrored);
  }
  const data::Batch test = random_batch(9, kShape, 10, 77);
  const Evaluation expected = two.plain->evaluate(test), found = two.mirrored->evaluate(test);
  CHECK(found.loss_sum == expected.loss_sum);
  CHECK(found.sums == expected.sums);
  data::Array expected_logits, logits;
  two.plain->predict(test, expected_logits);
  two.mirrored->predict(test, logits);
  CHECK(std::ranges::equal(logits.get<float>(), expected_logits.get<float>()));
}

TEST_CASE("a gradient may stay on the device", "[mirror]") {
  const Networks two = networks(models::resnet20, normalizations::batchnorm);
  CHECK(two.plain->device_gradient() == nullptr);
  const std::span<const float> on_device(two.mirrored->device_gradient(),
                                         two.mirrored->gradient().size());
  for (std::uint64_t step = 0; step < 4; ++step) {
    const bool stays = step % 3 != 0;
    const data::Batch batch = random_batch(6, kShape, 10, step + 1);
    std::ranges::fill(two.mirrored->gradient(), 7.0f);
    two.mirrored->leave_gradient_on_device(stays);
    std::size_t announced = 0;
    (void)two.plain->forward_backward(batch, {});
    (void)two.mirrored->forward_backward(batch, [&](std::size_t slice) {
      ++announced;
      const TensorSlice& place = two.plain->layout()[slice];
      CHECK(std::ranges::equal(on_device.subspan(place.offset, place.count),
                               two.plain->gradient().subspan(place.offset, place.count)));
    });
    CHECK(announced == two.plain->layout().size());
    CHECK(std::ranges::equal(on_device, two.plain->gradient()));
    const auto host = two.mirrored->gradient();
    if (stays)
      CHECK(std::ranges::all_of(host, [](float value) { return value == 7.0f; }));
    else
      CHECK(std::ranges::equal(host, two.plain->gradient()));
  }
}

TEST_CASE("what others write on the host is what the mirror evaluates", "[mirror]") {
  const Networks two = networks(models::resnet20, normalizations::batchnorm);
  const data::Batch batch = random_batch(6, kShape);
  const double before = two.mirrored->evaluate(batch).loss_sum;
  for (Replica* const replica : {two.plain.get(), two.mirrored.get()}) {
    for (float& value : replica->parameters()) value *= 1.5f;
    for (float& value : replica->buffers()) value += 0.25f;
  }
  CHECK(two.mirrored->evaluate(batch).loss_sum == two.plain->evaluate(batch).loss_sum);
  CHECK(two.mirrored->evaluate(batch).loss_sum != before);
}

TEST_CASE("weights and state of a mirror are those of the host", "[mirror]") {
  const test::TemporaryFolder folder;
  ModelOptions options{
      .model = models::resnet20, .inputs = test::pictures(kShape), .freeze = {"conv1.*", "bn1.*"}};
  const auto plain = make_replica(options);
  options.placement = kValues;
  options.seed = 2;
  const auto mirrored = make_replica(options);
  const data::Batch batch = random_batch(4, kShape);
  plain->forward_backward(batch, {});
  (void)mirrored->evaluate(batch);  // uploads what will be replaced

  SECTION("by a file") {
    plain->save_weights(folder.path() + "/plain.pt");
    mirrored->load_weights(folder.path() + "/plain.pt");
    CHECK(mirrored->evaluate(batch).loss_sum == plain->evaluate(batch).loss_sum);
    mirrored->save_weights(folder.path() + "/mirrored.pt");
    const auto copy = make_replica(options);
    copy->load_weights(folder.path() + "/mirrored.pt");
    CHECK(copy->evaluate(batch).loss_sum == plain->evaluate(batch).loss_sum);
  }
  SECTION("by a checkpoint") {
    test::CopiedState state;
    plain->visit_state(state, Across::same);
    state.restore_from_now();
    mirrored->visit_state(state, Across::same);
    CHECK(mirrored->evaluate(batch).loss_sum == plain->evaluate(batch).loss_sum);
    CHECK(mirrored->forward_backward(batch, {}) == plain->forward_backward(batch, {}));
    check_equal(*plain, *mirrored);
  }
  SECTION("by another rank's values") {
    std::ranges::copy(plain->parameters(), mirrored->parameters().begin());
    std::ranges::copy(plain->buffers(), mirrored->buffers().begin());
    std::ranges::copy(plain->frozen(), mirrored->frozen().begin());
    CHECK(mirrored->evaluate(batch).loss_sum == plain->evaluate(batch).loss_sum);
  }
}

TEST_CASE("a listener's error ends the step unchanged, and the next one works", "[mirror]") {
  const Networks two = networks(models::resnet20, normalizations::batchnorm);
  const data::Batch batch = random_batch(4, kShape);
  const auto stop = [](std::size_t slice) {
    if (slice == 40) throw Error(Kind::diverged, "slice 40");
  };
  const std::string sentence =
      test::refusal(Kind::diverged, [&] { two.mirrored->forward_backward(batch, stop); });
  CHECK(sentence == "slice 40");
  CHECK(test::refusal(Kind::diverged, [&] { two.plain->forward_backward(batch, stop); }) ==
        sentence);
  CHECK(two.mirrored->forward_backward(batch, {}) == two.plain->forward_backward(batch, {}));
  check_equal(*two.plain, *two.mirrored);
}

/// |a - b| / |a|
double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST_CASE("LibTorch's layers compute what ours do, but for rounding", "[mirror]") {
  using namespace normalizations;
  const NormalizationRow* const normalization = GENERATE(&batchnorm, &groupnorm, &evonorm_s0);
  CAPTURE(normalization->name);
  ModelOptions options{
      .model = models::resnet20, .inputs = test::pictures(kShape), .normalization = *normalization};
  const auto ours = make_replica(options);
  options.placement = kLayers;
  const auto theirs = make_replica(options);
  // float32 has 24 bits; sums of 10^4 addends and 20 layers lose some of them. A ReLU whose input
  // is that near to 0 opens in one network alone, which changes gradients below it by far more.
  constexpr double kRounding = 1e-4, kKinks = 1e-2;
  const TensorSlice& last = ours->layout().back();
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const data::Batch batch = random_batch(8, kShape, 10, step);
    CHECK(theirs->forward_backward(batch, {}) ==
          Approx(ours->forward_backward(batch, {})).epsilon(kRounding));
    CHECK(distance(ours->gradient(), theirs->gradient()) < kKinks);
    CHECK(distance(ours->gradient().last(last.count), theirs->gradient().last(last.count)) <
          kRounding);
    if (!ours->buffers().empty()) CHECK(distance(ours->buffers(), theirs->buffers()) < kRounding);
  }
  const data::Batch test = random_batch(9, kShape, 10, 77);
  CHECK(theirs->evaluate(test).loss_sum ==
        Approx(ours->evaluate(test).loss_sum).epsilon(kRounding));
  // Counters of batches are part of a checkpoint.
  test::StateSpans one, other;
  ours->visit_state(one, Across::same);
  theirs->visit_state(other, Across::same);
  CHECK(one.counts == other.counts);
}

TEST_CASE("what no device computes is refused", "[mirror]") {
  const auto refusal = [](const NormalizationRow& normalization, Precision precision) {
    const ModelOptions options{.model = models::resnet20,
                               .inputs = test::pictures(kShape),
                               .normalization = normalization,
                               .precision = precision,
                               .placement = kLayers};
    return test::refusal(Kind::usage, [&] {
      make_replica(options)->forward_backward(random_batch(16, kShape), {});
    });
  };
  using namespace normalizations;
  test::says(refusal(batchnorm, Precision::int8), "model.precision: expected \"fp32\"");
  test::says(refusal(batchnorm, Precision::bf16), "found \"bf16\"");
  test::says(refusal(range_batchnorm, Precision::fp32), "model.normalization");
  test::says(refusal(range_evonorm, Precision::fp32), "set device to \"cpu\"");
}

TEST_CASE("LibTorch's messages become clauses with what to try", "[mirror]") {
  test::says(obstacle_of("Found no NVIDIA driver on your system. Please check"),
             "no NVIDIA driver");
  test::says(obstacle_of("The NVIDIA driver on your system is too old (found version 11040). "
                         "Please update"),
             "11040");
  test::says(obstacle_of("No CUDA GPUs are available"), "CUDA_VISIBLE_DEVICES");
  test::says(obstacle_of("CUDA unknown error - this may be\nsecond line"), "\"CUDA unknown error");
  CHECK(obstacle_of("one\ntwo").find("two") == std::string::npos);
  const std::string sentence = test::refusal(Kind::usage, [] {
    fail_out_of_memory(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB "
        "of which 1.12 GiB is free. Including non-PyTorch memory, see PYTORCH_ALLOC_CONF");
  });
  test::says(sentence,
             "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB of "
             "which 1.12 GiB is free\"");
  test::says(sentence, "train.batch_size");
  CHECK(sentence.find("PYTORCH") == std::string::npos);
}

TEST_CASE("a build or machine without devices says so", "[mirror]") {
  const CudaDevices found = cuda_devices();
  CHECK((found.count > 0) == found.obstacle.empty());
}

}  // namespace
}  // namespace eqt::model
