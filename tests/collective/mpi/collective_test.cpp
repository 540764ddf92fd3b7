// SPDX-License-Identifier: Apache-2.0
#include "collective/collective.hpp"
#include "pipeline/engine.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "collective/memory.hpp"
#include "support/catch.hpp"
#include "support/compressors.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/payload_bytes.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

// The library's MPI calls, observed through MPI's profiling interface.
std::vector<int> g_blocking;  // counts of values of the calls of MPI_Allreduce
int g_nonblocking = 0;        // calls of MPI_Iallreduce

}  // namespace

extern "C" int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  g_blocking.push_back(count);
  return PMPI_Allreduce(from, to, count, type, op, comm);
}

extern "C" int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  ++g_nonblocking;
  return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}

namespace {

/// Tensors around every width that matters: one value, one-dimensional, below and above a segment.
Layout test_layout() {
  return test::layout_of(
      {{16, 3, 3, 3}, {16}, {1}, {64, 40}, {64}, {130, 129}, {3, 7}, {10, 64}, {10}});
}

std::vector<float> gradient_of(Rank rank, std::size_t count) {
  return test::gaussian(count, {.run_seed = 5, .rank = static_cast<std::uint32_t>(rank)});
}

std::vector<float> exact_mean(int ranks, std::size_t count) {
  std::vector<double> sum(count);
  for (Rank r = 0; r < ranks; ++r) {
    const auto g = gradient_of(r, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<double>(g[i]);
  }
  std::vector<float> mean(count);
  for (std::size_t i = 0; i < count; ++i) mean[i] = static_cast<float>(sum[i] / ranks);
  return mean;
}

struct Outcome {
  std::vector<float> values;
  Traffic traffic;
  test::PayloadBytes bytes;
};

Outcome run(comm::Communicator& comm, Collective& collective, std::span<const FusionBucket> plan,
            std::size_t count, StepId step = 3) {
  Outcome out;
  out.values = gradient_of(comm.rank(), count);
  const auto before = comm.byte_count();
  for (const FusionBucket& bucket : plan) {
    out.traffic +=
        mean_of(collective, comm, bucket, {.run_seed = 1, .step = step, .density = {}}, out.values)
            .traffic;
  }
  out.bytes = test::payload_between(before, comm.byte_count());
  return out;
}

using Make = std::function<std::unique_ptr<codec::Compressor>()>;

std::vector<std::pair<std::string, Make>> all_compressors() {
  std::vector<std::pair<std::string, Make>> all;
  for (const Entry<codec::CompressorRow> row : codec::CompressorRow::all())
    all.emplace_back(row->name, [row] {
      return test::made_by_default(*row, {.bucket_size = 512, .density = 0.05});
    });
  all.emplace_back("elastiquant8", [] {
    return codec::make_compressor("elastiquant", {.bits = 8, .bucket_size = 512});
  });
  all.emplace_back("threshold16", [] {
    return codec::make_compressor("threshold", {.density = 0.05, .value_bits = 16});
  });
  for (const char* const name : {"none", "bf16"})
    all.emplace_back(std::string(name) + " lossless", [name] {
      return codec::make_compressor(name, {.coding = codec::Coding::lossless});
    });
  all.emplace_back("atomo entries", [] {
    return codec::make_compressor("atomo", {.atoms = codec::Atoms::entrywise});
  });
  return all;
}

}  // namespace

TEST_CASE("every collective gives identical bits on every rank", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const auto& [name, make] : all_compressors()) {
    const auto compressor = make();
    for (const pipeline::Granularity granularity :
         {pipeline::Granularity::layer, pipeline::Granularity::model}) {
      const auto plan = pipeline::plan_buckets(layout, *compressor,
                                               {.granularity = granularity, .bucket_bytes = 20000});
      for (const Entry<CollectiveRow> row : CollectiveRow::all()) {
        INFO(name << " " << row->name);
        const CollectiveParts parts{.comm = comm, .compressor = *compressor, .plan = plan};
        if (!why_not(*row, *compressor).empty()) {
          CHECK_THROWS_AS(row->make(parts), Error);
          continue;
        }
        const Outcome out = run(comm, *row->make(parts), plan, total_count(layout));
        CHECK_NOTHROW(comm.require_same(test::hash_of(out.values), "mean"));
      }
    }
  }
}

