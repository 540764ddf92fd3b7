// SPDX-License-Identifier: Apache-2.0
// Simulated workers of one process average to the same bits as that many ranks, for every
// compressor, over several steps, including all memory.

#include "sync/simulated_averaging.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/decoder_table.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;
using namespace eqt::sync;

namespace {

/// Matrices, a kernel and short vectors, which are sent raw.
Layout small_layout() { return test::layout_of({{64, 60}, {60}, {16, 16, 3, 3}, {49, 45}, {1}}); }

/// Tensors longer than the ranges that owners have, one of them raw.
Layout long_layout() { return test::layout_of({{130, 129}, {64}, {9000}, {40, 30}, {3, 7}}); }

/// Sizes differ between ranks, so that every order of additions gives other bits.
std::vector<float> gradient_of(Rank rank, StepId step, std::size_t count) {
  auto values = test::gaussian(
      count, {.run_seed = 9, .step = step, .rank = static_cast<std::uint32_t>(rank)});
  for (float& value : values) value *= 0.3f + static_cast<float>(rank);
  return values;
}

/// For so many values.
using MakeMemory = std::function<std::unique_ptr<GradientMemory>(std::size_t count)>;

/// Error feedback whose residual is multiplied by `decay` in each step.
MakeMemory feedback(float decay = 1) {
  return [decay](std::size_t count) { return make_error_feedback(count, {.decay = decay}); };
}

/// The default error feedback of this compressor.
MakeMemory memory_for(const codec::Compressor& compressor, int ranks) {
  if (compressor.id() == codec::CodecId::dgc)
    return [ranks](std::size_t count) {
      return make_dgc_memory(count, {.clip_norm = 50, .ranks = ranks});
    };
  if (compressor.id() == codec::CodecId::signsgd)
    return [](std::size_t count) { return make_signum_memory(count, 0.9f); };
  if (compressor.properties().needs_feedback) return feedback();
  return [](std::size_t) { return std::unique_ptr<GradientMemory>(); };
}

/// What is averaged, and by which collective.
struct Case {
  const codec::Compressor& compressor;
  MakeMemory make_memory = [](std::size_t) { return std::unique_ptr<GradientMemory>(); };
  const CollectiveRow& collective = kAllgather;
  Layout layout = small_layout();
  pipeline::Granularity granularity = pipeline::Granularity::layer;
  codec::SmallTensors small_tensors = codec::SmallTensors::float32;
  float owners_decay = 1;  // of what owners of sums keep
  StepId steps = 10;       // past the second one whose variance is measured, the ninth

  std::size_t count() const { return total_count(layout); }
  std::vector<pipeline::FusionBucket> plan() const {
    return pipeline::plan_buckets(layout, compressor,
                                  {.granularity = granularity,
                                   .skip_below = 100,
                                   .small_tensors = small_tensors,
                                   .bucket_bytes = 10000});
  }
  GradientAveragingOptions options() const {
    GradientAveragingOptions options;
    options.run_seed = 5;
    options.lossy = !compressor.properties().lossless;
    return options;
  }
};

struct Step {
  std::vector<float> mean;
  Traffic traffic;
  double variance = 0;  // added up over ranks
};

/// Each rank's own gradient; traffic and variance are summed over ranks.
std::vector<Step> run_ranks(comm::Communicator& comm, const Case& c) {
  const auto plan = c.plan();
  const auto memory = c.make_memory(c.count());
  const auto collective = c.collective.make({.comm = comm,
                                             .compressor = c.compressor,
                                             .plan = plan,
                                             .reducer_feedback = memory != nullptr,
                                             .feedback_decay = c.owners_decay});
  std::vector<float> gradient(c.count());
  const auto averaging = make_gradient_averaging(comm, *collective, memory.get(), plan, c.layout,
                                                 gradient, c.options());
  std::vector<Step> steps;
  for (StepId step = 0; step < c.steps; ++step) {
    averaging->begin(step, 0);
    std::ranges::copy(gradient_of(comm.rank(), step, c.count()), gradient.begin());
    for (std::size_t i = c.layout.size(); i-- > 0;) averaging->slice_ready(i);
    const SyncResult own = averaging->finish();
    std::array<double, 5> sums = {static_cast<double>(own.traffic.sent_bytes),
                                  static_cast<double>(own.traffic.received_bytes),
                                  static_cast<double>(own.traffic.encoded_bytes),
                                  static_cast<double>(own.traffic.encoded_values),
                                  own.quantization_variance.value_or(0)};
    comm.allreduce_sum(sums);
    steps.push_back({.mean = gradient,
                     .traffic = {.sent_bytes = static_cast<std::uint64_t>(sums[0]),
                                 .received_bytes = static_cast<std::uint64_t>(sums[1]),
                                 .encoded_bytes = static_cast<std::uint64_t>(sums[2]),
                                 .encoded_values = static_cast<std::uint64_t>(sums[3])},
                     .variance = sums[4]});
  }
  return steps;
}

/// The same ranks, played by this process.
class Players {
 public:
  Players(const Case& c, int workers)
      : case_(c), workers_(workers), plan_(c.plan()), gradient_(c.count()) {
    std::vector<GradientMemory*> remembered;
    for (int w = 0; w < workers; ++w) {
      memories_.push_back(c.make_memory(c.count()));
      remembered.push_back(memories_.back().get());
    }
    mean_ = c.collective.make_for_workers({.compressor = c.compressor,
                                           .plan = plan_,
                                           .workers = workers,
                                           .reducer_feedback = remembered.front() != nullptr,
                                           .feedback_decay = c.owners_decay});
    averaging_ =
        make_simulated_averaging(*mean_, remembered, plan_, case_.layout, gradient_, c.options());
  }

