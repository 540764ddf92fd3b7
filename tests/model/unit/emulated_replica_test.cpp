// SPDX-License-Identifier: Apache-2.0
// Emulated boards: the network's layout, a gradient's statistics, a step's time.

#include "model/emulated_replica.hpp"

#include <chrono>
#include <cmath>
#include <numeric>

#include "support/catch.hpp"
#include "support/toy_replica.hpp"

namespace eqt::model {
namespace {

const data::Batch kNoBatch;

std::unique_ptr<Replica> published(const std::string& name, const EmulationOptions& options = {}) {
  return make_emulated_replica(make_replica(published_options(*ModelRow::all().at(name))), options);
}

std::vector<float> gradient_after(Replica& replica, int steps) {
  for (int i = 0; i < steps; ++i) (void)replica.forward_backward(kNoBatch, {});
  return {replica.gradient().begin(), replica.gradient().end()};
}

std::unique_ptr<Replica> toy(const EmulationOptions& options) {
  return make_emulated_replica(std::make_unique<test::ToyReplica>(40, 10, 1), options);
}

}  // namespace

TEST_CASE("an emulated board has the published network's layout", "[emulation]") {
  // torchvision's documentation; He et al. for CIFAR with projections.
  const auto [name, parameters] = GENERATE(table<std::string, std::size_t>(
      {{"resnet18", 11'689'512}, {"resnet50", 25'557'032}, {"resnet20", 272'474}}));
  const auto real = make_replica(published_options(*ModelRow::all().at(name)));
  const auto emulated = published(name);
  CHECK(total_count(emulated->layout()) == parameters);
  CHECK(emulated->parameters().size() == parameters);
  CHECK(emulated->gradient().size() == parameters);
  CHECK(emulated->buffers().empty());
  REQUIRE(emulated->layout().size() == real->layout().size());
  for (std::size_t i = 0; i < real->layout().size(); ++i) {
    CHECK(emulated->layout()[i].name == real->layout()[i].name);
    CHECK(emulated->layout()[i].shape == real->layout()[i].shape);
  }
}

TEST_CASE("multiply-adds per image are the published ones", "[emulation]") {
  // torchvision's documentation lists them as GFLOPS; ResNet-20's from its 19 convolutions by hand.
  const auto [name, giga] = GENERATE(table<std::string, double>(
      {{"resnet18", 1.81}, {"resnet34", 3.66}, {"resnet50", 4.09}, {"resnet20", 0.0408}}));
  const ModelOptions options = published_options(*ModelRow::all().at(name));
  const auto work = multiply_adds(make_replica(options)->layout(), images_of(options).height);
  CAPTURE(name);
  CHECK(std::accumulate(work.begin(), work.end(), 0.0) / 1e9 == Approx(giga).epsilon(0.015));
}

TEST_CASE("for other names than a ResNet's, time is proportional to the number of values",
          "[emulation]") {
  const Layout layout = {{"layers", {3}, 0, 3}, {"layer", {2}, 3, 2}, {"layerx.w", {4}, 5, 4}};
  CHECK(multiply_adds(layout, 32) == std::vector<double>{3, 2, 4});
}

TEST_CASE("a gradient is a function of seed, step and rank", "[emulation]") {
  const auto first = gradient_after(*toy({.seed = 1, .rank = 0}), 3);
  CHECK(gradient_after(*toy({.seed = 1, .rank = 0}), 3) == first);
  CHECK(gradient_after(*toy({.seed = 1, .rank = 0}), 2) != first);
  CHECK(gradient_after(*toy({.seed = 1, .rank = 1}), 3) != first);
  CHECK(gradient_after(*toy({.seed = 2, .rank = 0}), 3) != first);
  // Overwriting the gradient by the mean does not change later gradients.
  const auto replica = toy({.seed = 1, .rank = 0});
  (void)gradient_after(*replica, 2);
  std::ranges::fill(replica->gradient(), 7.0f);
  CHECK(gradient_after(*replica, 1) == first);
}

TEST_CASE("values are Laplace's and scale with the fan-in", "[emulation]") {
  const auto replica = published("resnet18");
  const auto gradient = gradient_after(*replica, 1);
  double reference = 0;
  for (const TensorSlice& slice : replica->layout()) {
    if (slice.count < 100'000) continue;
    const auto n = static_cast<double>(slice.count);
    double sum = 0, absolute = 0, square = 0, fourth = 0;
    for (std::size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
      const auto x = static_cast<double>(gradient[i]);
      sum += x, absolute += std::abs(x), square += x * x, fourth += x * x * x * x;
    }
    const double rms = std::sqrt(square / n);
    CAPTURE(slice.name, n);
    // Moments of order k are k! b^k. Five standard errors; the fourth's is 49.8 / sqrt(n), and that
    // of the root mean square half that of the square, sqrt(5 / n).
    CHECK(sum / n / rms == Approx(0).margin(5 / std::sqrt(n)));
    CHECK(absolute / n / rms == Approx(std::sqrt(0.5)).margin(5 * 0.71 / std::sqrt(n)));
    CHECK(fourth / n / std::pow(rms, 4) == Approx(6).margin(5 * 50 / std::sqrt(n)));
    const double scaled = rms * std::sqrt(n / static_cast<double>(slice.shape[0]));
    if (reference == 0) reference = scaled;
    CHECK(scaled / reference == Approx(1).margin(5 * std::sqrt(2.5 / 100'000)));
  }
  CHECK(reference > 0);
}

TEST_CASE("slices become ready in reverse order, not before their time", "[emulation]") {
  constexpr double kSeconds = 0.12;
  const auto options = published_options(models::resnet20);
  const auto replica = published("resnet20", {.step_seconds = kSeconds, .image_side = 32});
  const auto work = multiply_adds(replica->layout(), images_of(options).height);
  const double all = std::accumulate(work.begin(), work.end(), 0.0);

  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<std::size_t> order;
  double done = 0;
  const double loss = replica->forward_backward(kNoBatch, [&](std::size_t slice) {
    done += work[slice];
    order.push_back(slice);
    CHECK(since() >= kSeconds * (1 + 2 * done / all) / 3 - 1e-6);
  });
  CHECK(since() >= kSeconds - 1e-6);
  CHECK(std::isnan(loss));
  REQUIRE(order.size() == replica->layout().size());
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == order.size() - 1 - i);
}

TEST_CASE("an emulated board has no accuracy and no weights", "[emulation]") {
  const auto replica = toy({});
  CHECK_THROWS_AS(replica->evaluate(kNoBatch), Error);
  CHECK_THROWS_AS(replica->save_weights("w.pt"), Error);
  CHECK_THROWS_AS(replica->load_weights("w.pt"), Error);
}

}  // namespace eqt::model