TEST_CASE("lossless collectives agree with dense to float rounding", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const auto mean = exact_mean(comm.size(), total_count(layout));
  for (const codec::Coding coding : {codec::Coding::fixed, codec::Coding::lossless}) {
    const auto none = codec::make_compressor("none", {.coding = coding});
    const auto plan = pipeline::plan_buckets(layout, *none, {.bucket_bytes = 20000});
    for (const Entry<CollectiveRow> row : CollectiveRow::all()) {
      INFO(row->name << ", " << name_of(coding));
      if (!why_not(*row, *none).empty()) continue;
      const auto collective = row->make({.comm = comm, .compressor = *none, .plan = plan});
      const Outcome out = run(comm, *collective, plan, mean.size());
      double worst = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) {
        worst = std::max(worst, static_cast<double>(std::abs(out.values[i] - mean[i])));
      }
      // n roundings of sums below n * 5 in float32.
      CHECK(worst < 1e-6 * comm.size());
    }
  }
}

TEST_CASE("lossless coding changes bytes and no bit of a mean", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const char* const name : {"none", "bf16"}) {
    const auto usual = codec::make_compressor(name);
    const auto coded = codec::make_compressor(name, {.coding = codec::Coding::lossless});
    for (const Entry<CollectiveRow> row : CollectiveRow::all()) {
      if (row == kAutomatic || !why_not(*row, *coded).empty()) continue;
      const auto averaged = [&](const codec::Compressor& compressor) {
        const auto plan = pipeline::plan_buckets(layout, compressor, {});
        const auto collective = row->make({.comm = comm, .compressor = compressor, .plan = plan});
        return run(comm, *collective, plan, total_count(layout));
      };
      const Outcome expected = averaged(*usual), found = averaged(*coded);
      INFO(name << " by " << row->name);
      CHECK(test::hash_of(found.values) == test::hash_of(expected.values));
      if (comm.size() > 1 && row == kAllgather) CHECK(found.bytes.sent < expected.bytes.sent);
    }
  }
}

TEST_CASE("float32 that is coded goes through messages", "[collective]") {
  const auto usual = codec::make_compressor("none");
  const auto coded = codec::make_compressor("none", {.coding = codec::Coding::lossless});
  CHECK(choose_collective(*usual, 1'000'000, 2).name == "dense");
  CHECK(choose_collective(*coded, 1'000'000, 2).name == "allgather");
  CHECK(choose_collective(*coded, 100'000'000, 8).name == "scatter-reduce");
  CHECK(why_not(kDense, *usual).empty());
  CHECK_THAT(std::string(why_not(kDense, *coded)),
             Catch::Matchers::ContainsSubstring("without compressor.coding \"lossless\""));
}

TEST_CASE("mpi-allreduce is one blocking call of MPI_Allreduce a bucket", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::layout_of({{600, 1000}, {1000}, {400, 1000}});
  const auto none = codec::make_compressor("none");
  // The largest possible fusion bucket: the whole gradient.
  const auto plan = pipeline::plan_buckets(
      layout, *none, {.bucket_bytes = std::size_t{64} << 20, .split_bytes = std::size_t{64} << 20});
  REQUIRE(plan.size() == 1);
  const auto collective = make_mpi_allreduce(comm);
  g_blocking.clear();
  g_nonblocking = 0;
  const Outcome out = run(comm, *collective, plan, total_count(layout));
  const std::vector<int> expected(comm.size() > 1 ? 1 : 0, 1'001'000);
  CHECK(g_blocking == expected);
  CHECK(g_nonblocking == 0);
  CHECK(out.values.size() == 1'001'000);
}

TEST_CASE("compressed means stay within the codec's variance", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const auto mean = exact_mean(comm.size(), total_count(layout));
  double square_mean = 0, square_all = 0;
  for (const float m : mean) square_mean += static_cast<double>(m) * m;
  for (Rank r = 0; r < comm.size(); ++r) {
    for (const float g : gradient_of(r, mean.size())) square_all += static_cast<double>(g) * g;
  }
  const auto compressor = codec::make_compressor("elastiquant", {.bits = 8, .bucket_size = 512});
  const double eps = 0.000393;  // worst case of 8 bits, bucket 512, L2: algorithms reference 2.6
  const double n = comm.size();
  const auto plan = pipeline::plan_buckets(layout, *compressor, {});
  for (const bool scatters : {false, true}) {
    const auto collective = scatters ? make_scatter_reduce(comm, *compressor, plan, {})
                                     : make_allgather(comm, *compressor, plan);
    double error = 0;
    constexpr int kDraws = 20;
    for (StepId step = 0; step < kDraws; ++step) {
      const Outcome out = run(comm, *collective, plan, mean.size(), step);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        const double d = static_cast<double>(out.values[i]) - static_cast<double>(mean[i]);
        error += d * d / kDraws;
      }
    }
    double bound = eps / (n * n) * square_all;
    if (scatters) bound += eps * (square_mean + bound);
    INFO(collective->name() << " error " << error << " bound " << bound);
    CHECK(error > 0);
    CHECK(error < bound);
  }
}