  Step take(StepId step) {
    averaging_->begin(step, 0);
    for (Rank w = 0; w < workers_; ++w) {
      std::ranges::copy(gradient_of(w, step, case_.count()), gradient_.begin());
      averaging_->workers()->worker_ready();
    }
    const SyncResult all = averaging_->finish();
    return {.mean = gradient_,
            .traffic = all.traffic,
            .variance = workers_ * all.quantization_variance.value_or(0)};
  }

  std::string_view collective() const { return mean_->row().name; }
  void visit_state(StateVisitor& visitor) { averaging_->visit_state(visitor); }
  WorkerMean& mean() { return *mean_; }

 private:
  const Case case_;
  const int workers_;
  const std::vector<pipeline::FusionBucket> plan_;
  std::vector<std::unique_ptr<GradientMemory>> memories_;
  std::vector<float> gradient_;
  std::unique_ptr<WorkerMean> mean_;
  std::unique_ptr<Synchronizer> averaging_;
};

std::vector<Step> run_workers(int workers, const Case& c) {
  Players players(c, workers);
  CHECK(players.collective() == c.collective.name);
  std::vector<Step> steps;
  for (StepId step = 0; step < c.steps; ++step) steps.push_back(players.take(step));
  return steps;
}

void compare(comm::Communicator& comm, const Case& c) {
  const auto job = run_ranks(comm, c);
  const auto played = run_workers(comm.size(), c);
  for (std::size_t step = 0; step < job.size(); ++step) {
    INFO("step " << step);
    CHECK(test::hash_of(played[step].mean) == test::hash_of(job[step].mean));
    CHECK(played[step].traffic.sent_bytes == job[step].traffic.sent_bytes);
    CHECK(played[step].traffic.received_bytes == job[step].traffic.received_bytes);
    CHECK(played[step].traffic.encoded_bytes == job[step].traffic.encoded_bytes);
    CHECK(played[step].traffic.encoded_values == job[step].traffic.encoded_values);
    CHECK(std::abs(played[step].variance - job[step].variance) <= 1e-12 * job[step].variance);
  }
}

std::unique_ptr<codec::Compressor> rounding(const std::string& name, codec::Rounding rounding) {
  codec::CompressorOptions options{.bucket_size = 512, .rounding = rounding};
  if (name == "e-elastiquant") options.coding = codec::Coding::automatic;
  return codec::make_compressor(name, options);
}

/// Rounds to nearest, in so many bits a value.
std::unique_ptr<codec::Compressor> at_rate(double bits) {
  return codec::make_compressor("elastiquant", {.bucket_size = 512,
                                                .coding = codec::Coding::automatic,
                                                .rate = bits,
                                                .rounding = codec::Rounding::nearest});
}

}  // namespace

TEST_CASE("workers average to the bits of that many ranks, with every compressor",
          "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  for (const test::Decoder& decoder : test::decoder_table(512)) {
    if (decoder.name == "powersgd") continue;  // has its own collective
    INFO(decoder.name);
    compare(comm, {.compressor = *decoder.compressor,
                   .make_memory = memory_for(*decoder.compressor, comm.size())});
  }
}

TEST_CASE("workers have the same memory as ranks", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  // A shared scale, runs of known length, and entropy codes.
  const auto table = test::decoder_table(512);
  for (const std::string name : {"terngrad", "qsgd-4-fixed", "e-elastiquant-4-auto"}) {
    INFO(name);
    compare(comm, {.compressor = *test::find_decoder(table, name)->compressor,
                   .make_memory = feedback()});
  }
  for (const std::string name : {"qsgd-4-fixed", "topk"}) {
    INFO(name);
    const test::Decoder* const decoder = test::find_decoder(table, name);
    REQUIRE(decoder != nullptr);
    compare(comm, {.compressor = *decoder->compressor,
                   .make_memory = [](std::size_t count) { return make_ef21(count, 0.4f); }});
  }
}

