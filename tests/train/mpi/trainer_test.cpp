// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <vector>

#include "codec/catalogue.hpp"
#include "data/partition.hpp"
#include "support/blobs.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "support/record_log.hpp"
#include "support/toy_replica.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using test::Blobs;

namespace {

/// Copies the slices of every second step when they are ready.
struct Observer final : train::GradientObserver {
  test::ToyReplica* replica = nullptr;
  std::vector<train::ObservedStep> steps;
  std::vector<std::size_t> slices;  // of the last copied step
  std::vector<float> gradient;
  int finished = 0;

  bool begin(const train::ObservedStep& step, const data::Batch& batch) override {
    CHECK(batch.size() > 0);
    steps.push_back(step);
    slices.clear();
    return step.done % 2 == 1;
  }
  void slice_ready(std::size_t slice) override {
    const TensorSlice& s = replica->layout()[slice];
    const auto values = replica->gradient().subspan(s.offset, s.count);
    gradient.resize(replica->gradient().size());
    std::ranges::copy(values, gradient.begin() + static_cast<std::ptrdiff_t>(s.offset));
    slices.push_back(slice);
  }
  void finish() override { ++finished; }
};

struct Result {
  metrics::Summary summary;
  test::RecordLog log;
  std::vector<float> parameters;
};

Result run_toy(comm::Communicator& comm, const codec::Compressor& compressor, bool overlap,
               std::size_t batch_size, const train::Plan& base, Observer* observer = nullptr) {
  Result result;
  const test::Blobs blobs;
  const data::IidPartition partition(blobs.size(), comm.rank(), comm.size(), 1);
  train::Plan plan = base;
  plan.batch_size = static_cast<double>(batch_size);
  plan.steps_per_epoch = blobs.size() / static_cast<std::size_t>(comm.size()) / batch_size;
  if (plan.total_steps == 0) plan.total_steps = 2 * plan.steps_per_epoch;
  data::BatchLoader loader(blobs, partition,
                           {.batch_size = batch_size,
                            .batches_per_epoch = plan.steps_per_epoch,
                            .augment = false,
                            .seed = 1});
  test::ToyReplica replica(12, 2, 1 + static_cast<std::uint64_t>(comm.rank()));  // rank 0's counts
  auto buckets = pipeline::plan_buckets(replica.layout(), compressor, {.skip_below = 1});
  const auto collective = collective::make_allgather(comm, compressor, buckets);
  sync::GradientAveragingOptions options;
  options.overlap = overlap;
  options.lossy = !compressor.properties().lossless;
  const auto synchronizer =
      sync::make_gradient_averaging(comm, *collective, nullptr, std::move(buckets),
                                    replica.layout(), replica.gradient(), options);
  if (observer != nullptr) observer->replica = &replica;
  const auto optimizer = optim::make_sgd(replica.parameters().size(), {});
  const auto schedule = optim::make_schedule({.learning_rate = 0.02, .milestones = {}});
  train::Trainer trainer({.comm = comm,
                          .replica = replica,
                          .batches = &loader,
                          .test_set = &blobs,
                          .optimizer = *optimizer,
                          .schedule = *schedule,
                          .synchronizer = *synchronizer,
                          .sink = result.log,
                          .observer = observer},
                         plan);
  result.summary = trainer.run();
  result.parameters.assign(replica.parameters().begin(), replica.parameters().end());
  return result;
}

train::Plan two_epochs() {
  train::Plan plan;
  plan.total_steps = 0;
  return plan;
}

}  // namespace

TEST_CASE("the loop learns, counts and keeps replicas equal", "[trainer]") {
  comm::Communicator comm(test::session(), 30);
  const auto compressor = codec::make_compressor("qsgd-v", {.bits = 8, .bucket_size = 512});
  const Result result = run_toy(comm, *compressor, true, 10, two_epochs());
  const auto n = static_cast<std::uint64_t>(comm.size());
  CHECK(result.summary.test_accuracy.value() > 0.95);
  CHECK(result.summary.replicas_identical.value());
  CHECK(result.summary.epochs == 2);
  CHECK(result.summary.steps == 2 * (240 / n / 10));
  CHECK(result.summary.parameters == 26);
  CHECK(result.summary.parameter_hash.size() == 16);
  // 26 gradient values a step by the ring formula, and one buffer an epoch.
  CHECK(result.summary.dense_bytes == 8 * (n - 1) * (26 * result.summary.steps + 2));
  CHECK(result.summary.sent_bytes == result.summary.received_bytes);
  if (comm.rank() == 0) {
    CHECK(result.log.steps.size() == result.summary.steps);
    CHECK(result.log.epochs.size() == 2);
    CHECK(result.log.steps.back().loss < result.log.steps.front().loss);
    CHECK(result.log.steps.back().step == result.summary.steps);
    // Before the last epoch's buffer.
    CHECK(result.log.steps.back().total_dense_bytes ==
          8 * (n - 1) * (26 * result.summary.steps + 1));
    CHECK(result.log.epochs.back().total_sent_bytes == result.summary.sent_bytes);
  } else {
    CHECK(result.log.steps.empty());
  }
}

