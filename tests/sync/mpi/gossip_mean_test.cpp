// SPDX-License-Identifier: Apache-2.0
// Mixing does not change the mean over ranks, with any compressor and any graph.

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "support/catch.hpp"
#include "support/gossip_cases.hpp"
#include "support/gossip_rank.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

constexpr std::size_t kSteps = 3;

double norm(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

/// Sums over ranks: of push-sum's w z, or of the models without push-sum; of the step's directions;
/// and, in the last element, of the squares of the models.
std::vector<double> sums_over_ranks(comm::Communicator& comm, GossipRank& rank) {
  const auto model = rank.parameters();
  const auto direction = rank.direction();
  std::vector<double> sums(2 * model.size() + 1);
  for (std::size_t k = 0; k < model.size(); ++k) {
    const double z = static_cast<double>(model[k]);
    sums[k] = rank.weight() * z;
    sums[model.size() + k] = static_cast<double>(direction[k]);
    sums.back() += z * z;
  }
  comm.allreduce_sum(sums);
  return sums;
}

/// The distance of a step's sum from sum(before) - rate sum(direction), relative to the norm of the
/// sum or of the models, whichever is larger.
double relative_drift(std::span<const double> before, std::span<const double> after, float rate,
                      int ranks) {
  const std::size_t count = before.size() / 2;
  std::vector<double> drift(count);
  for (std::size_t k = 0; k < count; ++k) {
    drift[k] = after[k] - (before[k] - static_cast<double>(rate) * after[count + k]);
  }
  return norm(drift) / std::max(norm(before.first(count)), std::sqrt(after.back() * ranks));
}

}  // namespace

TEST_CASE("every mix preserves the mean over ranks", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = gossip_layout();
  const std::size_t count = total_count(layout);
  const Quadratic loss = quadratic_of(count, static_cast<std::size_t>(comm.rank()));
  const auto start =
      gaussian(count, {.run_seed = 30, .rank = static_cast<std::uint32_t>(comm.rank())});
  const auto compressors = all_compressors();
  std::size_t combinations = 0, turn = 0;
  double most = 0;
  for (const NamedTopology& topology : all_topologies(comm.size())) {
    for (GossipScheme scheme : all_schemes()) {
      // Momentum with other mixers is not a new case, and the drift is that of one rate for all.
      if (!fits(scheme, topology) || scheme.name.starts_with("quasi-global ")) continue;
      if (scheme.groups) continue;
      // With the optimizer's own momentum the direction would be unknown.
      if (scheme.rule == Rule::local_momentum) scheme.momentum = scheme.weight_decay = 0;
      if (scheme.rule == Rule::local_momentum) scheme.nesterov = false;
      ++turn;
      for (std::size_t c = 0; c < compressors.size(); ++c) {
        if (comm.size() != 4 && c % 4 != turn % 4) continue;  // all cases with 4 ranks
        const auto& [name, compressor] = compressors[c];
        INFO(scheme.name << " on " << topology.name << " with " << name);
        const auto plan = pipeline::plan_buckets(layout, *compressor, gossip_plan());
        GossipRank rank(comm, scheme, usual_settings(scheme, *compressor, plan), *topology.made,
                        *compressor, layout, {.plan = gossip_plan()});
        for (std::size_t k = 0; k < count; ++k) rank.parameters()[k] = 1 + start[k];
        auto before = sums_over_ranks(comm, rank);
        for (std::size_t step = 0; step < kSteps; ++step) {
          const float rate = step % 2 == 0 ? 0.05f : 0.02f;
          rank.step(rate, [&](auto z, auto g) { gradient_at(loss, z, g); });
          auto after = sums_over_ranks(comm, rank);
          const double drift = relative_drift(before, after, rate, comm.size());
          CHECK(drift < 1e-6);
          most = std::max(most, drift);
          before = std::move(after);
        }
        if (scheme.push_sum) {
          const auto weights = rank.weights();
          CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) ==
                Approx(comm.size()).epsilon(1e-12));
        }
        ++combinations;
      }
    }
  }
  if (comm.rank() == 0) {
    fmt::print(
        "{} ranks: {} combinations of algorithm, topology and compressor: the mean moved by "
        "at most {:.1e} a step\n",
        comm.size(), combinations, most);
  }
  CHECK(combinations > 200);
}

