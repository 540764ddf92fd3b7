// SPDX-License-Identifier: Apache-2.0
// LAQ and LAG on logistic regression, compared with a simulation of all ranks in one process that
// follows the paper's equations in double precision.

#include "sync/lazy_averaging.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "codec/bytes.hpp"
#include "codec/frame.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using sync::LazyDifference;
using sync::LazyMeanOptions;

namespace {

constexpr std::size_t kFeatures = 13, kSamples = 30;
constexpr float kDecay = 0.01f, kRate = 0.2f;

std::vector<float> normal(std::size_t count, std::uint32_t rank, StepId step = 0) {
  return test::gaussian(count, {.run_seed = 3, .step = step, .rank = rank});
}

/// A rank's samples; the larger the rank, the larger they are, and so is its loss's smoothness.
struct Shard {
  explicit Shard(Rank rank) : Shard(rank, kFeatures, 0.2 * std::pow(1.4, rank)) {}
  Shard(Rank rank, std::size_t values, double factor)
      : features(values),
        scale(factor),
        inputs(normal(kSamples * values, static_cast<std::uint32_t>(rank))) {}

  double label(std::size_t sample) const {
    const float* const x = inputs.data() + sample * features;
    return x[0] + x[1] > 0.3f ? 1 : -1;
  }
  /// y <x, theta>
  double margin(std::size_t sample, std::span<const float> theta) const {
    const float* const x = inputs.data() + sample * features;
    double product = 0;
    for (std::size_t i = 0; i < features; ++i)
      product += scale * static_cast<double>(x[i]) * static_cast<double>(theta[i]);
    return label(sample) * product;
  }

  /// The mean of log(1 + exp(-y <x, theta>)), without weight decay.
  double loss(std::span<const float> theta) const {
    double sum = 0;
    for (std::size_t s = 0; s < kSamples; ++s) sum += std::log1p(std::exp(-margin(s, theta)));
    return sum / double{kSamples};
  }
  std::vector<double> gradient(std::span<const float> theta) const {
    std::vector<double> sum(features);
    for (std::size_t s = 0; s < kSamples; ++s) {
      const float* const x = inputs.data() + s * features;
      const double factor = -label(s) / (1 + std::exp(margin(s, theta)));
      for (std::size_t i = 0; i < features; ++i)
        sum[i] += factor * scale * static_cast<double>(x[i]) / double{kSamples};
    }
    return sum;
  }

