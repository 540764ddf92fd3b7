// SPDX-License-Identifier: Apache-2.0
// The receiver detects a byte that was changed or lost: in every collective, every kind of gossip
// and every message of the start.

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "codec/catalogue.hpp"
#include "collective/collective.hpp"
#include "pipeline/engine.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/gossip_cases.hpp"
#include "support/gossip_rank.hpp"
#include "support/mpi_world.hpp"
#include "support/shared_flag.hpp"
#include "sync/gossip/pairwise.hpp"
#include "sync/lazy_averaging.hpp"

using namespace eqt;
using comm::Communicator;
using pipeline::plan_buckets;

namespace {

constexpr Rank kDamager = 1;
constexpr StepId kStep = 7;

enum class Damage { none, flip, cut_one, cut_all };

/// Damages the `at`-th fragment that is sent.
class Damager final : public comm::SendHook {
 public:
  Damager(Damage damage, std::size_t at) : damage_(damage), at_(at) {}

  bool sends(Rank) override { return true; }
  std::optional<std::vector<std::byte>> replacement(std::span<const std::byte> fragment,
                                                    Rank) override {
    const std::size_t number = seen_++;
    if (damage_ == Damage::none || number < at_ || damaged_ || fragment.empty())
      return std::nullopt;
    damaged_ = true;
    std::vector<std::byte> forged(fragment.begin(), fragment.end());
    const std::size_t place = mix64(number) % forged.size();
    if (damage_ == Damage::flip) forged[place] ^= std::byte{1} << static_cast<int>(number % 8);
    if (damage_ == Damage::cut_one) forged.pop_back();
    if (damage_ == Damage::cut_all) forged.clear();
    return forged;
  }
  std::size_t seen() const { return seen_; }
  bool damaged() const { return damaged_; }

