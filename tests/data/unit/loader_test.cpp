// SPDX-License-Identifier: Apache-2.0
#include "data/loader.hpp"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"

using namespace eqt;
using namespace eqt::data;

namespace {

/// Writes each sample's index, the epoch and the seed of its augmentation as the image.
class IndexDataset : public test::PictureSet {
 public:
  IndexDataset() : PictureSet({1, 1, 3}, 10) {}
  std::size_t size() const override { return 1000; }
  int label(std::size_t sample) const override { return static_cast<int>(sample % 10); }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override {
    if (++reads == fail_at) fail(Kind::data, "read {} fails", fail_at);
    std::vector<float> images;
    std::vector<std::int64_t> labels;
    for (const std::size_t index : indices) {
      if (index == fail_index) fail(Kind::data, "sample {} fails", index);
      images.push_back(static_cast<float>(index));
      images.push_back(augment ? static_cast<float>(augment->epoch) : -1.0f);
      images.push_back(augment ? static_cast<float>(augment->run_seed) : -1.0f);
      labels.push_back(static_cast<std::int64_t>(index % 10));
    }
    write(images, labels, out);
  }
  mutable std::atomic<int> reads = 0;
  int fail_at = 0;
  std::size_t fail_index = SIZE_MAX;
};

/// Sample 0 forty times, then sample 1.
class FailingOrder : public Partition {
 public:
  std::size_t size() const override { return 1000; }
  std::vector<std::size_t> order(std::uint64_t) const override {
    std::vector<std::size_t> samples(1000, 1);
    std::fill_n(samples.begin(), 40, std::size_t{0});
    return samples;
  }
};

void require_samples(const Batch& batch, const std::vector<std::size_t>& order, std::size_t first) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    REQUIRE(test::images_in(batch)[3 * i] == static_cast<float>(order[first + i]));
    REQUIRE(test::labels_in(batch)[i] == static_cast<std::int64_t>(order[first + i] % 10));
  }
}

}  // namespace

TEST_CASE("batches follow the partition's order over epochs", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(1000, 1, 3, 4);  // 333 samples: 10 batches of 32 and 13 left over
  BatchLoader loader(dataset, partition, {32, 10, true, 77, 5, 0});
  for (std::uint64_t epoch = 5; epoch < 9; ++epoch) {
    const auto order = partition.order(epoch);
    for (std::size_t i = 0; i < 10; ++i) {
      const Batch& batch = loader.next();
      REQUIRE(batch.size() == 32);
      require_samples(batch, order, i * 32);
      for (std::size_t s = 0; s < 32; ++s) {
        REQUIRE(test::images_in(batch)[3 * s + 1] == static_cast<float>(epoch));
        REQUIRE(test::images_in(batch)[3 * s + 2] == 77);
      }
    }
  }
}

TEST_CASE("a loader can continue within an epoch", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(100, 0, 1, 4);
  BatchLoader loader(dataset, partition, {10, 10, false, 1, 2, 7});
  for (std::size_t i = 7; i < 10; ++i) {
    const Batch& batch = loader.next();
    require_samples(batch, partition.order(2), i * 10);
    REQUIRE(test::images_in(batch)[1] == -1);
  }
  require_samples(loader.next(), partition.order(3), 0);
}

TEST_CASE("a batch does not change until the next one is requested", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(1000, 0, 1, 4);
  BatchLoader loader(dataset, partition, {50, 20, true, 1, 0, 0});
  const auto order = partition.order(0);
  for (std::size_t i = 0; i < 12; ++i) {
    const Batch& batch = loader.next();
    // Gives the producer time to overwrite the batch in use.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    require_samples(batch, order, i * 50);
  }
}

TEST_CASE("the loader reads ahead, but at most its ring", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(1000, 0, 1, 4);
  BatchLoader loader(dataset, partition, {10, 100, true, 1, 0, 0});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (dataset.reads < 3 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  REQUIRE(dataset.reads >= 3);  // without any next()
  std::set<const float*> buffers;
  for (int i = 1; i <= 40; ++i) {
    buffers.insert(test::images_in(loader.next()).data());
    REQUIRE(dataset.reads <= i + 3);
  }
  REQUIRE(buffers.size() <= 4);  // reused, never a new one
}

TEST_CASE("an error of the background thread is thrown after the valid batches", "[loader]") {
  IndexDataset dataset;
  dataset.fail_at = 4;
  const IidPartition partition(1000, 0, 1, 4);
  BatchLoader loader(dataset, partition, {10, 100, true, 1, 0, 0});
  for (std::size_t i = 0; i < 3; ++i) require_samples(loader.next(), partition.order(0), i * 10);
  for (int again = 0; again < 2; ++again) {
    try {
      loader.next();
      FAIL("no exception");
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::data);
      REQUIRE(std::string(error.what()) == "read 4 fails");
    }
  }
}

TEST_CASE("any number of threads gives the same batches", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(100, 0, 1, 4);
  for (const int threads : {1, 2, 3, 7}) {
    BatchLoader loader(dataset, partition, {10, 9, true, 77, 5, 3, threads});
    for (std::size_t i = 3; i < 60; ++i) {
      const Batch& batch = loader.next();
      if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      require_samples(batch, partition.order(5 + i / 9), i % 9 * 10);
      REQUIRE(test::images_in(batch)[1] == static_cast<float>(5 + i / 9));
    }
  }
}

