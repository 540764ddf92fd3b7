// SPDX-License-Identifier: Apache-2.0
// VGG-11 and AlexNet, through the torch-free interface.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/error.hpp"
#include "model/emulated_replica.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

using Catch::Matchers::ContainsSubstring;
constexpr data::ImageShape kCifar{3, 32, 32};

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<std::string> names_of(const Replica& replica) {
  std::vector<std::string> names;
  for (const TensorSlice& slice : replica.layout()) names.push_back(slice.name);
  return names;
}

std::string refusal(const ModelOptions& options) {
  return test::refusal(Kind::usage, [&] { make_replica(options); });
}

/// Losses of two training batches without an update between them.
std::vector<double> two_losses(const ModelOptions& options, const data::Batch& batch) {
  const auto replica = make_replica(options);
  const double first = replica->forward_backward(batch, {});
  return {first, replica->forward_backward(batch, {})};
}

TEST_CASE("plain networks have the published parameters", "[plain]") {
  // Layer by layer: 9 in out weights of a convolution, its bias where it has one, 2 or 3 a channel
  // of a norm, 512 x 512 + 512 and 512 x 10 + 10; AlexNet 11^2, 5^2 and 3^2 weights.
  const auto [name, normalization, parameters] =
      GENERATE(table<std::string, std::string, std::size_t>({
          {"vgg11", "batchnorm", 9'493'770},
          {"vgg11", "evonorm-s0", 9'496'522},
          {"vgg11", "range-evonorm", 9'493'770},
          {"vgg11", "range-batchnorm", 9'491'018},
          {"alexnet", "batchnorm", 2'472'266},
      }));
  CAPTURE(name, normalization);
  const auto replica = make_replica({.model = ModelRow::all().at(name),
                                     .inputs = test::pictures(kCifar),
                                     .normalization = NormalizationRow::all().at(normalization)});
  CHECK(replica->parameters().size() == parameters);
  CHECK(replica->gradient().size() == parameters);
  CHECK(total_count(replica->layout()) == parameters);
}

TEST_CASE("VGG's parameters have the names of torchvision's vgg11_bn", "[plain]") {
  const auto replica = make_replica({.model = models::vgg11, .inputs = test::pictures(kCifar)});
  std::vector<std::string> expected;
  for (const int place : {0, 4, 8, 11, 15, 18, 22, 25}) {
    for (const int layer : {place, place + 1}) {
      expected.push_back("features." + std::to_string(layer) + ".weight");
      expected.push_back("features." + std::to_string(layer) + ".bias");
    }
  }
  for (const char* layer : {"classifier.1", "classifier.3"}) {
    expected.push_back(std::string(layer) + ".weight");
    expected.push_back(std::string(layer) + ".bias");
  }
  CHECK(names_of(*replica) == expected);
  CHECK(replica->layout().front().shape == std::vector<std::int64_t>{64, 3, 3, 3});
  CHECK(replica->layout()[expected.size() - 4].shape == std::vector<std::int64_t>{512, 512});
}

TEST_CASE("AlexNet's parameters have the names of torchvision's features", "[plain]") {
  const auto replica =
      make_replica({.model = models::alexnet, .inputs = test::pictures({1, 28, 28}), .outputs = 7});
  std::vector<std::string> expected;
  for (const char* layer :
       {"features.0", "features.3", "features.6", "features.8", "features.10", "classifier"}) {
    expected.push_back(std::string(layer) + ".weight");
    expected.push_back(std::string(layer) + ".bias");
  }
  CHECK(names_of(*replica) == expected);
  CHECK(replica->layout().front().shape == std::vector<std::int64_t>{64, 1, 11, 11});
  CHECK(replica->layout()[10].shape == std::vector<std::int64_t>{7, 256});
}