 private:
  Damage damage_;
  std::size_t at_, seen_ = 0;
  bool damaged_ = false;
};

struct Case {
  std::string name;
  std::function<void(Communicator&)> work;
  int ranks_per_host = 0;  // 0: all on one
  bool can_be_cut = true;
  bool frees_others = true;  // a rank that finds an error ends the waits of others
};

/// The result on a rank.
struct End {
  std::optional<Kind> kind;
  std::string sentence;
  std::size_t fragments = 0;  // that it sent
  bool damaged = false;
};

/// Keeps buffers that MPI may still write to after a rank has abandoned its messages.
template <typename T>
T& keep(std::shared_ptr<T> object) {
  static auto& kept = *new std::vector<std::shared_ptr<void>>();
  T& result = *object;
  kept.push_back(std::move(object));
  return result;
}

template <typename T>
T& kept(std::unique_ptr<T> object) {
  return keep(std::shared_ptr<T>(std::move(object)));
}

/// Runs a case on a communicator of its own.
End run(Communicator& control, test::SharedFlag& failed, const Case& of, Damage damage,
        std::size_t at) {
  if (control.rank() == 0) failed.lower();
  control.allgather(std::uint64_t{0});
  std::vector<int> hosts;
  for (int r = 0; of.ranks_per_host > 0 && r < control.size(); ++r) {
    hosts.push_back(r / of.ranks_per_host);
  }
  // Never freed: MPI would reuse the number of a freed communicator, and a new one would get
  // messages that were not received.
  Communicator& comm = keep(std::make_shared<Communicator>(test::session(), 30, hosts));
  Damager damager(damage, at);
  if (comm.rank() == kDamager) {
    comm.set_send_hook(&damager);
  }
  comm.set_step(kStep);
  End end;
  {
    const std::jthread guard([&](const std::stop_token& stop) {
      while (!stop.stop_requested() && !failed.is_up()) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      if (failed.is_up()) comm.cancel();
    });
    try {
      of.work(comm);
    } catch (const Error& error) {
      end.kind = error.kind();
      end.sentence = error.what();
      if (of.frees_others) failed.raise();
    }
  }
  comm.set_send_hook(nullptr);
  comm.set_timeout(0);
  end.fragments = damager.seen();
  end.damaged = damager.damaged();
  return end;
}

Layout test_layout() { return test::layout_of({{200, 300}, {300}, {64, 40}, {10}}); }

std::vector<float> values_of(Rank rank) {
  return test::gaussian(total_count(test_layout()),
                        {.run_seed = 5, .rank = static_cast<std::uint32_t>(rank)});
}

using Plan = std::vector<pipeline::FusionBucket>;
using MakeCollective = std::function<std::unique_ptr<collective::Collective>(
    Communicator&, const codec::Compressor&, const Plan&)>;
using MakeCompressor = std::function<std::unique_ptr<codec::Compressor>()>;

Case mean_by(const std::string& name, const MakeCompressor& make_compressor,
             const MakeCollective& make, int ranks_per_host = 0) {
  return {.name = name,
          .work =
              [=](Communicator& comm) {
                auto& compressor = kept(make_compressor());
                Plan& plan =
                    keep(std::make_shared<Plan>(plan_buckets(test_layout(), compressor, {})));
                auto& collective = kept(make(comm, compressor, plan));
                auto& values = keep(std::make_shared<std::vector<float>>(values_of(comm.rank())));
                for (const auto& bucket : plan) {
                  (void)mean_of(collective, comm, bucket,
                                {.run_seed = 1, .step = kStep, .density = {}}, values);
                }
              },
          .ranks_per_host = ranks_per_host};
}

/// The first compressor that shows a collective's own messages, or else the one that it carries.
std::unique_ptr<codec::Compressor> compressor_for(const collective::CollectiveRow& row) {
  for (const char* name : {"qsgd", "topk", "qsgd-v", "none"}) {
    auto compressor = codec::make_compressor(
        name, std::string_view(name) == "topk" ? codec::CompressorOptions{.density = 0.1}
                                               : codec::CompressorOptions{.bucket_size = 512});
    if (collective::why_not(row, *compressor).empty()) return compressor;
  }
  throw std::logic_error("no compressor for the collective " + std::string(row.name));
}

MakeCollective maker_of(const collective::CollectiveRow& row) {
  return [&row](Communicator& comm, const codec::Compressor& compressor, const Plan& plan) {
    return row.make({.comm = comm, .compressor = compressor, .plan = plan});
  };
}

std::vector<Case> collectives() {
  using namespace collective;
  std::vector<Case> cases;
  for (const Entry<CollectiveRow> entry : CollectiveRow::all()) {
    const CollectiveRow& row = *entry;
    // One is no collective, and the other's messages are MPI's own.
    if (entry == kAutomatic || entry == kMpiAllreduce) continue;
    cases.push_back(mean_by(
        std::string(row.name), [&row] { return compressor_for(row); }, maker_of(row)));
  }
  const auto none = [] { return codec::make_compressor("none"); };
  cases.push_back(mean_by("dense between hosts", none, maker_of(kDense), 1));
  cases.push_back(mean_by("allgather of float32", none, maker_of(kAllgather)));
  cases.push_back(mean_by(
      "hierarchical, hosts of two", [] { return compressor_for(kHierarchical); },
      maker_of(kHierarchical), 2));
  cases.push_back(mean_by(
      "power-sgd", [] { return codec::make_compressor("powersgd"); },
      [](auto& comm, auto&, auto& plan) {
        return make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
      }));
  cases.push_back(
      {.name = "laq", .work = [](Communicator& comm) {
         auto& values = keep(std::make_shared<std::vector<float>>(values_of(comm.rank())));
         auto& mean =
             keep(std::make_shared<sync::LazyMean>(comm, values.size(), sync::LazyMeanOptions{}));
         (void)mean.mean(kStep, values);
       }});
  return cases;
}

/// Two steps of gossip on a ring.
Case gossip_by(const std::string& scheme, const MakeCompressor& make_compressor,
               const sync::EventOptions& events = {}) {
  return {
      .name = events.threshold > 0 ? scheme + " with events" : scheme,
      .work = [=](Communicator& comm) {
        auto& compressor = kept(make_compressor());
        auto& ring = kept(test::make(topology::GraphKind::ring, comm.size()));
        auto& rank = keep(std::make_shared<test::GossipRank>(
            comm, test::scheme_named(scheme), test::GossipSettings{.gamma = 0.02, .damping = 0.1},
            ring, compressor, test_layout(), test::GossipSetup{.mixer = {.events = events}}));
        for (int step = 0; step < 2; ++step) rank.mix();
      }};
}

void meet_in_pairs(Communicator& comm) {
  if (comm.rank() > 1) return;
  auto& compressor = kept(codec::make_compressor("qsgd", {.bucket_size = 512}));
  Plan& plan = keep(std::make_shared<Plan>(plan_buckets(test_layout(), compressor, {})));
  auto& model = keep(std::make_shared<sync::SharedModel>(plan, total_count(test_layout())));
  auto& averaging = keep(std::make_shared<sync::PairwiseAveraging>(
      sync::PairwiseParts{comm, compressor, plan, model}, sync::PairwiseOptions{.run_seed = 3}));
  averaging.prepare(1 - comm.rank(), 0, 0, false);
  pipeline::Engine(comm, plan).run(averaging);
}

std::vector<Case> gossips() {
  const auto none = [] { return codec::make_compressor("none"); };
  const auto qsgd = [] { return codec::make_compressor("qsgd", {.bucket_size = 512}); };
  return {gossip_by("d-psgd", none),
          gossip_by("sgp", none),
          gossip_by("choco-sgd", qsgd),
          gossip_by("choco-sgd", qsgd, {.threshold = 1, .silence = 1}),
          gossip_by("quant-sgp", qsgd),
          gossip_by("deep-squeeze", qsgd),
          gossip_by("gradient-tracking", none),
          {.name = "pairs", .work = meet_in_pairs}};
}

/// The root sends without waiting, and every other rank finds the damage by itself.
Case from_root(const std::string& name, const std::function<void(Communicator&)>& work) {
  return {.name = name, .work = work, .can_be_cut = false, .frees_others = false};
}

std::vector<Case> starts() {
  return {
      from_root("broadcast of a number",
                [](Communicator& comm) {
                  std::uint64_t number = 12;
                  comm.broadcast(std::as_writable_bytes(std::span(&number, 1)), kDamager);
                }),
      from_root("broadcast of a text",
                [](Communicator& comm) { (void)comm.broadcast(std::string(99, 'x'), kDamager); }),
      from_root("allgather of a number",
                [](Communicator& comm) { (void)comm.allgather(std::uint64_t{12}); })};
}

/// How many ranks found the damage; each names sender and step.
std::size_t finders(Communicator& control, const End& end, bool knows_step) {
  if (end.kind == Kind::wire) {
    INFO(end.sentence);
    CHECK(test::says(end.sentence, "from rank 1"));
    CHECK(test::says(end.sentence, knows_step ? fmt::format("step {}: ", kStep) : "step "));
  } else if (end.kind) {
    INFO(end.sentence);
    CHECK(test::says(end.sentence, "given up because of another error"));
  }
  std::size_t found = 0;
  for (const auto kind : control.allgather(end.kind == Kind::wire ? 1u : 0u)) found += kind;
  return found;
}

void expect_found(const std::vector<Case>& cases, bool knows_step) {
  Communicator control(test::session(), 50);
  test::SharedFlag failed(control);
  for (const Case& of : cases) {
    INFO(of.name);
    const End sound = run(control, failed, of, Damage::none, 0);
    CHECK(!sound.kind.has_value());
    const auto fragments = control.allgather(std::uint64_t{sound.fragments})[kDamager];
    CHECK(fragments > 0);
    for (const std::size_t at : std::set<std::size_t>{0, fragments / 2, fragments - 1}) {
      for (const Damage damage : {Damage::flip, Damage::cut_one, Damage::cut_all}) {
        if (damage != Damage::flip && !of.can_be_cut) continue;
        INFO("fragment " << at << " of " << fragments << ", damage " << static_cast<int>(damage));
        const End end = run(control, failed, of, damage, at);
        const bool damaged = control.allgather(end.damaged ? 1u : 0u)[kDamager] != 0;
        // The last fragment may be an empty one, which holds nothing to damage.
        if (at + 1 < fragments || fragments == 1) CHECK(damaged);
        CHECK((finders(control, end, knows_step) > 0) == damaged);
      }
    }
  }
}

}  // namespace

TEST_CASE("every collective finds damaged messages", "[damage]") {
  expect_found(collectives(), true);
}

TEST_CASE("every kind of gossip finds damaged messages", "[damage]") {
  expect_found(gossips(), false);
}

TEST_CASE("messages of the start are checked, too", "[damage]") { expect_found(starts(), true); }
