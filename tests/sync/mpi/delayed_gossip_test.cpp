// SPDX-License-Identifier: Apache-2.0
// Gossip whose mixed models are applied some steps after a round. Its equations:
// gossip_oracle_test.cpp.

#include <fmt/format.h>

#include <cmath>
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

constexpr float kRate = 0.1f;

struct Setting {
  std::string scheme = "choco-sgd";
  std::string compressor = "topk";
  std::uint64_t local_steps = 3, delay = 2;
  StepId steps = 12;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const char* scheme : {"d-psgd", "choco-sgd"})
    for (const char* compressor : {"none", "topk", "qsgd"}) {
      settings.push_back({scheme, compressor, 1, 1, 8});
      settings.push_back({scheme, compressor, 3, 1, 12});
      settings.push_back({scheme, compressor, 3, 2, 11});
      settings.push_back({scheme, compressor, 4, 4, 12});
    }
  return settings;
}

std::string shown(const Setting& s) {
  return fmt::format("{} with {}, {} local steps, delay {}, {} steps", s.scheme, s.compressor,
                     s.local_steps, s.delay, s.steps);
}

class Run {
 public:
  Run(comm::Communicator& comm, const Setting& setting, bool overlap, bool momentum = true)
      : loss_(quadratic_of(total_count(gossip_layout()), static_cast<std::size_t>(comm.rank()))),
        compressor_(codec::make_compressor(setting.compressor, {.density = 0.1})),
        ring_(make(topology::GraphKind::ring, comm.size())),
        rank_(comm, scheme_of(setting, momentum),
              {.gamma = 0.4,
               .local_steps = setting.local_steps,
               .delay = setting.delay,
               .total_steps = setting.steps},
              *ring_, *compressor_, gossip_layout(), {.plan = gossip_plan(), .overlap = overlap}) {
    const auto start = gaussian(total_count(gossip_layout()), {.run_seed = 20});
    std::ranges::copy(start, rank_.parameters().begin());
    rank_.start();
  }

  sync::SyncResult step() {
    return rank_.step(kRate, [&](auto z, auto g) { gradient_at(loss_, z, g); });
  }
  void steps(StepId count) {
    for (StepId i = 0; i < count; ++i) (void)step();
  }
  std::vector<float> model() { return {rank_.parameters().begin(), rank_.parameters().end()}; }
  GossipRank& rank() { return rank_; }

 private:
  static GossipScheme scheme_of(const Setting& setting, bool momentum) {
    GossipScheme scheme = scheme_named(setting.scheme);
    if (!momentum) scheme.momentum = scheme.weight_decay = 0;
    return scheme;
  }

  const Quadratic loss_;
  const std::unique_ptr<codec::Compressor> compressor_;
  const std::unique_ptr<topology::Topology> ring_;
  GossipRank rank_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0;
  for (std::size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
  return most;
}

}  // namespace

TEST_CASE("late gossip ends with the same bits whatever the timing", "[late]") {
  comm::Communicator comm(session(), 30);
  for (const Setting& setting : all_settings()) {
    INFO(shown(setting));
    Run blocking(comm, setting, false), overlapped(comm, setting, true),
        settled(comm, setting, true);
    blocking.steps(setting.steps);
    std::size_t waits = 0;
    for (StepId step = 0; step < setting.steps; ++step) {
      (void)overlapped.step();
      if (overlapped.rank().is_under_way()) ++waits;
    }
    for (StepId step = 0; step < setting.steps; ++step) {
      (void)settled.step();
      settled.rank().settle();
      CHECK_FALSE(settled.rank().is_under_way());
    }
    CHECK(same_bits(overlapped.model(), blocking.model()));
    CHECK(same_bits(settled.model(), blocking.model()));
    // Messages are under way after each of the D - 1 steps between sending and applying.
    const StepId rounds = (setting.steps - 1) / setting.local_steps;
    CHECK(waits == rounds * (setting.delay - 1));
    CHECK_FALSE(overlapped.rank().is_under_way());
  }
}

TEST_CASE("late gossip preserves the mean over ranks in every step", "[late]") {
  comm::Communicator comm(session(), 30);
  for (const Setting& setting : all_settings()) {
    INFO(shown(setting));
    Run run(comm, setting, true, false);
    std::vector<double> before;
    double rounds = 0;
    for (StepId step = 0; step < setting.steps; ++step) {
      const sync::SyncResult result = run.step();
      rounds += result.rounds.value();
      // While messages are under way, nothing else may be sent; and what is settled is not applied.
      run.rank().settle();
      const auto model = run.model();
      const auto direction = run.rank().direction();
      std::vector<double> sums;
      for (std::size_t k = 0; k < model.size(); ++k) {
        sums.push_back(static_cast<double>(model[k]));
        sums.push_back(static_cast<double>(direction[k]));
      }
      comm.allreduce_sum(sums);
      double worst = 0;
      for (std::size_t k = 0; k < model.size() && !before.empty(); ++k)
        worst = std::max(worst, std::abs(sums[2 * k] - before[2 * k] +
                                         static_cast<double>(kRate) * sums[2 * k + 1]));
      CHECK(worst < 1e-5);
      before = std::move(sums);
    }
    CHECK(rounds ==
          static_cast<double>(setting.steps / setting.local_steps));  // as many as without a delay
  }
}

TEST_CASE("one step late in every step, gossip is combine-then-adapt", "[late]") {
  comm::Communicator comm(session(), 30);
  for (const char* compressor : {"none", "topk"}) {
    // The last step of a run also mixes at once.
    const Setting late = {"choco-sgd", compressor, 1, 1, 100};
    const Setting first = {"choco-sgd, combine first", compressor, 1, 0, 100};
    Run a(comm, late, true, false), b(comm, first, true, false);
    for (StepId step = 0; step < 10; ++step) {
      (void)a.step();
      (void)b.step();
      CHECK(largest_difference(a.model(), b.model()) < 1e-5f);
    }
    a.rank().settle();
  }
}

TEST_CASE("late gossip that goes on from saved state ends with the same bits", "[late]") {
  comm::Communicator comm(session(), 30);
  for (const Setting& setting : all_settings()) {
    INFO(shown(setting));
    for (const StepId cut : {StepId{3}, StepId{4}, StepId{6}, StepId{7}}) {
      Run whole(comm, setting, true);
      whole.steps(cut);
      whole.rank().settle();
      CopiedState state;
      whole.rank().visit_state(state);
      Run resumed(comm, setting, true);
      state.restore_from_now();
      resumed.rank().visit_state(state);
      CHECK_FALSE(resumed.rank().is_under_way());
      whole.steps(setting.steps - cut);
      resumed.steps(setting.steps - cut);
      CHECK(same_bits(whole.model(), resumed.model()));
    }
  }
}
