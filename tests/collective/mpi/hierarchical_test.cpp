// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "collective/collective.hpp"
#include "collective/lanes.hpp"
#include "collective/memory.hpp"
#include "core/checksum.hpp"
#include "pipeline/engine.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

/// Hosts to which ranks are assigned for the test.
struct Arrangement {
  std::string name;
  std::function<int(int rank, int size)> host;
};

const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all = {
      {"one host", [](int, int) { return 0; }},
      {"a rank a host", [](int rank, int) { return rank; }},
      {"two ranks a host", [](int rank, int) { return rank / 2; }},
      {"hosts in turns", [](int rank, int) { return rank % 2; }},
      {"one rank apart", [](int rank, int size) { return rank + 1 == size ? 1 : 0; }}};
  return all;
}

std::unique_ptr<comm::Communicator> arranged(const Arrangement& arrangement) {
  const int size = comm::Communicator(test::session(), 30).size();
  std::vector<int> hosts;
  for (int r = 0; r < size; ++r) hosts.push_back(arrangement.host(r, size));
  return std::make_unique<comm::Communicator>(test::session(), 30, hosts);
}

Layout test_layout() {
  return test::layout_of(
      {{16, 3, 3, 3}, {16}, {1}, {64, 40}, {64}, {130, 129}, {20000}, {3, 7}, {200, 164}, {10}});
}

std::vector<float> gradient_of(Rank rank, std::size_t count, StepId step = 0) {
  return test::gaussian(count,
                        {.run_seed = 5, .step = step, .rank = static_cast<std::uint32_t>(rank)});
}

std::vector<float> mean_of_all(comm::Communicator& comm, Collective& collective,
                               std::span<const FusionBucket> plan, std::size_t count,
                               StepId step = 3) {
  auto values = gradient_of(comm.rank(), count);
  for (const FusionBucket& bucket : plan) {
    (void)mean_of(collective, comm, bucket, {.run_seed = 1, .step = step, .density = {}}, values);
  }
  return values;
}

using Make = std::function<std::unique_ptr<codec::Compressor>()>;

std::vector<std::pair<std::string, Make>> compressors() {
  using namespace codec;
  return {{"none", [] { return make_compressor("none"); }},
          {"qsgd", [] { return make_compressor("qsgd", {.bits = 4, .bucket_size = 3000}); }},
          {"e-elastiquant",
           [] { return make_compressor("e-elastiquant", {.coding = Coding::automatic}); }},
          {"terngrad", [] { return make_compressor("terngrad"); }},
          {"topk", [] { return make_compressor("topk", {.density = 0.05}); }},
          {"randomk", [] { return make_compressor("randomk", {.density = 0.05}); }}};
}

}  // namespace

TEST_CASE("hosts are numbered by their lowest ranks, in the same way on all ranks",
          "[hierarchical]") {
  for (const Arrangement& arrangement : arrangements()) {
    INFO(arrangement.name);
    const auto comm = arranged(arrangement);
    int seen = 0;
    for (Rank r = 0; r < comm->size(); ++r) {
      const int host = comm->host_of(r);
      CHECK(host <= seen);
      seen = std::max(seen, host + 1);
      CHECK(comm->shares_host(r) == (host == comm->host_of(comm->rank())));
      CHECK_NOTHROW(comm->require_same(static_cast<std::uint64_t>(host), "host"));
    }
    CHECK(comm->host_count() == seen);
  }
  // By default MPI decides: the ranks of this test share memory.
  const comm::Communicator real(test::session(), 30);
  CHECK(real.host_count() == 1);
}

TEST_CASE("hierarchical gives identical bits on every rank, for any buckets", "[hierarchical]") {
  const Layout layout = test_layout();
  for (const Arrangement& arrangement : arrangements()) {
    const auto comm = arranged(arrangement);
    for (const auto& [name, make] : compressors()) {
      const auto compressor = make();
      for (const pipeline::Granularity granularity :
           {pipeline::Granularity::layer, pipeline::Granularity::model}) {
        if (granularity == pipeline::Granularity::model && name != "qsgd") continue;
        std::vector<std::uint64_t> hashes;
        for (const std::size_t bytes : {std::size_t{20000}, std::size_t{1} << 22}) {
          const auto plan = pipeline::plan_buckets(
              layout, *compressor,
              {.granularity = granularity, .bucket_bytes = bytes, .split_bytes = bytes});
          const auto collective = make_hierarchical(*comm, *compressor, plan, {});
          hashes.push_back(
              test::hash_of(mean_of_all(*comm, *collective, plan, total_count(layout))));
        }
        INFO(arrangement.name << " " << name);
        CHECK_NOTHROW(comm->require_same(hashes[0], "mean"));
        CHECK(hashes[0] == hashes[1]);
      }
    }
  }
}