TEST_CASE("every pattern of events preserves the mean over ranks", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = gossip_layout();
  const std::size_t count = total_count(layout);
  const Quadratic loss = quadratic_of(count, static_cast<std::size_t>(comm.rank()));
  const auto start = gaussian(count, {.run_seed = 31});
  std::vector<double> patterns = {0, 0};  // rounds with and without all slices, over ranks
  for (const NamedTopology& topology : all_topologies(comm.size())) {
    for (const char* name : {"choco-sgd", "choco-sgd, combine first", "quant-sgp"}) {
      GossipScheme scheme = scheme_named(name);
      if (!fits(scheme, topology)) continue;
      scheme.momentum = scheme.weight_decay = 0;
      scheme.nesterov = false;
      for (const char* compressor_name : {"none", "topk", "qsgd"}) {
        const auto compressor = codec::make_compressor(compressor_name);
        const auto plan = pipeline::plan_buckets(layout, *compressor, gossip_plan());
        for (const double threshold : {0.3, 1.0, 2.0, 1000.0}) {
          INFO(name << " on " << topology.name << " with " << compressor_name << ", threshold "
                    << threshold);
          GossipRank rank(
              comm, scheme, usual_settings(scheme, *compressor, plan), *topology.made, *compressor,
              layout,
              {.plan = gossip_plan(), .mixer = {.events = {.threshold = threshold, .silence = 5}}});
          std::ranges::copy(start, rank.parameters().begin());
          rank.start();
          auto before = sums_over_ranks(comm, rank);
          for (std::size_t step = 0; step < 8; ++step) {
            // Ranks move by different amounts, so that their events differ.
            const auto turn = static_cast<std::size_t>(comm.rank()) + step;
            rank.step(0.05f, [&](auto z, auto g) {
              gradient_at(loss, z, g);
              const float factor = turn % 3 == 0 ? 4.0f : 0.5f;
              for (float& value : g) value *= factor;
            });
            auto after = sums_over_ranks(comm, rank);
            CHECK(relative_drift(before, after, 0.05f, comm.size()) < 1e-6);
            before = std::move(after);
          }
          const auto counts = rank.mixer().slice_counts().value();
          patterns[0] += static_cast<double>(counts.sent);
          patterns[1] += static_cast<double>(counts.left_out);
        }
      }
    }
  }
  CHECK(patterns[0] > 100);
  CHECK(patterns[1] > 100);
}

TEST_CASE("equal models stay equal for hundreds of mixes", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = layout_of({{3, 3}});
  const auto none = codec::make_compressor("none");
  for (const NamedTopology& topology : all_topologies(comm.size())) {
    for (const char* name : {"d-psgd", "sgp", "choco-sgd", "deep-squeeze"}) {
      GossipScheme scheme = scheme_named(name);
      if (!fits(scheme, topology)) continue;
      scheme.momentum = scheme.weight_decay = 0;
      scheme.nesterov = false;
      GossipRank rank(comm, scheme, {}, *topology.made, *none, layout, {.plan = gossip_plan()});
      std::ranges::fill(rank.parameters(), 1.7f);
      for (int i = 0; i < 250; ++i) rank.mix();
      INFO(name << " on " << topology.name);
      // The error of rounded weights that do not sum to 1 would accumulate 250 times.
      for (const float x : rank.parameters()) {
        CHECK(static_cast<double>(x) == Approx(1.7).epsilon(1e-6));
      }
    }
  }
}