TEST_CASE("residuals of workers decay as those of ranks", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  // Added while encoding, before a shared scale is agreed on, damped, and rounded to nearest.
  const auto ternary = codec::make_compressor("terngrad", {.damped = true});
  const auto uniform = codec::make_compressor("qsgd", {.bucket_size = 512, .damped = true});
  const auto largest = codec::make_compressor("topk");
  const auto nearest = at_rate(2);
  for (const codec::Compressor* const compressor :
       {ternary.get(), uniform.get(), largest.get(), nearest.get()}) {
    INFO(codec::codec_name(compressor->id()));
    const Case decaying = {.compressor = *compressor, .make_memory = feedback(0.75f)};
    compare(comm, decaying);
    const auto forgetful = run_workers(comm.size(), decaying);
    const auto faithful =
        run_workers(comm.size(), {.compressor = *compressor, .make_memory = feedback()});
    CHECK(forgetful[0].mean == faithful[0].mean);
    CHECK_FALSE(forgetful[1].mean == faithful[1].mean);
  }
}

TEST_CASE("small tensors in 8 bits: as on ranks, and nothing is lost", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto largest = codec::make_compressor("topk");
  const auto ternary = codec::make_compressor("terngrad", {.damped = true});
  const auto nearest = at_rate(2);
  for (const codec::Compressor* const compressor : {largest.get(), ternary.get(), nearest.get()}) {
    INFO(codec::codec_name(compressor->id()));
    const Case in_32_bits = {.compressor = *compressor, .make_memory = feedback()};
    Case in_8_bits = in_32_bits;
    in_8_bits.small_tensors = codec::SmallTensors::int8;
    compare(comm, in_8_bits);
    const auto exact = run_workers(comm.size(), in_32_bits);
    const auto rounded = run_workers(comm.size(), in_8_bits);
    // Of the tensors of 60 values and of 1 each rank sends 61 + 2 * 4 instead of 61 * 4 bytes.
    CHECK(exact[0].traffic.encoded_bytes - rounded[0].traffic.encoded_bytes ==
          175u * static_cast<unsigned>(comm.size()));
    double worst = 0;
    bool differs = false;
    for (std::size_t i = 3840; i < 3900; ++i) {
      double lost = 0;
      for (std::size_t step = 0; step < exact.size(); ++step) {
        lost +=
            static_cast<double>(exact[step].mean[i]) - static_cast<double>(rounded[step].mean[i]);
        differs = differs || exact[step].mean[i] != rounded[step].mean[i];
      }
      worst = std::max(worst, std::abs(lost));
    }
    CHECK(differs);
    // What is missing is the mean of the last residuals, at most half a step of int8 each. Values
    // are below 5 (0.3 + rank), and with a residual below a step more.
    const double largest_value = 5 * (0.3 + comm.size() - 1);
    CHECK(worst <= 0.51 * largest_value * (1 + 1.0 / 127) / 127);
  }
}

TEST_CASE("workers round against each other as ranks do", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  for (const std::string name : {"qsgd", "e-elastiquant", "terngrad", "natural"}) {
    INFO(name);
    const auto alone = rounding(name, codec::Rounding::independent);
    const auto together = rounding(name, codec::Rounding::correlated);
    compare(comm, {.compressor = *together});
    const bool same = run_workers(comm.size(), {.compressor = *together}).front().mean ==
                      run_workers(comm.size(), {.compressor = *alone}).front().mean;
    CHECK(same == (comm.size() == 1));
  }
}

TEST_CASE("float32 is added in the order of ranks", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  compare(comm, {.compressor = *none, .collective = kDense});
}

TEST_CASE("workers own values and encode their means again as ranks do", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto table = test::decoder_table(512);
  for (const CollectiveRow* const row : {&kScatterReduce, &kSparse}) {
    for (const std::string name : {"none", "qsgd-4-fixed", "elastiquant-4-fixed",
                                   "e-elastiquant-4-auto", "terngrad", "topk", "dgc"}) {
      INFO(row->name << " " << name);
      const test::Decoder* const decoder = test::find_decoder(table, name);
      REQUIRE(decoder != nullptr);
      Case c = {.compressor = *decoder->compressor,
                .collective = *row,
                .layout = long_layout(),
                .steps = 3};
      if (!why_not(*row, c.compressor).empty()) {
        CHECK_THROWS_AS(Players(c, 2), Error);
        continue;
      }
      compare(comm, c);
      c.granularity = pipeline::Granularity::model;
      c.make_memory = c.compressor.properties().forgets_sent ? memory_for(c.compressor, comm.size())
                                                             : feedback();
      compare(comm, c);
    }
  }
}

