// SPDX-License-Identifier: Apache-2.0
// Gossip that leaves out slices which have not moved much. Its equations and the mean over ranks:
// gossip_oracle_test.cpp and gossip_mean_test.cpp.

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/gossip_cases.hpp"
#include "support/gossip_rank.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

constexpr StepId kSteps = 12;

/// Tensors whose rates of movement differ: the second one moves in every fourth step.
class Trace {
 public:
  explicit Trace(comm::Communicator& comm)
      : loss_(quadratic_of(total_count(gossip_layout()), static_cast<std::size_t>(comm.rank()))) {}

  sync::SyncResult step(GossipRank& rank, StepId step) const {
    return rank.step(0.05f, [&](auto z, auto g) {
      gradient_at(loss_, z, g);
      const TensorSlice bursty = gossip_layout()[1];
      if (step % 4 != 0) std::ranges::fill(g.subspan(bursty.offset, bursty.count), 0.0f);
    });
  }

 private:
  const Quadratic loss_;
};

struct Outcome {
  std::vector<float> model;
  std::uint64_t sent_bytes = 0;
  sync::SliceCounts counts = {};
  std::string note = {};
};

struct Setting {
  std::string scheme = "choco-sgd";
  std::string compressor = "topk";
  bool overlap = false;
  std::uint64_t local_steps = 1;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const char* scheme : {"choco-sgd", "choco-sgd, combine first", "quant-sgp"})
    for (const char* compressor : {"none", "topk", "qsgd"}) {
      settings.push_back({.scheme = scheme, .compressor = compressor});
      settings.push_back({.scheme = scheme, .compressor = compressor, .overlap = true});
      settings.push_back({.scheme = scheme, .compressor = compressor, .local_steps = 3});
    }
  return settings;
}

/// A run's rank and what it is made of.
class Run {
 public:
  Run(comm::Communicator& comm, const Setting& setting, const sync::EventOptions& events)
      : compressor_(codec::make_compressor(setting.compressor, {.density = 0.1})),
        ring_(make(topology::GraphKind::ring, comm.size())),
        rank_(comm, scheme_named(setting.scheme),
              {.gamma = 0.3, .damping = 0.8, .local_steps = setting.local_steps}, *ring_,
              *compressor_, gossip_layout(),
              {.plan = gossip_plan(),
               .overlap = setting.overlap,
               .mixer = {.events = events},
               .total_steps = kSteps / setting.local_steps}),
        trace_(comm) {
    const auto start = gaussian(total_count(gossip_layout()), {.run_seed = 20});
    std::ranges::copy(start, rank_.parameters().begin());
    rank_.start();
  }

  void steps(StepId from, StepId to) {
    for (StepId step = from; step < to; ++step) {
      const sync::SyncResult result = trace_.step(rank_, step);
      sent_ += result.traffic.sent_bytes;
      if (result.note) note_ = *result.note;
    }
  }

  Outcome outcome() {
    return {.model = {rank_.parameters().begin(), rank_.parameters().end()},
            .sent_bytes = sent_,
            .counts = rank_.mixer().slice_counts().value_or(sync::SliceCounts{}),
            .note = note_};
  }
  GossipRank& rank() { return rank_; }

 private:
  const std::unique_ptr<codec::Compressor> compressor_;
  const std::unique_ptr<topology::Topology> ring_;
  GossipRank rank_;
  const Trace trace_;
  std::uint64_t sent_ = 0;
  std::string note_;
};

Outcome outcome_of(comm::Communicator& comm, const Setting& setting,
                   const sync::EventOptions& events) {
  Run run(comm, setting, events);
  run.steps(0, kSteps);
  return run.outcome();
}

std::string shown(const Setting& setting) {
  return fmt::format("{} with {}, overlap {}, local steps {}", setting.scheme, setting.compressor,
                     setting.overlap, setting.local_steps);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double sum_over_ranks(comm::Communicator& comm, std::uint64_t value) {
  std::vector<double> sum = {static_cast<double>(value)};
  comm.allreduce_sum(sum);
  return sum[0];
}

}  // namespace