TEST_CASE("plain networks: initial weights depend only on the seed", "[plain]") {
  const std::string name = GENERATE("vgg11", "alexnet");
  const auto replica = make_replica(
      {.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar), .seed = 5, .rank = 0});
  const auto other_rank = make_replica(
      {.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar), .seed = 5, .rank = 3});
  const auto other_seed = make_replica(
      {.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar), .seed = 6});
  CHECK(std::ranges::equal(replica->parameters(), other_rank->parameters()));
  CHECK_FALSE(std::ranges::equal(replica->parameters(), other_seed->parameters()));
  for (const TensorSlice& slice : replica->layout()) {
    if (slice.shape.size() != 4) continue;
    double squares = 0;
    for (const float v : replica->parameters().subspan(slice.offset, slice.count))
      squares += static_cast<double>(v) * v;
    const auto count = static_cast<double>(slice.count);
    const double he = 2.0 / static_cast<double>(slice.shape[0] * slice.shape[2] * slice.shape[3]);
    CAPTURE(name, slice.name);
    CHECK(squares / count == Approx(he).epsilon(5 * std::sqrt(2.0 / count)));
  }
}

TEST_CASE("plain networks: every tensor has a gradient and is announced once", "[plain]") {
  const std::string name = GENERATE("vgg11", "alexnet");
  const auto replica =
      make_replica({.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar)});
  std::vector<std::size_t> order;
  const double loss = replica->forward_backward(random_batch(6, kCifar),
                                                [&](std::size_t i) { order.push_back(i); });
  CHECK(std::isfinite(loss));
  CHECK(order.size() == replica->layout().size());
  CHECK(std::set(order.begin(), order.end()).size() == order.size());
  CHECK(replica->layout()[order.front()].name.starts_with("classifier"));
  CHECK(replica->layout()[order.back()].name.starts_with("features."));
  for (const TensorSlice& slice : replica->layout()) {
    CAPTURE(name, slice.name);
    const auto values = replica->gradient().subspan(slice.offset, slice.count);
    CHECK(std::ranges::any_of(values, [](float v) { return v != 0; }));
    CHECK(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
  }
}

TEST_CASE("plain networks: the gradient is the loss's slope along itself", "[plain]") {
  const auto batch = random_batch(8, kCifar);
  // The mask of a replica's first batch depends on seed and rank alone, so that fresh replicas
  // compute the same function.
  const auto fresh = [] {
    return make_replica({.model = models::alexnet, .inputs = test::pictures(kCifar)});
  };
  const auto replica = fresh();
  replica->forward_backward(batch, {});
  double squares = 0;
  for (const float v : replica->gradient()) squares += static_cast<double>(v) * v;
  const double norm = std::sqrt(squares);
  const auto loss_at = [&](double distance) {
    const auto moved = fresh();
    for (std::size_t i = 0; i < moved->parameters().size(); ++i)
      moved->parameters()[i] += static_cast<float>(distance * replica->gradient()[i] / norm);
    return moved->forward_backward(batch, {});
  };
  const double h = 1e-3;
  CHECK((loss_at(h) - loss_at(-h)) / (2 * h) == Approx(norm).epsilon(0.02));
}

TEST_CASE("plain descent lets plain networks memorise a batch", "[plain]") {
  const auto [name, rate, steps] =
      GENERATE(table<std::string, float, int>({{"vgg11", 0.02f, 12}, {"alexnet", 0.2f, 40}}));
  CAPTURE(name);
  const auto replica =
      make_replica({.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar)});
  const auto batch = random_batch(6, kCifar);
  const double first = replica->forward_backward(batch, {});
  double last = first;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < replica->parameters().size(); ++i)
      replica->parameters()[i] -= rate * replica->gradient()[i];
    last = replica->forward_backward(batch, {});
  }
  CHECK(first > 1.5);
  CHECK(last < 0.5 * first);
}