TEST_CASE("workers round against each other in what is not the owner's", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  for (const std::string name : {"qsgd", "e-elastiquant"}) {
    INFO(name);
    const auto together = rounding(name, codec::Rounding::correlated);
    const auto alone = rounding(name, codec::Rounding::independent);
    Case c = {.compressor = *together, .collective = kScatterReduce, .layout = long_layout()};
    compare(comm, c);
    Case independent = {
        .compressor = *alone, .collective = kScatterReduce, .layout = long_layout(), .steps = 1};
    const bool same = run_workers(comm.size(), c).front().mean ==
                      run_workers(comm.size(), independent).front().mean;
    CHECK(same == (comm.size() <= 2));  // two ranks: nobody but the owner and one other
    c.make_memory = feedback();
    compare(comm, c);
    c.make_memory = [](std::size_t count) { return make_ef21(count, 0.4f); };
    compare(comm, c);
  }
}

TEST_CASE("what owners keep decays among workers as among ranks", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto uniform = codec::make_compressor("qsgd", {.bucket_size = 512, .damped = true});
  const auto nearest = at_rate(2);
  const auto largest = codec::make_compressor("topk", {.density = 0.05, .value_bits = 4});
  for (const codec::Compressor* const compressor : {uniform.get(), nearest.get(), largest.get()}) {
    INFO(codec::codec_name(compressor->id()));
    const bool sparse = compressor == largest.get();
    Case decaying = {.compressor = *compressor,
                     .make_memory = feedback(0.75f),
                     .collective = sparse ? kSparse : kScatterReduce,
                     .layout = long_layout(),
                     .owners_decay = 0.75f,
                     .steps = 5};
    compare(comm, decaying);
    Case keeping = decaying;
    keeping.owners_decay = 1;
    const auto forgetful = run_workers(comm.size(), decaying);
    const auto faithful = run_workers(comm.size(), keeping);
    CHECK(forgetful.front().mean == faithful.front().mean);
    // One rank sends all sums of its own few values.
    if (!sparse || comm.size() > 1) CHECK_FALSE(forgetful.back().mean == faithful.back().mean);
    if (sparse) continue;
    decaying.small_tensors = codec::SmallTensors::int8;
    compare(comm, decaying);
  }
}

TEST_CASE("players go on from what all owners have kept", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto qsgd = codec::make_compressor("qsgd", {.bits = 2, .bucket_size = 512});
  const auto topk = codec::make_compressor("topk", {.density = 0.05});
  for (const bool scatters : {true, false}) {
    if (!scatters && comm.size() == 1) continue;  // one rank sends all of its sums
    const Case c = {.compressor = scatters ? *qsgd : *topk,
                    .make_memory = feedback(),
                    .collective = scatters ? kScatterReduce : kSparse,
                    .layout = long_layout()};
    INFO(c.collective.name);
    Players whole(c, comm.size());
    for (StepId step = 0; step < 3; ++step) whole.take(step);
    test::CopiedState saved;
    whole.visit_state(saved);
    saved.restore_from_now();
    Players resumed(c, comm.size());
    resumed.visit_state(saved);
    CHECK(resumed.take(3).mean == whole.take(3).mean);

    // Without what owners have kept it would go on in another way.
    test::StateSpans kept;
    resumed.mean().visit_state(kept);
    REQUIRE(kept.floats.size() == static_cast<std::size_t>(comm.size()));
    for (const std::span<float> residual : kept.floats) std::ranges::fill(residual, 0.0f);
    CHECK(resumed.take(4).mean != whole.take(4).mean);
  }
}

TEST_CASE("each value has one owner among workers", "[averaging-in-turn]") {
  comm::Communicator comm(test::session(), 30);
  const auto qsgd = codec::make_compressor("qsgd", {.bucket_size = 512});
  const Case c = {.compressor = *qsgd,
                  .make_memory = feedback(),
                  .collective = kScatterReduce,
                  .layout = long_layout()};
  Players players(c, comm.size());
  test::StateSpans state;
  players.mean().visit_state(state);
  std::vector<int> owners(c.count());
  for (const SliceRange& range : state.places)
    for (std::uint64_t i = 0; i < range.count; ++i)
      ++owners[c.layout[range.slice].offset + range.first + i];
  CHECK(std::ranges::count(owners, 1) == std::ssize(owners));
}