TEST_CASE("with a silence of 1 the models are CHOCO's, bit for bit", "[events]") {
  comm::Communicator comm(session(), 30);
  for (const Setting& setting : all_settings()) {
    INFO(shown(setting));
    const Outcome all = outcome_of(comm, setting, {});
    const Outcome listed = outcome_of(comm, setting, {.threshold = 1000, .silence = 1});
    CHECK(same_bits(listed.model, all.model));
    CHECK(listed.counts.left_out == 0);
    CHECK(listed.counts.sent == 3 * kSteps / setting.local_steps);
    // Each of the three buckets of a round has a list of one byte for each neighbour.
    const std::uint64_t neighbours = static_cast<std::uint64_t>(std::min(comm.size() - 1, 2));
    CHECK(listed.sent_bytes == all.sent_bytes + neighbours * listed.counts.sent);
  }
}

TEST_CASE("on a fixed trace bytes fall as the threshold rises", "[events]") {
  comm::Communicator comm(session(), 30);
  for (const Setting& setting : all_settings()) {
    if (setting.local_steps != 1) continue;
    INFO(shown(setting));
    double before = 0, left_out = 0;
    for (const double threshold : {0.01, 1.0, 2.0, 5.0, 1000.0}) {
      const Outcome found = outcome_of(comm, setting, {.threshold = threshold});
      const double bytes = sum_over_ranks(comm, found.sent_bytes);
      if (threshold > 0.01) CHECK(bytes <= before);
      if (threshold > 0.01 && comm.size() > 1 && threshold < 5) CHECK(bytes < before);
      before = bytes;
      CHECK(found.counts.sent + found.counts.left_out == 3 * kSteps);
      left_out = sum_over_ranks(comm, found.counts.left_out);
      // What the run's note says.
      const double all = 3.0 * static_cast<double>(kSteps) * comm.size();
      CHECK(found.note ==
            fmt::format("event-triggered gossip: {:.0f} of {:.0f} slices were sent, {:.0f} were "
                        "left out",
                        all - left_out, all, left_out));
    }
    CHECK(left_out > 0);
  }
}

TEST_CASE("a slice is never silent for longer than event_silence", "[events]") {
  comm::Communicator comm(session(), 30);
  for (const std::uint64_t silence : {2u, 3u, 4u, 6u}) {
    const Outcome found = outcome_of(comm, {}, {.threshold = 1000, .silence = silence});
    CHECK(found.counts.sent == 3 * (kSteps / silence));
  }
}

TEST_CASE("event-triggered gossip that goes on from saved state ends with the same bits",
          "[events]") {
  comm::Communicator comm(session(), 30);
  for (const Setting& setting : all_settings()) {
    INFO(shown(setting));
    for (const StepId cut : {StepId{1}, StepId{5}}) {
      const sync::EventOptions events = {.threshold = 1.5, .silence = 4};
      Run whole(comm, setting, events);
      whole.steps(0, cut);
      CopiedState state;
      whole.rank().visit_state(state);
      Run resumed(comm, setting, events);
      state.restore_from_now();
      resumed.rank().visit_state(state);
      whole.steps(cut, kSteps);
      resumed.steps(cut, kSteps);
      CHECK(same_bits(whole.outcome().model, resumed.outcome().model));
      CHECK(whole.outcome().note == resumed.outcome().note);
    }
  }
}

TEST_CASE("which slices are sent does not depend on how they are cut into buckets", "[events]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = layout_of({{100, 300}, {300}, {200, 100}, {10}});
  const std::size_t count = total_count(layout);
  const Quadratic loss = quadratic_of(count, static_cast<std::size_t>(comm.rank()));
  const auto ring = make(topology::GraphKind::ring, comm.size());
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  std::vector<std::vector<float>> models;
  std::vector<std::uint64_t> left_out;
  for (const std::size_t split : {std::size_t{1} << 20, std::size_t{1} << 15}) {
    GossipRank rank(comm, scheme_named("choco-sgd"), {.gamma = 0.3}, *ring, *compressor, layout,
                    {.plan = {.split_bytes = split}, .mixer = {.events = {.threshold = 2}}});
    rank.start();
    for (int step = 0; step < 8; ++step)
      rank.step(0.05f, [&](auto z, auto g) { gradient_at(loss, z, g); });
    models.emplace_back(rank.parameters().begin(), rank.parameters().end());
    left_out.push_back(rank.mixer().slice_counts()->left_out);
  }
  CHECK(same_bits(models[0], models[1]));
  CHECK(left_out[0] == left_out[1]);
  CHECK(left_out[0] > 0);
}