  std::size_t features;
  double scale;
  std::vector<float> inputs;
};

struct Outcome {
  std::vector<float> theta = std::vector<float>(kFeatures);
  std::uint64_t sent = 0;
};

void descend(std::span<const float> gradient, std::vector<float>& theta) {
  for (std::size_t i = 0; i < kFeatures; ++i) theta[i] -= kRate * gradient[i];
}

/// Equations 5 to 7 and algorithm 2 of the paper for all ranks.
Outcome oracle(int ranks, const LazyMeanOptions& options, StepId steps) {
  struct Worker {
    Shard shard;
    std::vector<double> uploaded = std::vector<double>(kFeatures);
    double last_error = 0;
    StepId last_step = 0;
  };
  std::vector<Worker> workers;
  for (Rank r = 0; r < ranks; ++r) workers.push_back({Shard(r)});
  std::deque<double> history(options.history, 0.0);
  Outcome outcome;
  for (StepId step = 0; step < steps; ++step) {
    double moved = 0;
    for (const double square : history) moved += square;
    moved *= options.weight / static_cast<double>(options.history);
    for (Worker& worker : workers) {
      std::vector<double> v = worker.shard.gradient(outcome.theta), delta;
      double radius = 0;
      for (std::size_t i = 0; i < kFeatures; ++i) {
        v[i] += static_cast<double>(kDecay) * static_cast<double>(outcome.theta[i]);
        v[i] -= worker.uploaded[i];
        radius = std::max(radius, std::abs(v[i]));
      }
      double change = 0, error = 0;
      const double tau = 1 / (std::pow(2.0, options.bits) - 1);
      for (const double value : v) {
        double point = value;
        if (options.bits > 0)
          point =
              2 * tau * radius * std::floor((value + radius) / (2 * tau * radius) + 0.5) - radius;
        delta.push_back(point);
        change += point * point;
        error += (value - point) * (value - point);
      }
      const bool must = step == 0 || step - worker.last_step >= options.silence;
      if (!must && change <= moved + 3 * (error + worker.last_error)) continue;
      for (std::size_t i = 0; i < kFeatures; ++i) worker.uploaded[i] += delta[i];
      worker.last_error = error;
      worker.last_step = step;
      ++outcome.sent;
    }
    std::vector<float> mean(kFeatures);
    double square = 0;
    for (std::size_t i = 0; i < kFeatures; ++i) {
      double sum = 0;
      for (const Worker& worker : workers) sum += worker.uploaded[i];
      sum /= ranks;
      square += sum * sum;
      mean[i] = static_cast<float>(sum);
    }
    history.pop_front();
    history.push_back(square);
    descend(mean, outcome.theta);
  }
  return outcome;
}

/// Keeps doubles and numbers of a part; with `full` gives them back.
class Saved final : public test::StateSource {
 public:
  bool full = false;
  void doubles(std::string_view, std::span<double> values, Across) override {
    visit(values, reals_, next_real_);
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    visit(values, counts_, next_count_);
  }
  bool restores() const noexcept override { return full; }

 private:
  template <typename T>
  void visit(std::span<T> values, std::vector<T>& kept, std::size_t& next) const {
    if (!full) {
      kept.insert(kept.end(), values.begin(), values.end());
      return;
    }
    for (T& value : values) value = kept.at(next++);
  }
  std::vector<double> reals_;
  std::vector<std::uint64_t> counts_;
  std::size_t next_real_ = 0, next_count_ = 0;
};

/// This rank's part of the same run through the synchronizer.
class Run {
 public:
  Run(comm::Communicator& comm, const LazyMeanOptions& rule, StepId steps)
      : shard_(comm.rank()),
        synchronizer_(sync::make_lazy_averaging(
            {.comm = comm, .parameters = outcome.theta, .gradient = gradient_, .layout = layout_},
            {.rule = rule, .weight_decay = kDecay, .total_steps = steps})) {}

  void go(StepId from, StepId to) {
    for (StepId step = from; step < to; ++step) {
      const auto exact = shard_.gradient(outcome.theta);
      std::ranges::transform(exact, gradient_.begin(), [](double g) { return float(g); });
      synchronizer_->begin(step, 0);
      last = synchronizer_->finish();
      sent_bytes += last.traffic.sent_bytes;
      descend(gradient_, outcome.theta);
    }
  }
  void visit(StateVisitor& visitor) { synchronizer_->visit_state(visitor); }

  Outcome outcome;
  sync::SyncResult last;
  std::uint64_t sent_bytes = 0;

 private:
  Shard shard_;
  const Layout layout_ = test::layout_of({{kFeatures}});
  std::vector<float> gradient_ = std::vector<float>(kFeatures);
  std::unique_ptr<sync::Synchronizer> synchronizer_;
};

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

/// The same bits on all ranks.
bool same_everywhere(comm::Communicator& comm, std::span<const float> values) {
  bool same = true;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const auto all = comm.allgather(std::uint64_t{bits});
    same &= std::ranges::count(all, all[0]) == std::ssize(all);
  }
  return same;
}

}  // namespace

