// SPDX-License-Identifier: Apache-2.0
// Ranks with different gradients agree on one table, in the same step, with and without overlap.

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "codec/catalogue.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::adaptation;
using namespace eqt::collective;
using namespace eqt::sync;

namespace {

/// The step of the last change, then the levels.
std::vector<double> state_of(Adaptation& adaptation) {
  test::StateSpans shown;
  adaptation.visit_state(shown);
  std::vector<double> state(shown.counts.begin(), shown.counts.end());
  state.insert(state.end(), shown.reals.begin(), shown.reals.end());
  return state;
}

/// Restores the result of state_of().
class Restoring final : public test::StateSource {
 public:
  explicit Restoring(std::span<const double> state) : state_(state) {}
  void doubles(std::string_view, std::span<double> values, Across) override {
    std::ranges::copy(state_.subspan(1), values.begin());
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    values[0] = static_cast<std::uint64_t>(state_[0]);
  }

 private:
  std::span<const double> state_;
};

void restore(Adaptation& adaptation, std::span<const double> state) {
  Restoring source(state);
  adaptation.visit_state(source);
}

constexpr std::size_t kCount = 31510;

Layout test_layout() { return test::layout_of({{64, 300}, {300}, {100, 100}, {40, 50}, {10}}); }

/// Gradients whose size and tails differ from rank to rank.
std::vector<float> gradient_of(const comm::Communicator& comm, StepId step) {
  auto values = test::gaussian(
      kCount, {.run_seed = 4, .step = step, .rank = static_cast<std::uint32_t>(comm.rank())});
  for (float& v : values) {
    for (int i = 0; i < comm.rank(); ++i) v *= std::abs(v);
    v *= static_cast<float>(comm.rank() + 1);
  }
  return values;
}

std::unique_ptr<codec::Compressor> make(const std::string& name) {
  if (name == "alq") return codec::make_compressor("alq", {.bits = 3, .bucket_size = 512});
  if (name == "amq") return codec::make_compressor("amq", {.bits = 4, .bucket_size = 512});
  return codec::make_compressor("e-elastiquant", {.bits = 4,
                                                  .bucket_size = 512,
                                                  .norm = codec::Norm::max,
                                                  .levels = codec::LevelFamily::adaptive,
                                                  .coding = codec::Coding::automatic});
}

struct Result {
  std::vector<float> mean;
  std::vector<double> state;
  std::vector<std::uint32_t> fingerprints;  // after each step
  std::vector<bool> notes;
  std::vector<std::uint64_t> sent_bytes;
};

Result run(comm::Communicator& comm, const std::string& name, bool overlap, bool scatters,
           std::size_t bucket_bytes, StepId steps, std::uint64_t every) {
  const auto compressor = make(name);
  codec::AdaptiveLevelCodec& adaptive = *compressor->adaptive_levels();
  const auto adaptation = make_level_adaptation(comm, adaptive, every);
  const Layout layout = test_layout();
  auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = bucket_bytes});
  const auto collective = scatters ? make_scatter_reduce(comm, *compressor, plan, {})
                                   : make_allgather(comm, *compressor, plan);
  std::vector<float> gradient(kCount);
  GradientAveragingOptions options;
  options.overlap = overlap;
  options.lossy = true;
  options.adaptation = adaptation.get();
  const auto synchronizer = make_gradient_averaging(comm, *collective, nullptr, std::move(plan),
                                                    layout, gradient, options);
  Result result;
  for (StepId step = 0; step < steps; ++step) {
    std::ranges::copy(gradient_of(comm, step), gradient.begin());
    synchronizer->begin(step, 0);
    for (std::size_t i = layout.size(); i-- > 0;) synchronizer->slice_ready(i);
    const SyncResult done = synchronizer->finish();
    result.fingerprints.push_back(adaptive.fingerprint());
    result.notes.push_back(done.note.has_value());
    result.sent_bytes.push_back(done.traffic.sent_bytes);
  }
  result.mean = gradient;
  result.state = state_of(*adaptation);
  return result;
}

}  // namespace