TEST_CASE("hierarchical without compression is the mean", "[hierarchical]") {
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  for (const Arrangement& arrangement : arrangements()) {
    INFO(arrangement.name);
    const auto comm = arranged(arrangement);
    std::vector<double> sum(count);
    for (Rank r = 0; r < comm->size(); ++r) {
      const auto g = gradient_of(r, count);
      for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<double>(g[i]);
    }
    const auto none = codec::make_compressor("none");
    const auto plan = pipeline::plan_buckets(layout, *none, {.bucket_bytes = 20000});
    const auto collective = make_hierarchical(*comm, *none, plan, {});
    const auto mean = mean_of_all(*comm, *collective, plan, count);
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(mean[i]) - sum[i] / comm->size()));
    }
    CHECK(worst < 1e-6 * comm->size());  // n roundings of sums below n * 5 in float32
  }
}

TEST_CASE("on one host every compressor gives dense's bits", "[hierarchical]") {
  const auto comm = arranged(arrangements()[0]);
  const Layout layout = test_layout();
  for (const auto& [name, make] : compressors()) {
    INFO(name);
    const auto compressor = make();
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    const auto hierarchical = make_hierarchical(*comm, *compressor, plan, {});
    const auto dense = make_dense(*comm);
    CHECK(mean_of_all(*comm, *hierarchical, plan, total_count(layout)) ==
          mean_of_all(*comm, *dense, plan, total_count(layout)));
  }
}

TEST_CASE("with a rank per host it is allgather, bit for bit and byte for byte", "[hierarchical]") {
  const auto comm = arranged(arrangements()[1]);
  if (comm->size() == 1) return;
  // So small that scatter-reduce is not faster.
  const Layout layout = {
      {"a", {64, 30}, 0, 1920}, {"b", {30}, 1920, 30}, {"c", {90, 99}, 1950, 8910}};
  for (const auto& [name, make] : compressors()) {
    INFO(name);
    const auto compressor = make();
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    const auto hierarchical = make_hierarchical(*comm, *compressor, plan, {});
    const auto allgather = make_allgather(*comm, *compressor, plan);
    if (scatter_pays(*compressor, total_count(layout), static_cast<std::size_t>(comm->size()))) {
      continue;
    }
    const auto start = comm->byte_count();
    const auto one = mean_of_all(*comm, *hierarchical, plan, total_count(layout));
    const auto middle = comm->byte_count();
    const auto other = mean_of_all(*comm, *allgather, plan, total_count(layout));
    const auto end = comm->byte_count();
    CHECK(one == other);
    CHECK(middle.sent_bytes - start.sent_bytes == end.sent_bytes - middle.sent_bytes);
    CHECK(end.sent_on_host_bytes == 0);
  }
}

TEST_CASE("hierarchical's counted bytes equal its cost formula", "[hierarchical]") {
  const std::uint64_t header = codec::kFrameHeaderBytes;
  for (const Arrangement& arrangement : arrangements()) {
    INFO(arrangement.name);
    const auto comm = arranged(arrangement);
    const std::uint64_t lanes = lane_count(*comm),
                        hosts = static_cast<std::uint64_t>(comm->host_count());
    const std::uint64_t mates = comm->ranks_on_this_host().size();
    const bool has_lane = lane_of_this_rank(*comm).has_value();
    // 4 segments for each lane and host, whose frames all have the same length.
    const std::uint64_t dealt = 4 * lanes * hosts, count = 8192 * dealt;
    const Layout layout = {{"weight", {8192, static_cast<std::int64_t>(dealt)}, 0, count}};
    const auto compressor = codec::make_compressor("bf16");
    const auto plan =
        pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
    const auto collective = make_hierarchical(*comm, *compressor, plan, {});
    const auto before = comm->byte_count();
    (void)mean_of_all(*comm, *collective, plan, count);
    const auto after = comm->byte_count();

    const std::uint64_t on_host = after.sent_on_host_bytes - before.sent_on_host_bytes;
    const std::uint64_t between = after.sent_bytes - before.sent_bytes - on_host;
    const std::uint64_t sum = kChecksumBytes;  // behind each message
    CHECK(on_host == (has_lane ? (4 * count / lanes + sum) * (lanes - 1 + mates - 1)
                               : 4 * count + sum * lanes));
    if (!has_lane || hosts == 1) {
      CHECK(between == 0);
    } else if (scatter_pays(*compressor, count / lanes, hosts)) {
      CHECK(between == 2 * (header + 4 * (4 + 2 * 8192) + sum) * (hosts - 1));
    } else {
      // With one lane its segments join into one.
      const std::uint64_t segments = lanes == 1 ? 1 : dealt / lanes;
      CHECK(between == (header + 4 * segments + 2 * count / lanes + sum) * (hosts - 1));
    }
  }
}

