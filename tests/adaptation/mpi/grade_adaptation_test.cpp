// SPDX-License-Identifier: Apache-2.0
// The compressor auto on several ranks: one table, limits that hold, runs that repeat.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "adaptation/grade_adaptation.hpp"
#include "codec/catalogue.hpp"
#include "codec/mixed/mixed_grades.hpp"
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

constexpr double kShare = 0.2;
// The default menu's last grade is none, which loses nothing.
const int kNoGrade = static_cast<int>(codec::CompressorOptions().menu.size());

Layout test_layout() { return test::layout_of({{64, 300}, {300}, {100, 100}, {40, 50}, {10}}); }

/// A common gradient and noise of each rank's own, of different sizes in each tensor.
std::vector<float> gradient_of(const Layout& layout, Rank rank, StepId step, float noise) {
  const std::size_t count = total_count(layout);
  static const auto common = test::gaussian(count, {.run_seed = 1});
  auto values = test::gaussian(
      count, {.run_seed = 2, .step = step, .rank = static_cast<std::uint32_t>(rank)});
  for (std::size_t s = 0; s < layout.size(); ++s) {
    const float size = 1.0f / static_cast<float>(s + 1);
    for (std::size_t i = layout[s].offset; i < layout[s].offset + layout[s].count; ++i)
      values[i] = size * (0.1f * common[i] + noise * size * values[i]);
  }
  return values;
}

struct Case {
  StepId steps = 12;
  float noise = 1;
  StepId quiet_from = 1000;  // from this step on the noise is a tenth
  std::uint64_t decide_every = 2;
  bool pairs = false;
  float skew = 0;  // how far ranks' true gradients are apart
  bool overlap = true, scatters = false;
  double error_share = 0;  // of rates, with a memory; 0: unbiased grades
  PredictStep predict = {};
  std::map<StepId, std::vector<double>> replay = {};
  StepId restore_at = 0;       // 0: never
  bool checks_replay = false;  // before the first step
};

struct Result {
  std::vector<float> mean;
  std::vector<std::vector<int>> tables;  // after each step
  std::vector<SyncResult> steps;
  std::vector<std::vector<float>> means;
};

std::vector<int> table_of(const codec::MixedGrades& mixed) {
  std::vector<int> table;
  for (const std::uint32_t slice : {0u, 2u, 3u}) table.push_back(mixed.grade_of(slice));
  return table;
}

/// What an adaptation would save, put into another one.
class Copy final : public test::StateSource {
 public:
  explicit Copy(Adaptation& from) {
    from.visit_state(saved_);
    for (const std::span<float> values : saved_.floats)
      floats_.emplace_back(values.begin(), values.end());
  }
  void values(std::string_view, std::span<float> values, Across) override {
    std::ranges::copy(floats_.at(float_++), values.begin());
  }
  void doubles(std::string_view, std::span<double> values, Across) override {
    for (double& v : values) v = saved_.reals.at(real_++);
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    for (std::uint64_t& v : values) v = saved_.counts.at(count_++);
  }

 private:
  test::StateSpans saved_;
  std::vector<std::vector<float>> floats_;
  std::size_t real_ = 0, count_ = 0, float_ = 0;
};