TEST_CASE("dropout depends on seed, batch and rank, and is off in evaluation", "[plain]") {
  const ModelOptions options{
      .model = models::vgg11, .inputs = test::pictures(kCifar), .seed = 3, .rank = 1};
  const auto batch = random_batch(6, kCifar);
  const auto losses = two_losses(options, batch);
  CHECK(two_losses(options, batch) == losses);
  CHECK(losses[0] != losses[1]);
  ModelOptions other = options;
  other.rank = 2;
  CHECK(two_losses(other, batch)[0] != losses[0]);

  // Evaluation does not change running statistics, so only dropout could change the loss.
  const auto replica = make_replica(options);
  const auto sibling = make_replica(other);
  CHECK(replica->evaluate(batch).loss_sum == replica->evaluate(batch).loss_sum);
  CHECK(replica->evaluate(batch).loss_sum == sibling->evaluate(batch).loss_sum);
  // Evaluation uses no random numbers, so training batches keep their keys.
  CHECK(replica->forward_backward(batch, {}) == losses[0]);
}

TEST_CASE("plain networks: weights are restored bit by bit", "[plain]") {
  const std::string name = GENERATE("vgg11", "alexnet");
  const auto path = std::filesystem::temp_directory_path() /
                    ("eqt_plain." + std::to_string(getpid()) + name + ".pt");
  const auto batch = random_batch(6, kCifar);
  const auto saved = make_replica(
      {.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar), .seed = 1});
  saved->forward_backward(batch, {});
  saved->save_weights(path);
  const auto loaded = make_replica(
      {.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar), .seed = 2});
  CHECK(copy(loaded->parameters()) != copy(saved->parameters()));
  loaded->load_weights(path);
  CHECK(copy(loaded->parameters()) == copy(saved->parameters()));
  CHECK(copy(loaded->buffers()) == copy(saved->buffers()));
  CHECK(loaded->evaluate(batch).loss_sum == saved->evaluate(batch).loss_sum);
  std::filesystem::remove(path);
}

TEST_CASE("plain networks take images of other sizes", "[plain]") {
  const auto [name, side] =
      GENERATE(table<std::string, int>({{"vgg11", 28}, {"vgg11", 80}, {"alexnet", 64}}));
  const data::ImageShape shape{1, side, side};
  const auto replica = make_replica(
      {.model = ModelRow::all().at(name), .inputs = test::pictures(shape), .outputs = 4});
  CAPTURE(name, side);
  CHECK(std::isfinite(replica->forward_backward(random_batch(2, shape, 4), {})));
  CHECK(replica->evaluate(random_batch(3, shape, 4)).count == 3);
}

TEST_CASE("options that a plain network does not have are refused", "[plain]") {
  CHECK_THAT(refusal({.model = models::alexnet,
                      .inputs = test::pictures(kCifar),
                      .normalization = normalizations::evonorm_s0}),
             ContainsSubstring("evonorm-s0") && ContainsSubstring("alexnet") &&
                 ContainsSubstring("vgg11"));
  CHECK_THAT(refusal({.model = models::vgg11,
                      .inputs = test::pictures(kCifar),
                      .shortcut = Shortcut::padding}),
             ContainsSubstring("model.shortcut"));
}

TEST_CASE("plain networks: multiply-adds per image from their shapes", "[plain]") {
  // Convolutions: 9 in out per pixel of 32^2, 16^2, 8^2 twice, 4^2 twice, 2^2 twice; AlexNet's of
  // 8^2, 4^2 and 2^2 pixels. VGG-11: 153.03 M in the literature.
  const auto [name, mega] =
      GENERATE(table<std::string, double>({{"vgg11", 153.03}, {"alexnet", 14.957}}));
  const auto replica = make_replica(published_options(*ModelRow::all().at(name)));
  const auto work = multiply_adds(replica->layout(), 32);
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  CAPTURE(name);
  CHECK(all / 1e6 == Approx(mega).epsilon(0.004));  // norms and biases
  CHECK(make_emulated_replica(make_replica(published_options(*ModelRow::all().at(name))), {})
            ->layout()
            .size() == replica->layout().size());
}

}  // namespace
}  // namespace eqt::model