TEST_CASE("LAG and LAQ follow a simulation of all ranks", "[lazy]") {
  comm::Communicator comm(test::session(), 30);
  const StepId steps = 60;
  for (const unsigned bits : {0u, 3u, 8u}) {
    CAPTURE(bits);
    const LazyMeanOptions rule = {.bits = bits, .history = 10, .weight = 0.8, .silence = 25};
    Run run(comm, rule, steps);
    run.go(0, steps);
    const Outcome expected = oracle(comm.size(), rule, steps);
    CHECK(largest_difference(run.outcome.theta, expected.theta) < 2e-6);
    CHECK(same_everywhere(comm, run.outcome.theta));
    const std::uint64_t all = steps * static_cast<std::uint64_t>(comm.size());
    CHECK(expected.sent < all);
    REQUIRE(run.last.note.has_value());
    CHECK(*run.last.note == fmt::format("laq: {} of {} gradients were sent, {} were left out",
                                        expected.sent, all, all - expected.sent));
  }
}

TEST_CASE("LAG that is never silent is gradient descent", "[lazy]") {
  comm::Communicator comm(test::session(), 30);
  const StepId steps = 50;
  Run run(comm, {.bits = 0, .silence = 1}, steps);
  run.go(0, steps);
  std::vector<float> theta(kFeatures);
  for (StepId step = 0; step < steps; ++step) {
    std::vector<float> mean(kFeatures);
    for (Rank r = 0; r < comm.size(); ++r) {
      const auto gradient = Shard(r).gradient(theta);
      for (std::size_t i = 0; i < kFeatures; ++i)
        mean[i] += static_cast<float>(gradient[i] / comm.size());
    }
    for (std::size_t i = 0; i < kFeatures; ++i) mean[i] += kDecay * theta[i];
    descend(mean, theta);
  }
  CHECK(largest_difference(run.outcome.theta, theta) < 2e-6);
  const std::uint64_t all = steps * static_cast<std::uint64_t>(comm.size());
  CHECK(*run.last.note ==
        fmt::format("laq: {} of {} gradients were sent, 0 were left out", all, all));
}

TEST_CASE("a rank is never silent for longer than it may", "[lazy]") {
  comm::Communicator comm(test::session(), 30);
  constexpr StepId kSilence = 5;
  for (const unsigned bits : {0u, 4u}) {
    sync::LazyMean mean(comm, 40, {.bits = bits, .silence = kSilence});
    for (StepId step = 0; step < 4 * kSilence; ++step) {
      // A gradient that all know exactly after the first message, for it is on the grid.
      std::vector<float> gradient(40, static_cast<float>(comm.rank() + 1));
      const auto result = mean.mean(step, gradient);
      CAPTURE(bits, step);
      const bool due = step % kSilence == 0;
      CHECK(result.senders == (due ? static_cast<std::size_t>(comm.size()) : 0));
      CHECK(gradient[7] == static_cast<float>((comm.size() + 1) / 2.0));
      CHECK((result.traffic.encoded_bytes == codec::kFrameHeaderBytes) == !due);
    }
  }
}

TEST_CASE("a stopped run goes on with the same bits and bytes", "[lazy]") {
  comm::Communicator comm(test::session(), 30);
  const LazyMeanOptions rule = {.bits = 3, .history = 4, .silence = 9};
  Run whole(comm, rule, 40), first(comm, rule, 40), second(comm, rule, 40);
  whole.go(0, 40);
  first.go(0, 17);
  Saved saved;
  first.visit(saved);
  saved.full = true;
  second.visit(saved);
  second.outcome.theta = first.outcome.theta;
  second.go(17, 40);
  CHECK(second.outcome.theta == whole.outcome.theta);
  CHECK(first.sent_bytes + second.sent_bytes == whole.sent_bytes);
  CHECK(second.last.note == whole.last.note);
}