TEST_CASE("overlap changes no parameter", "[trainer]") {
  comm::Communicator comm(test::session(), 30);
  const auto compressor = codec::make_compressor("elastiquant", {.bits = 4, .bucket_size = 512});
  const Result plain = run_toy(comm, *compressor, false, 10, two_epochs());
  const Result overlapped = run_toy(comm, *compressor, true, 10, two_epochs());
  CHECK(plain.summary.parameter_hash == overlapped.summary.parameter_hash);
  CHECK(plain.parameters == overlapped.parameters);
}

TEST_CASE("n ranks with batch b take the same steps as one rank with the mean of their gradients",
          "[trainer]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  // One full-batch step: the union of the shards is the whole set for any number of ranks.
  train::Plan plan = two_epochs();
  plan.total_steps = 1;
  const Result result =
      run_toy(comm, *none, true, 240 / static_cast<std::size_t>(comm.size()), plan);

  const test::Blobs blobs;
  test::ToyReplica alone(12, 2, 1);
  std::vector<std::size_t> all(240);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  data::Batch batch;
  blobs.read(all, {}, batch);
  (void)alone.forward_backward(batch, [](std::size_t) {});
  for (std::size_t i = 0; i < result.parameters.size(); ++i) {
    CHECK(static_cast<double>(result.parameters[i]) ==
          Approx(static_cast<double>(alone.parameters()[i] - 0.02f * alone.gradient()[i]))
              .margin(1e-6));
  }
}

TEST_CASE("an observer gets each rank's own gradient before averaging", "[trainer]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  train::Plan plan = two_epochs();
  plan.total_steps = 1;
  Observer observer;
  const Result result = run_toy(comm, *none, true, 10, plan, &observer);
  CHECK(observer.finished == 1);
  std::ranges::sort(observer.slices);
  CHECK(observer.slices == std::vector<std::size_t>{0, 1});
  // Their mean was applied to the initial parameters.
  test::ToyReplica initial(12, 2, 1);
  const std::vector<float> own = observer.gradient;
  comm.allreduce_sum(observer.gradient);
  const auto n = static_cast<float>(comm.size());
  for (std::size_t i = 0; i < result.parameters.size(); ++i) {
    CHECK(static_cast<double>(result.parameters[i]) ==
          Approx(static_cast<double>(initial.parameters()[i] - 0.02f * observer.gradient[i] / n))
              .margin(1e-6));
  }
  std::vector<float> first = own;
  comm.broadcast(std::as_writable_bytes(std::span(first)), 0);
  CHECK((first == own) == (comm.rank() == 0));  // shards differ
}

TEST_CASE("an observer is asked in every step and called in the steps that it wants", "[trainer]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  Observer observer;
  const Result result = run_toy(comm, *none, true, 10, two_epochs(), &observer);
  const std::size_t steps = result.summary.steps;
  CHECK(observer.steps.size() == steps);
  CHECK(observer.finished == static_cast<int>(steps / 2));
  for (std::size_t i = 0; i < observer.steps.size(); ++i) {
    CHECK(observer.steps[i].done == i + 1);
    CHECK(observer.steps[i].epoch == (i < steps / 2 ? 1 : 2));
    CHECK(observer.steps[i].ends_epoch == (i + 1 == steps / 2 || i + 1 == steps));
  }
  CHECK(observer.slices.empty());  // the last step has an even number
}

TEST_CASE("rank 0 reports the progress of an evaluation", "[trainer]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  const Result result = run_toy(comm, *none, true, 10, two_epochs());
  const auto& told = result.log.evaluations;
  CHECK(told.size() == (comm.rank() == 0 ? 4 : 0));  // two epochs, a batch each
  const std::uint64_t share = 240 / static_cast<std::uint64_t>(comm.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    CHECK(told[i].epoch == i / 2 + 1);
    CHECK(told[i].done == (i % 2 == 0 ? 0 : share));
    CHECK(told[i].samples == share);
  }
}