TEST_CASE("hierarchical's residuals sum to the values that were not applied", "[hierarchical]") {
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  constexpr StepId kSteps = 3;
  using namespace codec;
  const std::vector<Make> lossy = {
      [] { return make_compressor("elastiquant", {.bits = 3, .bucket_size = 512}); },
      [] { return make_compressor("topk", {.density = 0.02}); },
      [] { return make_compressor("terngrad"); }};
  for (const Arrangement& arrangement : arrangements()) {
    const auto comm = arranged(arrangement);
    for (const Make& make : lossy) {
      const auto compressor = make();
      const auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = 40000});
      const auto collective =
          make_hierarchical(*comm, *compressor, plan, {.reducer_feedback = true});
      const auto memory = make_error_feedback(count);
      // Gradients minus applied means, over all ranks and steps.
      std::vector<double> missing(count);
      for (StepId step = 0; step < kSteps; ++step) {
        auto values = gradient_of(comm->rank(), count, step);
        for (std::size_t i = 0; i < count; ++i) missing[i] += static_cast<double>(values[i]);
        for (const FusionBucket& bucket : plan) {
          memory->compensate(bucket, values);
          const auto result = mean_of(*collective, *comm, bucket,
                                      {.run_seed = 1, .step = step, .density = {}}, values);
          memory->remember(bucket, result.contribution);
        }
        for (std::size_t i = 0; i < count; ++i) missing[i] -= static_cast<double>(values[i]);
      }
      const bool scatters = scatter_pays(*compressor, count / lane_count(*comm),
                                         static_cast<std::size_t>(comm->host_count()));
      double reduced = 0;  // residuals of the second quantisation, of the mean
      for (const float r : test::state_of(*collective)) reduced += static_cast<double>(r);
      double kept_total = 0, missing_total = 0;
      for (std::size_t i = 0; i < count; ++i) {
        missing[i] -= static_cast<double>(memory->residual()[i]);
        kept_total += static_cast<double>(std::abs(memory->residual()[i]));
        missing_total += missing[i];
      }
      comm->allreduce_sum(missing);
      std::vector<double> totals = {missing_total - reduced * comm->size(), kept_total};
      comm->allreduce_sum(totals);
      double worst = 0;
      for (const double m : missing) worst = std::max(worst, std::abs(m));
      INFO(arrangement.name << " " << codec::codec_name(compressor->id()) << " worst " << worst);
      // Without a second quantisation this is exact for each value.
      if (!scatters) CHECK(worst < 1e-4);
      CHECK(std::abs(totals[0]) < 1e-6 * static_cast<double>(count) * comm->size());
      CHECK((totals[1] > 0) == (comm->host_count() > 1));
      if (!lane_of_this_rank(*comm)) CHECK(kept_total == 0);
    }
  }
}

TEST_CASE("hierarchical names a host that is out of step", "[hierarchical]") {
  const auto comm = arranged(arrangements()[1]);
  if (comm->size() == 1) return;
  const Layout layout = test_layout();
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  // In one fusion bucket, so that every rank has values of it and receives the wrong message
  // itself.
  const auto plan =
      pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
  const auto collective = make_hierarchical(*comm, *compressor, plan, {});
  auto values = gradient_of(comm->rank(), total_count(layout));
  const StepId step = comm->rank() == 0 ? 8 : 7;
  try {
    (void)mean_of(*collective, *comm, plan[0], {.run_seed = 1, .step = step, .density = {}},
                  values);
    FAIL_CHECK("hosts out of step were not noticed");
  } catch (const Error& error) {
    const std::string sentence = error.what();
    INFO(sentence);
    CHECK(error.kind() == Kind::wire);
    CHECK(sentence.find("hierarchical") != std::string::npos);
    CHECK(sentence.find("step") != std::string::npos);
    CHECK(sentence.find(comm->rank() == 0 ? "from rank 1" : "from rank 0") != std::string::npos);
  }
}

TEST_CASE("hierarchical refuses compressors that need every rank's message", "[hierarchical]") {
  comm::Communicator comm(test::session(), 30);
  for (const bool votes : {false, true}) {
    const auto compressor =
        votes ? codec::make_compressor("signsgd") : codec::make_compressor("dgc");
    const auto plan = pipeline::plan_buckets(test_layout(), *compressor, {});
    try {
      (void)make_hierarchical(comm, *compressor, plan, {});
      FAIL_CHECK("it was taken");
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::usage);
    }
  }
}