/// Parts of a run, which another one can continue.
struct Parts {
  Parts(comm::Communicator& comm, const Case& c)
      : compressor(codec::make_compressor(codec::kAuto, options_of(c))),
        mixed(*compressor->mixed_grades()) {
    if (c.error_share > 0) memory = make_error_feedback(total_count(layout));
    auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = 20000});
    collective = c.scatters ? make_scatter_reduce(comm, *compressor, plan, {})
                            : make_allgather(comm, *compressor, plan);
    GradeAdaptationOptions grades{
        .ranks = comm.size(),
        .quantisations = c.scatters ? 2 : 1,
        .noise_share = kShare,
        .error_share = c.error_share > 0 ? std::optional(c.error_share) : std::nullopt,
        .observe_every = 2,
        .decide_every = c.decide_every,
        .pairs = c.pairs,
        .fingerprint = 77,
        .predict = c.predict,
        .replay = {},
        .total_steps = c.checks_replay ? c.steps : 0};
    if (!c.replay.empty())
      grades.replay = [replay = c.replay](StepId done) -> std::optional<Decision> {
        const auto found = replay.find(done);
        if (found == replay.end()) return {};
        return Decision{.values = found->second, .why = "as before"};
      };
    adaptation = make_grade_adaptation(comm, mixed, plan, std::move(grades));
    gradient.resize(total_count(layout));
    GradientAveragingOptions options;
    options.overlap = c.overlap;
    options.adaptation = adaptation.get();
    synchronizer = make_gradient_averaging(comm, *collective, memory.get(), std::move(plan), layout,
                                           gradient, options);
  }

  static codec::CompressorOptions options_of(const Case& c) {
    codec::CompressorOptions options{.bucket_size = 512};
    if (c.error_share > 0) options.menu = codec::menu_of_rates();
    return options;
  }

  const Layout layout = test_layout();
  std::unique_ptr<codec::Compressor> compressor;
  codec::MixedGrades& mixed;
  std::unique_ptr<Collective> collective;
  std::unique_ptr<GradientMemory> memory;
  std::unique_ptr<Adaptation> adaptation;
  std::vector<float> gradient;
  std::unique_ptr<Synchronizer> synchronizer;
};

Result run(comm::Communicator& comm, const Case& c) {
  auto parts = std::make_unique<Parts>(comm, c);
  Result result;
  for (StepId step = 0; step < c.steps; ++step) {
    if (step > 0 && step == c.restore_at) {
      Copy copy(*parts->adaptation);
      parts = std::make_unique<Parts>(comm, c);
      parts->adaptation->visit_state(copy);
    }
    std::ranges::copy(
        gradient_of(parts->layout, comm.rank(), step, step < c.quiet_from ? c.noise : c.noise / 10),
        parts->gradient.begin());
    if (c.skew > 0) {
      const auto own = test::gaussian(
          parts->gradient.size(), {.run_seed = 3, .rank = static_cast<std::uint32_t>(comm.rank())});
      for (std::size_t i = 0; i < own.size(); ++i) parts->gradient[i] += c.skew * own[i];
    }
    parts->synchronizer->begin(step, 0);
    for (std::size_t i = parts->layout.size(); i-- > 0;) parts->synchronizer->slice_ready(i);
    result.steps.push_back(parts->synchronizer->finish());
    result.tables.push_back(table_of(parts->mixed));
    result.means.push_back(parts->gradient);
  }
  result.mean = parts->gradient;
  return result;
}

std::map<StepId, std::vector<double>> decisions_of(comm::Communicator& comm, const Result& result) {
  std::map<StepId, std::vector<double>> decisions;
  for (const SyncResult& step : result.steps)
    for (const metrics::DecisionRecord& decision : step.decisions)
      decisions[decision.step] = decision.values;
  // Only rank 0 has them, but all ranks read the file.
  std::string text;
  for (const auto& [step, values] : decisions) {
    text += std::to_string(step);
    for (const double v : values) text += " " + std::to_string(static_cast<long>(v));
    text += "\n";
  }
  text = comm.broadcast(text, 0);
  decisions.clear();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    StepId step = 0;
    words >> step;
    for (double v = 0; words >> v;) decisions[step].push_back(v);
  }
  return decisions;
}

PredictStep link_of(double bytes_per_second) {
  return [=](std::span<const SliceLoad> slices, const StepSpeeds&) {
    double bytes = 0;
    for (const SliceLoad& slice : slices) bytes += slice.bytes;
    const double exchange = bytes / bytes_per_second;
    return 0.1 + std::max(0.2, exchange);
  };
}

double bytes_of(const Result& result) {
  return static_cast<double>(result.steps.back().traffic.sent_bytes);
}

}  // namespace

TEST_CASE("all ranks have one table and the same mean after every step", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  for (const bool scatters : {false, true}) {
    const Result result = run(comm, {.scatters = scatters});
    for (std::size_t step = 0; step < result.tables.size(); ++step) {
      std::uint64_t hash = 0;
      for (const int grade : result.tables[step])
        hash = 31 * hash + static_cast<std::uint64_t>(grade);
      CHECK_NOTHROW(comm.require_same(hash, "table"));
      CHECK_NOTHROW(comm.require_same(test::hash_of(result.means[step]), "mean"));
    }
    if (comm.size() == 1) continue;
    // The first decision comes after the second step.
    CHECK(result.tables[0] == std::vector<int>{2, 2, 2});
    CHECK(result.tables[1] != result.tables[0]);
  }
}

