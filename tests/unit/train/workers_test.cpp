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
class Actor final : public model::Replica {
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
  void play_rank(Rank next) override { rank = next; }
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
struct Stage {
  test::Blobs samples;
  Actor actor;
  std::vector<std::unique_ptr<data::Partition>> shards;
  std::vector<std::unique_ptr<data::BatchLoader>> loaders;
  std::unique_ptr<Workers> workers;

  Stage() {
    std::vector<data::BatchLoader*> batches;
    for (int w = 0; w < 3; ++w) {
      shards.push_back(std::make_unique<data::IidPartition>(samples.size(), w, 3, 1));
      loaders.push_back(std::make_unique<data::BatchLoader>(
          samples, *shards.back(),
          data::BatchLoader::Options{.batch_size = 4, .batches_per_epoch = 20, .augment = false}));
      batches.push_back(loaders.back().get());
    }
    workers = std::make_unique<Workers>(actor, batches);
  }

  /// A worker's step: it adds to all that the replica has.
  void act(Rank worker) {
    workers->select(worker);
    for (float& p : actor.parameter) p += 1;
    for (float& s : actor.statistics) s += static_cast<float>(worker + 1);
    actor.batches += 1;
  }
};

}  // namespace

TEST_CASE("workers share parameters and nothing else", "[workers]") {
  Stage stage;
  for (const Rank w : {0, 1, 2, 0}) stage.act(w);
  const std::array<float, 3> tens = {12, 12, 13};  // 10 + 1 + 1, 10 + 2, 10 + 3
  const std::array<std::uint64_t, 3> batches = {9, 8, 8};
  for (const Rank w : {2, 0, 1}) {
    stage.workers->select(w);
    const auto at = static_cast<std::size_t>(w);
    CHECK(stage.actor.rank == w);
    CHECK(stage.actor.parameter == std::array<float, 2>{5, 6});
    CHECK(stage.actor.statistics[0] == tens.at(at));
    CHECK(stage.actor.batches == batches.at(at));
  }
}

TEST_CASE("workers have batches of their own shards", "[workers]") {
  Stage stage;
  for (Rank w = 0; w < 3; ++w) {
    stage.workers->select(w);
    const std::vector<float> first = stage.workers->next_batch().images;
    data::Batch expected;
    const auto order = stage.shards[static_cast<std::size_t>(w)]->order(0);
    stage.samples.read(std::span(order).first(4), {}, expected);
    CHECK(first == expected.images);
  }
  stage.workers->seek(1, 2);
  stage.workers->select(1);
  data::Batch expected;
  const auto order = stage.shards[1]->order(1);
  stage.samples.read(std::span(order).subspan(8, 4), {}, expected);
  CHECK(stage.workers->next_batch().images == expected.images);
}

TEST_CASE("running statistics are averaged for all, and back", "[workers]") {
  Stage stage;
  for (const Rank w : {0, 1, 2}) stage.act(w);
  stage.workers->select(0);
  stage.workers->average_buffers();
  CHECK(stage.actor.rank == 0);
  for (const Rank w : {1, 2, 0}) {
    stage.workers->select(w);
    CHECK(stage.actor.statistics == std::array<float, 2>{12, 22});  // (11 + 12 + 13) / 3
    CHECK(stage.actor.batches == 8);
  }
  stage.workers->restore_buffers();
  for (const Rank w : {2, 1, 0}) {
    stage.workers->select(w);
    CHECK(stage.actor.statistics[0] == static_cast<float>(11 + w));
  }
}

TEST_CASE("the state of workers that do not use the replica", "[workers]") {
  Stage stage;
  for (const Rank w : {0, 1, 2}) stage.act(w);
  stage.workers->select(0);
  test::StateSpans shown;
  stage.workers->visit_state(shown);
  REQUIRE(shown.floats.size() == 2);
  CHECK(shown.floats[0][0] == 12);
  CHECK(shown.floats[1][1] == 23);
  CHECK(shown.counts == std::vector<std::uint64_t>{3, 8, 8});
}
