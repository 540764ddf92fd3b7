// SPDX-License-Identifier: Apache-2.0
#include "train/workers.hpp"

#include <array>
#include <memory>
#include <vector>

#include "data/partition.hpp"
#include "support/blobs.hpp"
#include "support/catch.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using train::Workers;

namespace {

/// Two parameters, two running statistics and a counter; remembers the worker that uses it.
class RecordingReplica final : public model::Replica {
 public:
  Rank rank = -1;
  std::uint64_t batches = 7;
  std::array<float, 2> parameter{1, 2}, statistics{10, 20};

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameter; }
  std::span<float> gradient() override { return {}; }
  std::span<float> buffers() override { return statistics; }
  double forward_backward(const data::Batch&, const model::SliceReady&) override { return 0; }
  model::Evaluation evaluate(const data::Batch&) override { return {}; }
  void set_rank(Rank next) override { rank = next; }
  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.values("parameters", parameter, models);
    visitor.values("buffers", statistics, Across::mean);
    visitor.number("batches", batches, Across::own);
  }
  void save_weights(const std::string&) const override {}
  void load_weights(const std::string&) override {}

 private:
  Layout layout_{{"x", {2}, 0, 2}};
};

/// Three workers on a third of the samples each.
struct Fixture {
  test::Blobs samples;
  RecordingReplica replica;
  std::vector<std::unique_ptr<data::Partition>> shards;
  std::vector<std::unique_ptr<data::BatchLoader>> loaders;
  std::unique_ptr<Workers> workers;

  Fixture() {
    std::vector<data::BatchLoader*> batches;
    for (int w = 0; w < 3; ++w) {
      shards.push_back(std::make_unique<data::IidPartition>(samples.size(), w, 3, 1));
      loaders.push_back(std::make_unique<data::BatchLoader>(
          samples, *shards.back(),
          data::BatchLoader::Options{.batch_size = 4, .batches_per_epoch = 20, .augment = false}));
      batches.push_back(loaders.back().get());
    }
    workers = std::make_unique<Workers>(replica, batches);
  }

  /// A worker's step: it adds to all that the replica has.
  void take_step(Rank worker) {
    workers->select(worker);
    for (float& p : replica.parameter) p += 1;
    for (float& s : replica.statistics) s += static_cast<float>(worker + 1);
    replica.batches += 1;
  }
};

}  // namespace

TEST_CASE("workers share only parameters", "[workers]") {
  Fixture fixture;
  for (const Rank w : {0, 1, 2, 0}) fixture.take_step(w);
  const std::array<float, 3> tens = {12, 12, 13};  // 10 + 1 + 1, 10 + 2, 10 + 3
  const std::array<std::uint64_t, 3> batches = {9, 8, 8};
  for (const Rank w : {2, 0, 1}) {
    fixture.workers->select(w);
    const auto at = static_cast<std::size_t>(w);
    CHECK(fixture.replica.rank == w);
    CHECK(fixture.replica.parameter == std::array<float, 2>{5, 6});
    CHECK(fixture.replica.statistics[0] == tens.at(at));
    CHECK(fixture.replica.batches == batches.at(at));
  }
}

TEST_CASE("workers have batches from their own shards", "[workers]") {
  Fixture fixture;
  for (Rank w = 0; w < 3; ++w) {
    fixture.workers->select(w);
    const auto first = test::images_in(fixture.workers->next_batch());
    data::Batch expected;
    const auto order = fixture.shards[static_cast<std::size_t>(w)]->order(0);
    fixture.samples.read(std::span(order).first(4), {}, expected);
    CHECK(std::ranges::equal(first, test::images_in(expected)));
  }
  fixture.workers->seek(1, 2);
  fixture.workers->select(1);
  data::Batch expected;
  const auto order = fixture.shards[1]->order(1);
  fixture.samples.read(std::span(order).subspan(8, 4), {}, expected);
  CHECK(std::ranges::equal(test::images_in(fixture.workers->next_batch()),
                           test::images_in(expected)));
}

TEST_CASE("the mean of all workers' running statistics changes none of them", "[workers]") {
  Fixture fixture;
  for (const Rank w : {0, 1, 2}) fixture.take_step(w);
  fixture.workers->select(0);
  std::array<float, 2> mean = {};
  fixture.workers->mean_of_buffers(mean);
  CHECK(mean == std::array<float, 2>{12, 22});  // (11 + 12 + 13) / 3
  fixture.workers->mean_of_buffers(mean, std::vector<double>{0.5, 0.5, 2});
  CHECK(mean[0] == 12.5f);  // (5.5 + 6 + 26) / 3
  CHECK(fixture.replica.rank == 0);
  for (const Rank w : {2, 1, 0}) {
    fixture.workers->select(w);
    CHECK(fixture.replica.statistics[0] == static_cast<float>(11 + w));
    CHECK(fixture.replica.batches == 8);
  }
}

TEST_CASE("the state of workers that do not use the replica", "[workers]") {
  Fixture fixture;
  for (const Rank w : {0, 1, 2}) fixture.take_step(w);
  fixture.workers->select(0);
  test::StateSpans shown;
  fixture.workers->visit_state(shown);
  REQUIRE(shown.floats.size() == 2);
  CHECK(shown.floats[0][0] == 12);
  CHECK(shown.floats[1][1] == 23);
  CHECK(shown.counts == std::vector<std::uint64_t>{3, 8, 8});
}