TEST_CASE("of several threads' errors the first batch's is thrown, after all before it",
          "[loader]") {
  for (int round = 0; round < 50; ++round) {
    IndexDataset dataset;
    dataset.fail_index = 1;  // every batch from the fifth on has it
    const FailingOrder partition;
    BatchLoader loader(dataset, partition, {10, 100, true, 1, 0, 0, 4});
    for (int i = 0; i < 4; ++i) REQUIRE(loader.next().size() == 10);
    for (int again = 0; again < 2; ++again) REQUIRE_THROWS_WITH(loader.next(), "sample 1 fails");
  }
}

TEST_CASE("several threads read ahead, but at most their ring", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(1000, 0, 1, 4);
  BatchLoader loader(dataset, partition, {10, 100, true, 1, 0, 0, 3});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (dataset.reads < 6 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  REQUIRE(dataset.reads == 6);  // kSlots + 2; the first next() takes one and releases none
  std::set<const float*> buffers;
  for (int i = 1; i <= 40; ++i) {
    buffers.insert(test::images_in(loader.next()).data());
    REQUIRE(dataset.reads <= i + 5);
  }
  REQUIRE(buffers.size() <= 6);
}

TEST_CASE("a loader can stop at any time", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(100, 0, 1, 4);
  for (int used = 0; used < 200; ++used) {
    BatchLoader loader(dataset, partition, {10, 10, true, 1, 0, 0, 1 + used % 3});
    for (int i = 0; i < used % 14; ++i) loader.next();
  }
  SUCCEED("every destructor returned");
}

TEST_CASE("batches that do not fit into the shard are refused", "[loader]") {
  const IndexDataset dataset;
  const IidPartition partition(100, 0, 1, 4);
  for (const BatchLoader::Options& options :
       {BatchLoader::Options{11, 10, true, 1, 0, 0}, BatchLoader::Options{0, 10, true, 1, 0, 0},
        BatchLoader::Options{SIZE_MAX / 2 + 1, 2, true, 1, 0, 0}}) {
    try {
      BatchLoader loader(dataset, partition, options);
      FAIL("batch size " << options.batch_size << " was accepted");
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::usage);
    }
  }
}

TEST_CASE("shares of a batch are its samples, each once, whatever their sizes", "[loader]") {
  const IndexDataset dataset;
  const ReshuffledPartition partition(dataset.size(), 0, 1, 3);
  constexpr std::size_t kTogether = 90, kBatches = 11;
  const std::vector<Range> first = {{0, 40}, {40, 48}, {48, 90}};
  const std::vector<Range> later = {{0, 10}, {10, 50}, {50, 90}};
  std::vector<std::unique_ptr<BatchLoader>> loaders;
  for (const Range& share : first)
    loaders.push_back(
        std::make_unique<BatchLoader>(dataset, partition,
                                      BatchLoader::Options{.batch_size = kTogether,
                                                           .batches_per_epoch = kBatches,
                                                           .augment = false,
                                                           .share = share}));
  const auto order = partition.order(0);
  std::set<float> visited;
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    if (batch == 4)
      for (std::size_t rank = 0; rank < loaders.size(); ++rank)
        loaders[rank]->seek(0, batch, {.batch_size = kTogether, .share = later[rank]});
    const auto& shares = batch < 4 ? first : later;
    for (std::size_t rank = 0; rank < loaders.size(); ++rank) {
      const Batch& part = loaders[rank]->next();
      REQUIRE(part.size() == shares[rank].end - shares[rank].begin);
      require_samples(part, order, batch * kTogether + shares[rank].begin);
      for (std::size_t i = 0; i < part.size(); ++i)
        REQUIRE(visited.insert(test::images_in(part)[3 * i]).second);
    }
  }
  CHECK(visited.size() == kTogether * kBatches);
}

TEST_CASE("a rank with samples of its own goes on where its new batch size would be", "[loader]") {
  const IndexDataset dataset;
  const EndlessPartition partition(100, 180, 40, 2, 3);
  BatchLoader loader(dataset, partition, {10, 4, false, 1, 0, 0});
  const auto row = [&](std::size_t place) {  // of the endless row of permutations
    return partition.order_for(place / 80, 80).at(place % 80);
  };
  for (std::size_t batch = 0; batch < 6; ++batch) {
    const Batch& read = loader.next();
    for (std::size_t i = 0; i < read.size(); ++i)
      REQUIRE(test::images_in(read)[3 * i] == static_cast<float>(row(10 * batch + i)));
  }
  loader.seek(1, 2, {.batch_size = 7, .share = {0, 7}});
  for (std::size_t batch = 6; batch < 20; ++batch) {
    const Batch& read = loader.next();
    REQUIRE(read.size() == 7);
    for (std::size_t i = 0; i < read.size(); ++i)
      REQUIRE(test::images_in(read)[3 * i] == static_cast<float>(row(7 * batch + i)));
  }
}