TEST_CASE("receivers know what the sender believes that they know", "[lazy]") {
  for (const unsigned bits : {0u, 1u, 3u, 4u, 7u, 16u}) {
    for (const std::size_t count : {1u, 7u, 64u, 1001u}) {
      CAPTURE(bits, count);
      const LazyDifference difference(count, bits);
      std::vector<double> sender(count), receiver(count);
      std::vector<std::byte> frame(difference.frame_bytes());
      const std::size_t payload = bits == 0 ? 4 * count : 4 + (count * bits + 7) / 8;
      CHECK(frame.size() == codec::kFrameHeaderBytes + payload);
      for (StepId step = 0; step < 6; ++step) {
        const auto gradient = normal(count, 1, step);
        double largest = 0, exact = 0, sent = 0, error = 0;
        const std::vector<double> before = sender;
        const auto squares = difference.encode(gradient, sender, step, frame);
        CHECK(difference.decode_add(frame, step, sender));
        CHECK(difference.decode_add(frame, step, receiver));
        CHECK(sender == receiver);
        for (std::size_t i = 0; i < count; ++i) {
          const double v = static_cast<double>(gradient[i]) - before[i];
          largest = std::max(largest, std::abs(v));
          exact += v * v;
          sent += (sender[i] - before[i]) * (sender[i] - before[i]);
          error += (v - (sender[i] - before[i])) * (v - (sender[i] - before[i]));
        }
        const double tau = bits == 0 ? 1e-7 : 1 / (std::pow(2.0, bits) - 1);
        for (std::size_t i = 0; i < count; ++i)
          CHECK(std::abs(static_cast<double>(gradient[i]) - sender[i]) <=
                tau * largest * (1 + 1e-6) + 1e-7 * largest);
        CHECK(squares.sent == Approx(sent));
        CHECK(squares.exact == Approx(exact));
        if (bits > 0) CHECK(squares.error == Approx(error).margin(1e-12));
      }
    }
  }
}

TEST_CASE("malformed messages are refused", "[lazy]") {
  constexpr std::size_t kCount = 5;
  constexpr StepId kStep = 9;
  const LazyDifference codes(kCount, 3), floats(kCount, 0);
  const auto gradient = normal(kCount, 2);
  const std::vector<double> zeros(kCount);
  std::vector<double> values(kCount);
  const auto sound = [&](const LazyDifference& difference) {
    std::vector<std::byte> frame(difference.frame_bytes());
    (void)difference.encode(gradient, zeros, kStep, frame);
    return frame;
  };
  const auto refuse = [&](const LazyDifference& difference, std::span<const std::byte> frame,
                          const std::string& what, StepId step = 9) {
    CHECK_THROWS_WITH(difference.decode_add(frame, step, values),
                      Catch::Matchers::ContainsSubstring(what));
  };
  auto frame = sound(codes);
  CHECK(codes.decode_add(frame, kStep, values));
  refuse(codes, frame, "step 10, found 9", kStep + 1);
  refuse(codes, std::span(frame).first(20), "expected 32 bytes");
  refuse(codes, std::span(frame).first(frame.size() - 1), "payload bytes");
  refuse(codes, std::span(frame).first(codec::kFrameHeaderBytes), "flags 1, found 0");
  refuse(floats, frame, "a payload of 20 bytes, found 6");
  frame.back() |= std::byte{0x80};  // 15 of 16 bits are used
  refuse(codes, frame, "unused bits");
  frame = sound(codes);
  codec::store(frame.data() + codec::kFrameHeaderBytes, -1.0f);
  refuse(codes, frame, "radius of at least 0, found -1");
  codec::store(frame.data() + codec::kFrameHeaderBytes, std::numeric_limits<float>::infinity());
  refuse(codes, frame, "finite radius");
  frame = sound(floats);
  codec::store(frame.data() + codec::kFrameHeaderBytes + 8,
               std::numeric_limits<float>::quiet_NaN());
  refuse(floats, frame, "finite values");
  frame = sound(codes);
  frame[7] = std::byte{codec::kNothingSent};
  refuse(codes, frame, "flags 0, found 1");
  frame.resize(codes.encode_nothing(kStep, frame));
  CHECK_FALSE(codes.decode_add(frame, kStep, values));
}

