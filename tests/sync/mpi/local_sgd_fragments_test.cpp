// SPDX-License-Identifier: Apache-2.0
// Fragments and mixing of local SGD, compared with a simulation of all ranks in one process.

#include <xxhash.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/local_sgd_case.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::test::local_sgd;

namespace {

using Delay = std::optional<StepId>;

/// Forwards all calls, is late on purpose, and after every step notes the last average.
class Watch final : public sync::Synchronizer {
 public:
  Watch(std::unique_ptr<sync::Synchronizer> inner, Rank rank, std::vector<std::uint64_t>* hashes)
      : inner_(std::move(inner)), rank_(rank), hashes_(hashes) {}

  void begin(StepId step, std::uint64_t epoch) override {
    step_ = step;
    inner_->begin(step, epoch);
  }
  void slice_ready(std::size_t slice) override { inner_->slice_ready(slice); }
  sync::SyncResult finish() override { return inner_->finish(); }
  sync::SyncResult after_update(float rate) override {
    const auto turn = (step_ * 7 + static_cast<StepId>(rank_) * 5) % 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(turn));
    sync::SyncResult result = inner_->after_update(rate);
    if (hashes_ != nullptr) {
      const std::span<float> average = test::spans_of(*inner_).front();
      hashes_->push_back(XXH3_64bits(average.data(), average.size_bytes()));
    }
    return result;
  }
  sync::LateExchange* late() override { return inner_->late(); }

 private:
  std::unique_ptr<sync::Synchronizer> inner_;
  Rank rank_;
  std::vector<std::uint64_t>* hashes_;
  StepId step_ = 0;
};

void watch(Settings& settings, Rank rank, std::vector<std::uint64_t>* hashes = nullptr) {
  settings.watch = [=](std::unique_ptr<sync::Synchronizer> inner) {
    return std::make_unique<Watch>(std::move(inner), rank, hashes);
  };
}

}  // namespace

TEST_CASE("rounds of fragments are spread over the local steps", "[local_sgd]") {
  for (const StepId every : {1u, 3u, 4u, 10u}) {
    for (const std::size_t fragments : {2u, 3u, 4u}) {
      const sync::LocalSgdPlan plan{
          .local_steps = every, .total_steps = 43, .delay = {}, .fragments = fragments};
      CAPTURE(every, fragments);
      for (std::size_t f = 0; f < fragments; ++f) {
        StepId count = 0;
        for (StepId step = 0; step < plan.total_steps; ++step) {
          // (t - floor(f H / F)) mod H = 0, with t = step + 1 counted from 1.
          const auto t = static_cast<std::int64_t>(step + 1);
          const auto offset = static_cast<std::int64_t>(f * every / fragments);
          const bool due = (t - offset) % static_cast<std::int64_t>(every) == 0 || t == 43;
          CHECK(plan.averages_before(step, f) == count);
          CHECK(plan.averages_after(step, f) == due);
          count += due;
        }
      }
    }
  }
}

TEST_CASE("fragments and mixing follow a simulation of all ranks", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  for (const std::size_t fragments : {1u, 2u, 3u, 4u}) {
    for (const Delay delay : {Delay(0), Delay(1), Delay(3), Delay()}) {
      for (const std::optional<float> mixing : {std::optional<float>(), {0.0f}, {0.5f}}) {
        Settings settings{
            .plan = {.local_steps = 4, .total_steps = 18, .delay = delay, .fragments = fragments},
            .outer = {.learning_rate = 0.7f, .momentum = 0.9f, .nesterov = true, .mixing = mixing},
            .overlap = true};
        CAPTURE(fragments, delay.value_or(99), mixing.value_or(-1));
        const Result result = train_toy(comm, *none, settings);
        CHECK(largest_difference(result.parameters, simulate_late(comm.size(), settings)) < 4e-6);
        CHECK(result.summary.replicas_identical.value());
      }
    }
  }
}