TEST_CASE("decoded values do not depend on the fusion buckets", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const auto& [name, make] : all_compressors()) {
    const auto compressor = make();
    for (const bool scatters : {false, true}) {
      if (scatters && pipeline::needs_whole_slices(*compressor)) continue;
      std::vector<std::uint64_t> hashes;
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{20000}, std::size_t{1} << 22}) {
        const auto plan = pipeline::plan_buckets(layout, *compressor,
                                                 {.bucket_bytes = bytes, .split_bytes = bytes});
        const auto collective = scatters ? make_scatter_reduce(comm, *compressor, plan, {})
                                         : make_allgather(comm, *compressor, plan);
        hashes.push_back(test::hash_of(run(comm, *collective, plan, total_count(layout)).values));
      }
      INFO(name << (scatters ? " scatter-reduce" : " allgather"));
      // The owner adds its own values exactly, so segments must have the same owners with any
      // buckets. They have, because segments are assigned over the whole model in the order of
      // sending.
      CHECK(hashes[0] == hashes[1]);
      CHECK(hashes[0] == hashes[2]);
    }
  }
}

TEST_CASE("counted bytes equal the cost formulas", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::uint64_t>(comm.size());
  // One tensor of 16 segments per rank, fixed-size codec: the formulas are exact, headers included.
  const std::size_t count = 8192 * 16 * n;
  const Layout layout = {{"weight", {8192, static_cast<std::int64_t>(16 * n)}, 0, count}};
  const auto compressor = codec::make_compressor("bf16");
  const auto plan =
      pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
  const std::uint64_t header = codec::kFrameHeaderBytes;

  const auto dense = make_dense(comm);
  CHECK(run(comm, *dense, plan, count).bytes.sent == 2 * 4 * count * (n - 1) / n);

  const auto allgather = make_allgather(comm, *compressor, plan);
  const std::uint64_t message = header + 4 + 2 * count;
  const Outcome gathered = run(comm, *allgather, plan, count);
  CHECK(gathered.bytes.sent == message * (n - 1));
  CHECK(gathered.bytes.received == message * (n - 1));
  CHECK(gathered.traffic.encoded_bytes == message);

  const auto scatter = make_scatter_reduce(comm, *compressor, plan, {});
  const std::uint64_t chunk = header + 16 * (4 + 2 * 8192);
  const Outcome scattered = run(comm, *scatter, plan, count);
  CHECK(scattered.bytes.sent == 2 * chunk * (n - 1));
  CHECK(scattered.bytes.received == 2 * chunk * (n - 1));
}

TEST_CASE("exact values minus the contribution are the codec's error", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  Workspace workspace;
  for (const bool scatters : {false, true}) {
    const auto compressor = codec::make_compressor("elastiquant", {.bits = 8, .bucket_size = 512});
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    const auto collective = scatters ? make_scatter_reduce(comm, *compressor, plan, {})
                                     : make_allgather(comm, *compressor, plan);
    const auto exact = gradient_of(comm.rank(), total_count(layout));
    auto values = exact, error = exact;
    for (const FusionBucket& bucket : plan) {
      mean_of(*collective, comm, bucket, {.run_seed = 1, .step = 0, .density = {}}, values)
          .contribution.subtract_from(error, bucket, workspace);
    }
    double square_error = 0, square = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      square_error += static_cast<double>(error[i]) * error[i];
      square += static_cast<double>(exact[i]) * exact[i];
    }
    CHECK(square_error < 0.000393 * square);
    // With one rank, scatter-reduce sends nothing and contributes everything exactly.
    CHECK((square_error > 0) == (!scatters || comm.size() > 1));
  }
}

TEST_CASE("the reducer's residual makes repeated means exact on average", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {{"weight", {256, 256}, 0, 65536}};
  // fp16 rounds to nearest, so the same values give the same error in every step, unless
  // remembered.
  const auto compressor = codec::make_compressor("bf16");
  const auto plan = pipeline::plan_buckets(layout, *compressor, {});
  double errors[2] = {};
  for (const bool feedback : {false, true}) {
    const auto collective =
        make_scatter_reduce(comm, *compressor, plan, {.reducer_feedback = feedback});
    // All ranks hold values that bf16 represents, whose mean it does not.
    std::vector<float> values(65536);
    std::vector<double> sums(values.size());
    const float mine = 1.0f + static_cast<float>(comm.rank()) / 128;
    const double mean = 1.0 + (comm.size() - 1) / 2.0 / 128;
    constexpr int kSteps = 64;
    for (StepId step = 0; step < kSteps; ++step) {
      std::fill(values.begin(), values.end(), mine);
      for (const FusionBucket& bucket : plan) {
        (void)mean_of(*collective, comm, bucket, {.run_seed = 1, .step = step, .density = {}},
                      values);
      }
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += static_cast<double>(values[i]);
    }
    for (const double sum : sums) {
      errors[feedback] = std::max(errors[feedback], std::abs(sum / kSteps - mean));
    }
  }
  if (comm.size() % 2 == 0) CHECK(errors[0] > 1e-3);  // the mean lies between two bf16 numbers
  CHECK(errors[1] < 2.0 / 128 / 64);  // telescopes: the last residual over the steps
}