TEST_CASE("a change that float32 cannot hold ends the run", "[lazy]") {
  const LazyDifference codes(2, 4);
  const std::vector<float> gradient = {3e38f, 0};
  const std::vector<double> known = {-3e38, 0};
  std::vector<std::byte> frame(codes.frame_bytes());
  CHECK_THROWS_WITH(codes.encode(gradient, known, 0, frame),
                    Catch::Matchers::ContainsSubstring("the change of the gradient"));
}

namespace {

constexpr std::size_t kWide = 2000;
constexpr float kWideRate = 1, kWideDecay = 0.004f;  // the smoothness of the mean is below 1

/// Logistic regression; the smoothness of a shard is 1.3 times that of the one before.
class WideProblem {
 public:
  WideProblem(Rank rank, int ranks) : rank_(rank) {
    constexpr double kLargest = 70;  // eigenvalue of the moments of normal inputs
    for (Rank r = 0; r < ranks; ++r)
      shards_.emplace_back(r, kWide, std::sqrt(4 * std::pow(1.3, r) / kLargest));
  }
  std::vector<double> own_gradient(std::span<const float> theta) const {
    return shards_[static_cast<std::size_t>(rank_)].gradient(theta);
  }
  double loss(std::span<const float> theta) const {
    double sum = 0, square = 0;
    for (const Shard& shard : shards_) sum += shard.loss(theta);
    for (const float value : theta) square += static_cast<double>(value) * value;
    return sum / static_cast<double>(shards_.size()) + 0.5 * kWideDecay * square;
  }

 private:
  const Rank rank_;
  std::vector<Shard> shards_;
};

struct Descent {
  StepId steps = 0;
  double sent_bytes = 0;  // by all ranks
  double loss = 0;
  std::string note;
};

/// Descends until the loss is `target` or for `most` steps.
Descent descend_to(comm::Communicator& comm, const WideProblem& problem,
                   const LazyMeanOptions& rule, double target, StepId most) {
  std::vector<float> theta(kWide), gradient(kWide);
  sync::LazyMean mean(comm, kWide, rule);
  const auto before = comm.byte_count().sent_bytes;
  Descent descent;
  for (; descent.steps < most; ++descent.steps) {
    if (target > 0 && problem.loss(theta) <= target) break;
    const auto exact = problem.own_gradient(theta);
    for (std::size_t i = 0; i < kWide; ++i)
      gradient[i] = static_cast<float>(exact[i]) + kWideDecay * theta[i];
    (void)mean.mean(descent.steps, gradient);
    for (std::size_t i = 0; i < kWide; ++i) theta[i] -= kWideRate * gradient[i];
  }
  std::vector<double> bytes = {static_cast<double>(comm.byte_count().sent_bytes - before)};
  comm.allreduce_sum(bytes);
  descent.sent_bytes = bytes[0];
  descent.loss = problem.loss(theta);
  descent.note = fmt::format("{} sent, {} left out", mean.messages_sent(), mean.messages_skipped());
  return descent;
}

}  // namespace

TEST_CASE("messages and bytes until the loss is within 1e-6 of its least", "[.][gap]") {
  comm::Communicator comm(test::session(), 60);
  const WideProblem problem(comm.rank(), comm.size());
  const LazyMeanOptions all = {.bits = 0, .silence = 1};
  const double least = descend_to(comm, problem, all, 0, 3000).loss;
  for (const auto& [name, rule] :
       std::vector<std::pair<std::string, LazyMeanOptions>>{{"gradient descent", all},
                                                            {"LAG", {.bits = 0}},
                                                            {"LAQ, 4 bits", {.bits = 4}},
                                                            {"LAQ, 8 bits", {.bits = 8}}}) {
    const Descent descent = descend_to(comm, problem, rule, least + 1e-6, 3000);
    if (comm.rank() != 0) continue;
    fmt::print("{}: {} steps, {}, {:.0f} bytes in all, gap {:.2e}\n", name, descent.steps,
               descent.note, descent.sent_bytes, descent.loss - least);
  }
}