TEST_CASE("the noise added stays within its share of the gradients' own", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  for (const float noise : {0.02f, 0.3f, 3.0f}) {
    // Also where the gradients' own noise falls, so that the limit is broken between decisions.
    const Result result = run(comm, {.steps = 40, .noise = noise, .quiet_from = 11});
    bool decided = false;
    for (const SyncResult& step : result.steps) {
      decided |= !step.decisions.empty();
      if (!decided || !step.noise) continue;
      CHECK(step.noise->noise_share <= 1.25 * kShare);
      CHECK(step.noise->slices.size() == 3);
    }
    CHECK(decided == (comm.rank() == 0 && comm.size() > 1));
  }
}

TEST_CASE("with a memory the squares that stay are within their share", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  std::map<double, double> bytes;
  for (const double share : {0.1, 0.3, 0.6}) {
    const Result result = run(comm, {.steps = 40, .overlap = false, .error_share = share});
    bool decided = false;
    std::uint64_t sent = 0;
    for (const SyncResult& step : result.steps) {
      decided |= !step.decisions.empty();
      if (&step - result.steps.data() >= 20) sent += step.traffic.sent_bytes;
      if (!decided || !step.noise) continue;
      CHECK(step.noise->noise_share <= 1.25 * share);
      CHECK(step.noise->noise_share > 0);
      CHECK(std::isnan(step.noise->noise_scale));
    }
    CHECK(decided == (comm.rank() == 0 && comm.size() > 1));
    bytes[share] = static_cast<double>(sent);
  }
  if (comm.size() == 1) return;
  CHECK(bytes[0.1] > bytes[0.3]);
  CHECK(bytes[0.3] > bytes[0.6]);
}

TEST_CASE("what grades with a memory do not send comes later", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  const Case c{.steps = 60, .error_share = 0.5};
  const Result result = run(comm, c);
  const Layout layout = test_layout();
  // The sums of means and of gradients differ by the mean of the last residuals, which do not grow
  // with the steps.
  const std::size_t count = total_count(layout);
  std::vector<double> sent(count), given(count);
  for (StepId step = 0; step < c.steps; ++step)
    for (Rank rank = 0; rank < comm.size(); ++rank) {
      const auto gradient = gradient_of(layout, rank, step, c.noise);
      for (std::size_t i = 0; i < count; ++i) {
        given[i] += static_cast<double>(gradient[i]) / comm.size();
        if (rank == 0)
          sent[i] += static_cast<double>(result.means[static_cast<std::size_t>(step)][i]);
      }
    }
  double left = 0, all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    left += (given[i] - sent[i]) * (given[i] - sent[i]);
    all += given[i] * given[i];
  }
  if (comm.size() == 1) {
    CHECK(left < 1e-9 * all);
  } else {
    CHECK(left > 0);
    CHECK(left < 0.1 * all);
  }
}

TEST_CASE("a limit that is broken is a reason to decide at once", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  if (comm.size() == 1) return;
  const Case falls{.steps = 80, .noise = 0.3f, .quiet_from = 11, .decide_every = 8};
  const Result result = run(comm, falls);
  const auto decisions = decisions_of(comm, result);
  // Observed are 0 to 3 and even steps; every eighth observation decides regularly.
  const ObservationSchedule schedule(2, 8);
  bool at_once = false;
  for (const auto& [done, values] : decisions) at_once |= !schedule.decides(done - 1);
  CHECK(at_once);
  Case repeated = falls;
  repeated.replay = decisions;
  const Result again = run(comm, repeated);
  CHECK(again.means == result.means);
}