TEST_CASE("all ranks have the same table after every step", "[adaptation]") {
  comm::Communicator comm(test::session(), 30);
  for (const std::string name : {"alq", "amq", "e-elastiquant"}) {
    for (const bool scatters : {false, true}) {
      INFO(name << (scatters ? ", scatter-reduce" : ", allgather"));
      const Result result = run(comm, name, true, scatters, 20000, 5, 2);
      for (const std::uint32_t fingerprint : result.fingerprints) {
        CHECK_NOTHROW(comm.require_same(fingerprint, "level table"));
      }
      // Steps 0, 2 and 4 adapt; steps 1 and 3 do not change the table.
      CHECK(result.fingerprints[0] != codec::level_fingerprint(codec::LevelTable(
                                          make(name)->adaptive_levels()->levels(), false)));
      CHECK(result.fingerprints[1] == result.fingerprints[0]);
      CHECK(result.fingerprints[3] == result.fingerprints[2]);
      CHECK(result.notes[0] == (comm.rank() == 0));
      CHECK_FALSE(result.notes[1]);
      std::uint64_t hash = 0;
      for (const float v : result.mean) hash = hash * 31 + std::bit_cast<std::uint32_t>(v);
      CHECK_NOTHROW(comm.require_same(hash, "mean"));
    }
  }
}

TEST_CASE("overlap and bucket size change no bit of an adapted run", "[adaptation]") {
  comm::Communicator comm(test::session(), 30);
  for (const std::string name : {"alq", "amq"}) {
    INFO(name);
    const Result plain = run(comm, name, false, false, std::size_t{1} << 22, 5, 1);
    CHECK(run(comm, name, true, false, std::size_t{1} << 22, 5, 1).mean == plain.mean);
    CHECK(run(comm, name, true, false, 8000, 5, 1).mean == plain.mean);
  }
}

TEST_CASE("bytes of adaptation are counted", "[adaptation]") {
  comm::Communicator comm(test::session(), 30);
  const Result quiet = run(comm, "alq", true, false, 20000, 2, 1000000);
  const Result busy = run(comm, "alq", true, false, 20000, 2, 1);
  if (comm.size() == 1) return;
  // Step 1 encodes with other levels, but with the same number of bits, because the coding is
  // fixed.
  CHECK(busy.sent_bytes[1] > quiet.sent_bytes[1]);
  CHECK(busy.sent_bytes[1] < quiet.sent_bytes[1] + 4096);
}

TEST_CASE("the state restores the table and its step", "[adaptation]") {
  comm::Communicator comm(test::session(), 30);
  const Result result = run(comm, "alq", false, false, 20000, 3, 2);
  REQUIRE(result.state.size() == 1 + 4);
  CHECK(result.state[0] == 3);
  const auto compressor = make("alq");
  codec::AdaptiveLevelCodec& adaptive = *compressor->adaptive_levels();
  const auto adaptation = make_level_adaptation(comm, adaptive, 2);
  CHECK(state_of(*adaptation)[0] == 0);
  restore(*adaptation, result.state);
  CHECK(adaptive.fingerprint() == result.fingerprints.back());
  CHECK(state_of(*adaptation) == result.state);

  const auto refuses = [&](std::vector<double> state) {
    try {
      restore(*adaptation, state);
    } catch (const Error& error) {
      return error.kind() == Kind::data;
    }
    return false;
  };
  CHECK(refuses({3, 0.01, 0.1, 0.5, 1}));
  CHECK(refuses({3, 0, 0.5, 0.1, 1}));
  CHECK(refuses({3, 0, 0.1, 0.5, 0.9}));
  CHECK(refuses({3, 0, 0.1, std::nan(""), 1}));
  CHECK(refuses({3, 0, 0x1p-100, 0.5, 1}));
  CHECK(adaptive.fingerprint() == result.fingerprints.back());
}

TEST_CASE("the schedule is the papers' unless a period is given", "[adaptation]") {
  std::vector<StepId> adapted;
  for (StepId step = 0; step <= 30000; ++step) {
    if (adapts_levels_at(step, 0)) adapted.push_back(step);
  }
  CHECK(adapted == std::vector<StepId>{0, 100, 2000, 10000, 20000, 30000});
  CHECK(adapts_levels_at(0, 7));
  CHECK(adapts_levels_at(21, 7));
  CHECK_FALSE(adapts_levels_at(100, 7));
}

TEST_CASE("a step of zero gradients does not change the table", "[adaptation]") {
  comm::Communicator comm(test::session(), 30);
  const auto compressor = make("alq");
  codec::AdaptiveLevelCodec& adaptive = *compressor->adaptive_levels();
  const auto adaptation = make_level_adaptation(comm, adaptive, 1);
  const auto plan = pipeline::plan_buckets(test_layout(), *compressor, {});
  const std::uint32_t before = adaptive.fingerprint();
  const std::vector<float> zeros(kCount, 0.0f);
  for (const FusionBucket& bucket : plan) adaptation->observe(bucket, zeros);
  CHECK_FALSE(adaptation->adapt(0));
  CHECK(adaptive.fingerprint() == before);
}
