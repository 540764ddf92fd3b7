// SPDX-License-Identifier: Apache-2.0
// What a step takes with given grades: by hand, and as it must change with bytes, link and buckets.

#include <vector>

#include "collective/catalogue.hpp"
#include "setup/step_model.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::setup;

namespace {

constexpr double kRate = 1000;  // bytes per second

/// Two boards, two slices of 100 values, each in a bucket of its own, which are ready when half of
/// the backward pass is over and when all is. Codecs take no time.
StepModel model_of(double forward, double backward) {
  const double all = forward + backward;
  StepModel model{.collective = &collective::kAllgather,
                  .ranks = 2,
                  .hosts = 2,
                  .link = {.name = "link", .bytes_per_second = kRate},
                  .fixed = StepModel::Fixed{.computing = all, .codec_seconds = {0, 0}}};
  for (std::size_t slice = 0; slice < 2; ++slice)
    model.buckets.push_back(
        {.volume = {.ranks = 2, .hosts = 2, .values = 100},
         .shares = {{.slice = slice, .part = 1}},
         .ready = all > 0 ? (forward + static_cast<double>(slice + 1) * backward / 2) / all : 1});
  return model;
}

std::vector<adaptation::SliceLoad> loads(double first, double second) {
  return {{.values = 100, .bytes = first, .grade = 0},
          {.values = 100, .bytes = second, .grade = 1}};
}

}  // namespace

TEST_CASE("buckets are sent one after the other, each when it is complete", "[grades]") {
  const StepModel model = model_of(1, 2);  // buckets are complete after 2 s and 3 s
  const auto seconds = [&](double first, double second) {
    return predict_step(model, loads(first, second), {});
  };
  CHECK(seconds(500, 500) == Approx(3.5));   // the first is hidden
  CHECK(seconds(1500, 500) == Approx(4));    // the second waits for the first
  CHECK(seconds(500, 1500) == Approx(4.5));  // as long as it takes after the backward pass
}

TEST_CASE("without overlap the exchange follows the backward pass", "[grades]") {
  StepModel model = model_of(1, 2);
  model.overlap = false;
  CHECK(predict_step(model, loads(500, 500), {}) == Approx(4));
}

TEST_CASE("a slower link lengthens the exchange alone", "[grades]") {
  const StepModel model = model_of(1, 2);
  // Complete after 2 s, sent after 3.5 s; then the other one.
  CHECK(predict_step(model, loads(500, 500), {.slowdown = 3}) == Approx(5));
}

TEST_CASE("ranks of a host share its link, and one host's have one each", "[grades]") {
  StepModel model = model_of(1, 2);
  model.ranks = 4;
  for (StepModel::Bucket& bucket : model.buckets) bucket.volume.ranks = 4;
  // Each rank sends 500 bytes to both ranks of the other host.
  CHECK(predict_step(model, loads(500, 500), {}) == Approx(6));
  model.hosts = 1;
  for (StepModel::Bucket& bucket : model.buckets) bucket.volume.hosts = 1;
  // 500 bytes to three others.
  CHECK(predict_step(model, loads(500, 500), {}) == Approx(5));
}

TEST_CASE("measured times count where none are fixed", "[grades]") {
  StepModel model = model_of(0, 0);
  model.fixed.reset();
  const adaptation::StepSpeeds speeds{.forward = 1,
                                      .backward = 2,
                                      .encode_seconds = {0, 0.01},
                                      .decode_seconds = {0, 0},
                                      .ready = {0.25, 0.5}};
  // Complete after 1.5 and 2 s; the second is encoded from 2 to 3 s and sent until 3.5 s.
  CHECK(predict_step(model, loads(500, 500), speeds) == Approx(3.5));
}

TEST_CASE("threads that share cores delay each other", "[grades]") {
  StepModel model = model_of(1, 2);
  model.fixed->codec_seconds = {0.005, 0};
  // Complete after 2 s, encoded until 2.5 s, sent until 2.501 s, both ranks' decoded until 3.501 s.
  CHECK(predict_step(model, loads(1, 1), {}) == Approx(3.501).margin(0.002));
  // On one core: encoded until 3 s, half of it decoded until 4 s, when computing ends, and the rest
  // until 4.5 s.
  CHECK(predict_step(model, loads(1, 1), {.contention = 1}) == Approx(4.5).margin(0.005));
}

TEST_CASE("grades that lose nothing are averaged by dense, in memory without the link",
          "[grades]") {
  StepModel model = model_of(1, 2);
  model.ranks = 3;
  model.hosts = 1;
  for (StepModel::Bucket& bucket : model.buckets) bucket.volume = {.ranks = 3, .values = 100};
  model.communication.add = 0.001;
  model.float32 = {true, false};
  std::vector<adaptation::SliceLoad> slices = loads(400, 400);
  // One slice has a grade that loses something: both send 400 bytes to two others, from 2 s to
  // 2.8 s and from 3 s on.
  CHECK(predict_step(model, slices, {}) == Approx(3.8));
  slices[1].grade = 0;
  // By messages each third goes to two others, twice: 2 * 2 * 400/3 bytes, and an owner adds two
  // values to each of 100/3.
  CHECK(predict_step(model, slices, {}) == Approx(3 + 1600.0 / 3 / kRate + 200.0 / 3 * 0.001));
  // In memory 100 values are added after 3 s.
  model.shares_memory = true;
  for (StepModel::Bucket& bucket : model.buckets) bucket.volume.shares_memory = true;
  CHECK(predict_step(model, slices, {}) == Approx(3.1));
  CHECK(predict_step(model, slices, {.slowdown = 100}) == Approx(3.1));
}

TEST_CASE("more bytes never make a step shorter", "[grades]") {
  const StepModel model = model_of(0.3, 0.6);
  double before = 0;
  for (double bytes = 1; bytes < 1e5; bytes *= 1.7) {
    const double now = predict_step(model, loads(bytes, 100), {});
    CHECK(now >= before - 1e-9);
    before = now;
  }
}
