// SPDX-License-Identifier: Apache-2.0
// Simulated workers of one process average to the same bits as that many ranks, for every
// compressor, over several steps, including all memory.

#include "sync/simulated_averaging.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/decoder_table.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;
using namespace eqt::sync;

namespace {

constexpr StepId kSteps = 10;  // past the second one whose variance is measured, the ninth
constexpr std::size_t kCount = 8410;

/// Matrices, a kernel and short vectors, which are sent raw.
Layout test_layout() {
  return {{"a", {64, 60}, 0, 3840},
          {"b", {60}, 3840, 60},
          {"c", {16, 16, 3, 3}, 3900, 2304},
          {"d", {49, 45}, 6204, 2205},
          {"e", {1}, 8409, 1}};
}

/// Sizes differ between ranks, so that every order of additions gives other bits.
std::vector<float> gradient_of(Rank rank, StepId step) {
  auto values = test::gaussian(
      kCount, {.run_seed = 9, .step = step, .rank = static_cast<std::uint32_t>(rank)});
  for (float& value : values) value *= 0.3f + static_cast<float>(rank);
  return values;
}

using MakeMemory = std::function<std::unique_ptr<GradientMemory>()>;

/// The default error feedback of this compressor.
MakeMemory memory_for(const codec::Compressor& compressor, int ranks) {
  if (compressor.id() == codec::CodecId::dgc)
    return [ranks] { return make_dgc_memory(kCount, {.clip_norm = 50, .ranks = ranks}); };
  if (compressor.id() == codec::CodecId::signsgd)
    return [] { return make_signum_memory(kCount, 0.9f); };
  if (compressor.properties().needs_feedback) return [] { return make_error_feedback(kCount); };
  return [] { return std::unique_ptr<GradientMemory>(); };
}

struct Step {
  std::vector<float> mean;
  Traffic traffic;
  double variance = 0;  // added up over ranks
};

GradientAveragingOptions options_for(const codec::Compressor& compressor) {
  GradientAveragingOptions options;
  options.run_seed = 5;
  options.lossy = !compressor.properties().lossless;
  return options;
}

std::vector<pipeline::FusionBucket> plan_for(const codec::Compressor& compressor) {
  return pipeline::plan_buckets(test_layout(), compressor,
                                {.skip_below = 100, .bucket_bytes = 10000});
}

/// Each rank's own gradient; traffic and variance are summed over ranks.
std::vector<Step> run_ranks(comm::Communicator& comm, const codec::Compressor& compressor,
                            bool dense, const MakeMemory& make_memory) {
  const Layout layout = test_layout();
  const auto plan = plan_for(compressor);
  const auto collective = dense ? make_dense(comm) : make_allgather(comm, compressor, plan);
  const auto memory = make_memory();
  std::vector<float> gradient(kCount);
  const auto averaging = make_gradient_averaging(comm, *collective, memory.get(), plan, layout,
                                                 gradient, options_for(compressor));
  std::vector<Step> steps;
  for (StepId step = 0; step < kSteps; ++step) {
    averaging->begin(step, 0);
    std::ranges::copy(gradient_of(comm.rank(), step), gradient.begin());
    for (std::size_t i = layout.size(); i-- > 0;) averaging->slice_ready(i);
    const SyncResult own = averaging->finish();
    std::array<double, 4> sums = {
        static_cast<double>(own.traffic.sent_bytes), static_cast<double>(own.traffic.encoded_bytes),
        static_cast<double>(own.traffic.encoded_values), own.quantization_variance.value_or(0)};
    comm.allreduce_sum(sums);
    steps.push_back({.mean = gradient,
                     .traffic = {.sent_bytes = static_cast<std::uint64_t>(sums[0]),
                                 .encoded_bytes = static_cast<std::uint64_t>(sums[1]),
                                 .encoded_values = static_cast<std::uint64_t>(sums[2])},
                     .variance = sums[3]});
  }
  return steps;
}

std::vector<Step> run_workers(int workers, const codec::Compressor& compressor, bool dense,
                              const MakeMemory& make_memory) {
  const Layout layout = test_layout();
  const auto plan = plan_for(compressor);
  const auto mean =
      dense ? make_worker_dense(plan, workers) : make_worker_allgather(compressor, plan, workers);
  std::vector<std::unique_ptr<GradientMemory>> memories;
  std::vector<GradientMemory*> remembered;
  for (int w = 0; w < workers; ++w) {
    memories.push_back(make_memory());
    remembered.push_back(memories.back().get());
  }
  std::vector<float> gradient(kCount);
  const auto averaging =
      make_simulated_averaging(*mean, remembered, plan, layout, gradient, options_for(compressor));
  std::vector<Step> steps;
  for (StepId step = 0; step < kSteps; ++step) {
    averaging->begin(step, 0);
    for (Rank w = 0; w < workers; ++w) {
      std::ranges::copy(gradient_of(w, step), gradient.begin());
      averaging->workers()->worker_ready();
    }
    const SyncResult all = averaging->finish();
    steps.push_back({.mean = gradient,
                     .traffic = all.traffic,
                     .variance = workers * all.quantization_variance.value_or(0)});
  }
  return steps;
}

void compare(comm::Communicator& comm, const codec::Compressor& compressor, bool dense,
             const MakeMemory& make_memory) {
  const auto job = run_ranks(comm, compressor, dense, make_memory);
  const auto played = run_workers(comm.size(), compressor, dense, make_memory);
  for (std::size_t step = 0; step < job.size(); ++step) {
    INFO("step " << step);
    CHECK(played[step].mean == job[step].mean);
    CHECK(played[step].traffic.sent_bytes == job[step].traffic.sent_bytes);
    CHECK(played[step].traffic.encoded_bytes == job[step].traffic.encoded_bytes);
    CHECK(played[step].traffic.encoded_values == job[step].traffic.encoded_values);
    CHECK(std::abs(played[step].variance - job[step].variance) <= 1e-12 * job[step].variance);
  }
}

}  // namespace