TEST_CASE("fragments that are averaged in every step are one, bit for bit", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  const auto sparse = codec::make_compressor("topk", {.density = 0.3});
  for (const codec::Compressor* compressor : {coarse.get(), sparse.get()}) {
    CAPTURE(codec::codec_name(compressor->id()));
    const sync::OuterStep outer{.learning_rate = 0.7f, .momentum = 0.5f};
    const Settings whole{
        .plan = {.local_steps = 1, .total_steps = 20}, .outer = outer, .cut = true};
    const Result expected = train_toy(comm, *compressor, whole);
    for (const std::size_t fragments : {2u, 4u}) {
      Settings settings = whole;
      settings.plan.fragments = fragments;
      const Result result = train_toy(comm, *compressor, settings);
      CHECK(result.parameters == expected.parameters);
      CHECK(result.summary.sent_bytes == expected.summary.sent_bytes);
    }
  }
}

TEST_CASE("fragments have the same bits on any timing, and averages equal on all ranks",
          "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto sparse = codec::make_compressor("topk", {.density = 0.3});
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  for (const codec::Compressor* compressor : {sparse.get(), coarse.get()}) {
    for (const Delay delay : {Delay(1), Delay(2), Delay(5), Delay()}) {
      CAPTURE(codec::codec_name(compressor->id()), delay.value_or(99));
      Settings settings{
          .plan = {.local_steps = 5, .total_steps = 32, .delay = delay, .fragments = 3}};
      const Result waiting = train_toy(comm, *compressor, settings);
      settings.overlap = true;
      watch(settings, comm.rank());
      const Result overlapped = train_toy(comm, *compressor, settings);
      CHECK(waiting.parameters == overlapped.parameters);
      CHECK(waiting.summary.sent_bytes == overlapped.summary.sent_bytes);
      std::vector<std::uint64_t> hashes;
      watch(settings, comm.rank(), &hashes);
      CHECK(train_toy(comm, *compressor, settings).parameters == waiting.parameters);
      CHECK(hashes.size() == 32);
      for (const std::uint64_t hash : hashes) {
        const auto all = comm.allgather(hash);
        CHECK(std::ranges::count(all, all[0]) == std::ssize(all));
      }
    }
  }
}

TEST_CASE("compressed fragments learn, with error feedback and mixing", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  const auto sparse = codec::make_compressor("topk", {.density = 0.3});
  for (const codec::Compressor* compressor : {coarse.get(), sparse.get()}) {
    CAPTURE(codec::codec_name(compressor->id()));
    Settings settings{
        .plan = {.local_steps = 4, .total_steps = 40, .delay = StepId{2}, .fragments = 4},
        .outer = {.mixing = 0.5f},
        .overlap = true};
    const Result result = train_toy(comm, *compressor, settings);
    CHECK(result.summary.test_accuracy.value() > 0.95);
    CHECK(result.summary.replicas_identical.value());
  }
}

TEST_CASE("a fragment counts as dense with its own values", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  // Fragments of 10, 8 and 8 values are sent after steps 4, 8, ...; 1, 5, ...; and 2, 6, ... Their
  // means come a step later. The last step applies what is under way, 8 values, and all 26.
  const Settings settings{
      .plan = {.local_steps = 4, .total_steps = 18, .delay = StepId{1}, .fragments = 3},
      .overlap = true};
  const Result result = train_toy(comm, *none, settings);
  const auto others = static_cast<std::uint64_t>(comm.size()) - 1;
  if (comm.rank() != 0) return;
  const std::map<StepId, std::uint64_t> values_after = {{0, 0}, {1, 10}, {2, 8}, {3, 8}};
  for (const metrics::StepRecord& record : result.log.steps) {
    const bool before_first = record.step == 1;  // that fragment's first mean comes after step 5
    const std::uint64_t values = record.step == 18 ? 8 + 26
                                 : before_first    ? 0
                                                   : values_after.at(record.step % 4);
    CAPTURE(record.step);
    CHECK(record.dense_bytes == values * 8 * others);
  }
}