TEST_CASE("small tensors in 8 bits are exact on average", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::layout_of({{600}, {64, 40}, {1}});
  const std::size_t count = total_count(layout);
  const auto mine = gradient_of(comm.rank(), count);
  const auto exact = exact_mean(comm.size(), count);
  struct Case {
    std::string_view compressor;
    bool scatters;
  };
  for (const Case& c : {Case{"int8", false}, Case{"int8", true}, Case{"dgc", false}}) {
    INFO(c.compressor << (c.scatters ? " by owners" : " to all"));
    const auto compressor =
        codec::make_compressor(c.compressor, {.bucket_size = 512, .density = 1});
    const auto plan =
        pipeline::plan_buckets(layout, *compressor, {.small_tensors = codec::SmallTensors::int8});
    const auto collective =
        c.scatters ? make_scatter_reduce(comm, *compressor, plan, {.reducer_feedback = true})
                   : make_allgather(comm, *compressor, plan);
    const auto memory = c.compressor == "dgc" ? make_dgc_memory(count, {.momentum = 0})
                                              : make_error_feedback(count);
    constexpr int kSteps = 50;
    std::vector<double> sums(count);
    double first = 0, worst = 0;
    for (StepId step = 0; step < kSteps; ++step) {
      auto values = mine;
      for (const FusionBucket& bucket : plan) {
        memory->compensate(bucket, values);
        const MeanResult result = mean_of(*collective, comm, bucket,
                                          {.run_seed = 1, .step = step, .density = {}}, values);
        memory->remember(bucket, result.contribution);
      }
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] += static_cast<double>(values[i]);
        const double error =
            std::abs(sums[i] / static_cast<double>(step + 1) - static_cast<double>(exact[i]));
        if (step == 0) first = std::max(first, error);
        if (step + 1 == kSteps) worst = std::max(worst, error);
      }
    }
    // Steps are below 6 / 127, and half of one is left of each of two roundings.
    CHECK(first > 1e-3);
    CHECK(worst <= 2 * 0.51 * 6 / 127 / kSteps);
  }
}

TEST_CASE("what an owner keeps of a mean decays", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 3) return;  // a third is no float32
  // One segment, which rank 0 owns and adds exactly. Steps of int8 are 1, and the mean of the
  // second value is 1/4: less than half a step, until the residual has grown.
  const Layout layout = {{"weight", {1, 2}, 0, 2}};
  const auto compressor = codec::make_compressor("int8", {.bucket_size = 8192});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {.skip_below = 1});
  for (const float decay : {1.0f, 0.5f}) {
    const auto collective = make_scatter_reduce(
        comm, *compressor, plan, {.reducer_feedback = true, .feedback_decay = decay});
    // By hand: 0.25, 0.5 (even: 0), 0.75 (1), 0, 0.25, 0.5, ... and 0.25 (2 - 2^-n) < 0.5.
    const std::vector<float> kept = {0.25f, 0.5f, -0.25f, 0, 0.25f, 0.5f};
    for (StepId step = 0; step < kept.size(); ++step) {
      std::vector<float> values = {
          127, comm.rank() == 0 ? 0.25f * static_cast<float>(comm.size()) : 0.0f};
      (void)mean_of(*collective, comm, plan[0], {.run_seed = 1, .step = step, .density = {}},
                    values);
      CHECK(values == std::vector<float>{127, decay == 1 && step == 2 ? 1.0f : 0.0f});
      if (comm.rank() != 0) continue;
      const float decayed = 0.25f * (2 - std::ldexp(1.0f, -static_cast<int>(step)));
      CHECK(std::ranges::equal(test::state_of(*collective),
                               std::vector<float>{0, decay == 1 ? kept[step] : decayed}));
    }
  }
}

TEST_CASE("a message of another step is refused with its sender", "[collective]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 1) return;
  const Layout layout = test_layout();
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {});
  const auto collective = make_allgather(comm, *compressor, plan);
  auto values = gradient_of(comm.rank(), total_count(layout));
  const StepId step = comm.rank() == 0 ? 8 : 7;
  try {
    (void)mean_of(*collective, comm, plan[0], {.run_seed = 1, .step = step, .density = {}}, values);
    FAIL_CHECK("ranks out of step were not noticed");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::wire);
    CHECK(std::string(error.what()).find("step") != std::string::npos);
    CHECK(std::string(error.what()).find("from rank") != std::string::npos);
  }
}