TEST_CASE("workers average to the bits of that many ranks, with every compressor",
          "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  for (const test::Decoder& decoder : test::decoder_table(512)) {
    if (decoder.name == "powersgd") continue;  // has its own collective
    INFO(decoder.name);
    compare(comm, *decoder.compressor, false, memory_for(*decoder.compressor, comm.size()));
  }
}

TEST_CASE("workers have the same memory as ranks", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  // A shared scale, runs of known length, and entropy codes.
  const auto table = test::decoder_table(512);
  for (const std::string name : {"terngrad", "qsgd-4-fixed", "e-elastiquant-4-auto"}) {
    INFO(name);
    compare(comm, *test::find_decoder(table, name)->compressor, false,
            [] { return make_error_feedback(kCount); });
  }
  for (const std::string name : {"qsgd-4-fixed", "topk"}) {
    INFO(name);
    const test::Decoder* const decoder = test::find_decoder(table, name);
    REQUIRE(decoder != nullptr);
    compare(comm, *decoder->compressor, false, [] { return make_ef21(kCount, 0.4f); });
  }
}

TEST_CASE("workers round against each other as ranks do", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  for (const char* const name : {"qsgd", "e-elastiquant", "terngrad", "natural"}) {
    INFO(name);
    codec::CompressorOptions options{.bucket_size = 512};
    if (name == std::string("e-elastiquant")) options.coding = codec::Coding::automatic;
    const auto alone = codec::make_compressor(name, options);
    options.rounding = codec::Rounding::correlated;
    const auto together = codec::make_compressor(name, options);
    const MakeMemory nothing = [] { return std::unique_ptr<GradientMemory>(); };
    compare(comm, *together, false, nothing);
    const bool same = run_workers(comm.size(), *together, false, nothing).front().mean ==
                      run_workers(comm.size(), *alone, false, nothing).front().mean;
    CHECK(same == (comm.size() == 1));
  }
}

TEST_CASE("float32 is added in the order of ranks", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  compare(comm, *none, true, [] { return std::unique_ptr<GradientMemory>(); });
}