TEST_CASE("noisier gradients send fewer bytes, and a fast link no less than float32", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  if (comm.size() == 1) {
    // Nothing is sent: nothing is lost.
    CHECK(run(comm, {}).tables.back() == std::vector<int>(3, kNoGrade - 1));
    return;
  }
  CHECK(bytes_of(run(comm, {.noise = 3})) < bytes_of(run(comm, {.noise = 0.02f})));
  const Result fast = run(comm, {.noise = 3, .predict = link_of(1e9)});
  CHECK(fast.tables.back() == std::vector<int>(3, kNoGrade - 1));
  const Result slow = run(comm, {.noise = 3, .predict = link_of(1e3)});
  CHECK(slow.tables.back() == run(comm, {.noise = 3}).tables.back());
}

TEST_CASE("overlap changes no bit, and a run repeats", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  const Result first = run(comm, {});
  CHECK(run(comm, {}).mean == first.mean);
  CHECK(run(comm, {.overlap = false}).mean == first.mean);
}

TEST_CASE("decisions of a run can be repeated without observing", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  if (comm.size() == 1) return;
  // What a clock could have decided.
  const Result first = run(comm, {.predict = link_of(1e5)});
  const auto decisions = decisions_of(comm, first);
  REQUIRE_FALSE(decisions.empty());
  const Result again = run(comm, {.replay = decisions});
  CHECK(again.means == first.means);
  CHECK(again.tables == first.tables);
  CHECK(decisions_of(comm, again) == decisions);
  CHECK(bytes_of(again) <= bytes_of(first));

  // Before the first step, or where it is missing.
  const auto kind_with = [&](const std::map<StepId, std::vector<double>>& replay) {
    std::optional<Kind> early, late;
    try {
      const Parts parts(comm, {.replay = replay, .checks_replay = true});
    } catch (const Error& error) {
      early = error.kind();
    }
    try {
      run(comm, {.replay = replay});
    } catch (const Error& error) {
      late = error.kind();
    }
    CHECK(early == late);
    return late;
  };
  CHECK_FALSE(kind_with(decisions));
  auto shorter = decisions;
  shorter.erase(std::prev(shorter.end()));
  CHECK(kind_with(shorter) == Kind::data);
  auto other_model = decisions;
  other_model.begin()->second.front() += 1;
  CHECK(kind_with(other_model) == Kind::data);
  auto other_menu = decisions;
  other_menu.begin()->second.back() = kNoGrade;
  CHECK(kind_with(other_menu) == Kind::data);
}

TEST_CASE("a run that is restored goes on as if undisturbed", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  const Result whole = run(comm, {.predict = link_of(1e5)});
  for (const StepId at : {1u, 2u, 5u, 9u}) {
    const Result resumed = run(comm, {.predict = link_of(1e5), .restore_at = at});
    CHECK(resumed.means == whole.means);
    CHECK(resumed.tables == whole.tables);
  }
}

TEST_CASE("where ranks have different data, pairs of steps keep their differences apart from noise",
          "[grades]") {
  comm::Communicator comm(test::session(), 60);
  if (comm.size() == 1) return;
  const Case skewed{.steps = 20, .noise = 0.3f, .skew = 1};
  Case pairs = skewed;
  pairs.pairs = true;
  const Result whole = run(comm, pairs);
  // The differences count as noise if all steps are alike: that allows coarser grades.
  CHECK(bytes_of(whole) > 1.2 * bytes_of(run(comm, skewed)));
  Case same = pairs;
  same.skew = 0;
  CHECK(bytes_of(whole) >= bytes_of(run(comm, same)));

  Case resumed = pairs;
  for (const StepId at : {1u, 2u, 5u, 9u, 13u}) {  // also between the steps of a pair
    resumed.restore_at = at;
    CHECK((run(comm, resumed).means == whole.means));
  }
  Case repeated = pairs;
  repeated.replay = decisions_of(comm, whole);
  CHECK((run(comm, repeated).means == whole.means));
}

TEST_CASE("a table with a grade that does not exist is not restored", "[grades]") {
  comm::Communicator comm(test::session(), 60);
  Parts from(comm, {}), to(comm, {});
  class Damaged final : public test::StateSource {
    void numbers(std::string_view name, std::span<std::uint64_t> values, Across) override {
      if (name == "grades") values.back() = static_cast<std::uint64_t>(kNoGrade);
    }
  } damaged;
  try {
    to.adaptation->visit_state(damaged);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
  }
}
