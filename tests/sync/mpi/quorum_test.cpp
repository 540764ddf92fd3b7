// SPDX-License-Identifier: Apache-2.0
// Rounds of a quorum: equal to delayed local SGD where all ranks are members, to a simulation of
// all ranks where some are left out, and repeatable.

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "support/quorum_case.hpp"
#include "sync/local_sgd.hpp"

using namespace eqt;
using namespace eqt::test::quorum;

namespace {

/// Local SGD with a delay for so many steps.
std::vector<float> delayed(comm::Communicator& comm, const codec::Compressor& compressor,
                           const Settings& settings, StepId steps) {
  std::vector<float> parameters = start_values();
  const FlatBuffer difference(kValues), gradient(kValues);
  auto buckets = pipeline::plan_buckets(kLayout, compressor, {.skip_below = 1, .bucket_bytes = 4});
  const auto collective = collective::make_allgather(comm, compressor, buckets);
  const auto memory =
      compressor.properties().needs_feedback ? collective::make_error_feedback(kValues) : nullptr;
  sync::GradientAveragingOptions options;
  options.overlap = false;
  const auto synchronizer = sync::make_local_sgd(
      {.comm = comm,
       .mean = sync::make_fragment_averaging(comm, *collective, memory.get(), std::move(buckets), 1,
                                             kLayout, difference.span(), options),
       .parameters = parameters,
       .gradient = gradient.span(),
       .difference = difference.span(),
       .layout = kLayout},
      {.local_steps = settings.local_steps, .total_steps = steps, .delay = settings.delay},
      settings.outer);
  for (StepId step = 0; step < steps; ++step) {
    synchronizer->begin(step, 0);
    (void)synchronizer->finish();
    for (std::size_t i = 0; i < kValues; ++i)
      parameters[i] =
          static_cast<float>(step_of(static_cast<double>(parameters[i]), i, comm.rank(), step));
    (void)synchronizer->after_update(0.1f);
  }
  return parameters;
}

std::uint64_t hash_of(std::span<const float> values) {
  return XXH3_64bits(values.data(), values.size_bytes());
}

bool same_everywhere(comm::Communicator& comm, std::uint64_t value) {
  const auto all = comm.allgather(value);
  return std::ranges::count(all, all[0]) == std::ssize(all);
}

/// Rank 0's decisions, as rounds, on every rank.
sync::QuorumReplay rounds_of(comm::Communicator& comm, const Node& node) {
  std::string text;
  for (const metrics::DecisionRecord& decision : node.decisions()) {
    text += fmt::format("{}", decision.step);
    for (const double value : decision.values) text += fmt::format(" {:.0f}", value);
    text += '\n';
  }
  std::istringstream lines(comm.broadcast(text, 0));
  std::vector<metrics::DecisionRecord> decisions;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    metrics::DecisionRecord decision;
    decision.kind = sync::kQuorumDecisions;
    words >> decision.step;
    for (double value = 0; words >> value;) decision.values.push_back(value);
    decisions.push_back(decision);
  }
  return {decisions, static_cast<std::size_t>(comm.size())};
}

std::vector<StepId> steps_of(comm::Communicator& comm, const Node& node) {
  return comm.allgather(node.own());
}

/// What holds for every run: r is the same after each round, all steps have counted, and the
/// simulation ends with the same model.
void check_run(comm::Communicator& comm, Node& node, const Settings& settings) {
  for (const std::vector<float>& common : node.commons())
    CHECK(same_everywhere(comm, hash_of(common)));
  CHECK(same_everywhere(comm, hash_of(node.parameters())));
  const std::vector<StepId> steps = steps_of(comm, node);
  std::uint64_t all = 0;
  for (const StepId own : steps) all += own;
  CHECK(node.synchronizer().own_pace()->steps_of_all_ranks() == all);
  const sync::QuorumReplay rounds = rounds_of(comm, node);
  REQUIRE(rounds.last() == node.commons().size());
  Simulation simulation(static_cast<std::size_t>(comm.size()), settings, rounds);
  const Simulation::Model expected = simulation.run(steps);
  CHECK(simulation.counts_hold());
  double largest = 0;
  for (std::size_t i = 0; i < kValues; ++i)
    largest = std::max(largest, std::abs(expected[i] - static_cast<double>(node.parameters()[i])));
  CHECK(largest < 2e-5);
}

/// Keeps all values, then gives them back in the same order.
struct Memory final : StateVisitor {
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<std::uint64_t>> counts;
  std::array<std::size_t, 3> next = {};
  bool restoring = false;

  template <typename Value>
  void visit(std::vector<std::vector<Value>>& kept, std::size_t& at, std::span<Value> values) {
    if (restoring)
      std::ranges::copy(kept.at(at++), values.begin());
    else
      kept.emplace_back(values.begin(), values.end());
  }
  void values(std::string_view, std::span<float> values, Across) override {
    visit(floats, next[0], values);
  }
  void doubles(std::string_view, std::span<double> values, Across) override {
    visit(reals, next[1], values);
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    visit(counts, next[2], values);
  }
  void placed(std::string_view, std::span<float> values,
              const std::function<std::vector<SliceRange>()>&) override {
    visit(floats, next[0], values);
  }
  bool restores() const noexcept override { return restoring; }
  void enter(std::string_view) override {}
  void leave() override {}
};

/// The last rank is six times as slow as the others.
double uneven_seconds(int rank, int ranks) { return rank == ranks - 1 ? 0.012 : 0.002; }

}  // namespace

TEST_CASE("a quorum of all ranks is delayed local SGD, bit for bit", "[quorum]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  const auto sparse = codec::make_compressor("topk", {.density = 0.2});
  for (const codec::Compressor* compressor : {none.get(), coarse.get(), sparse.get()}) {
    for (const StepId delay : {1u, 3u, 4u}) {
      CAPTURE(codec::codec_name(compressor->id()), delay);
      const Settings settings{.delay = delay,
                              .quorum = static_cast<std::size_t>(comm.size()),
                              .outer = {.learning_rate = 0.7f, .momentum = 0.5f, .nesterov = true},
                              .epoch_steps = delay == 3 ? StepId{6} : StepId{18}};
      Node node(comm, *compressor, settings);
      node.run();
      // Rounds of 4 steps until they have 18 or more; the mean of the last one comes `delay` later.
      CHECK(node.own() == 20 + delay);
      CHECK(same_everywhere(comm, node.own()));
      CHECK(node.parameters() == delayed(comm, *compressor, settings, node.own()));
    }
  }
}

TEST_CASE("nobody waits for a slow rank, and its progress counts", "[quorum]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() < 3) return;
  const auto none = codec::make_compressor("none");
  for (const StepId delay : {2u, 4u}) {
    Settings settings{
        .delay = delay,
        .quorum = static_cast<std::size_t>(comm.size() - 1),
        .grace_seconds = 0.001,
        .outer = {.learning_rate = 0.7f, .momentum = 0.5f},
        .total_steps = 60,
        .epoch_steps = 25,
        .seconds = [&](int rank, StepId) { return uneven_seconds(rank, comm.size()); }};
    Node node(comm, *none, settings);
    node.run();
    check_run(comm, node, settings);
    // The slow rank takes fewer steps than the others.
    const std::vector<StepId> steps = steps_of(comm, node);
    CHECK(steps.back() < steps.front());
    const sync::QuorumReplay rounds = rounds_of(comm, node);
    std::size_t without = 0, in_a_row = 0, longest = 0;
    for (std::uint64_t k = 1; k <= rounds.last(); ++k) {
      const bool member = rounds.at(k).counts.back() > 0;
      without += !member;
      in_a_row = member ? 0 : in_a_row + 1;
      longest = std::max(longest, in_a_row);
    }
    CHECK(without > 0);
    CHECK(without < rounds.last());
    CHECK(longest <= sync::kMostMissedRounds);
  }
}

TEST_CASE("a rank that is far behind is waited for after eight rounds", "[quorum]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 3) return;
  const auto none = codec::make_compressor("none");
  Settings settings{.local_steps = 2,
                    .delay = 2,
                    .quorum = 2,
                    .grace_seconds = 0.0,
                    .total_steps = 40,
                    .epoch_steps = 40,
                    .seconds = [](int rank, StepId) { return rank == 2 ? 0.2 : 0.001; }};
  Node node(comm, *none, settings);
  node.run();
  check_run(comm, node, settings);
  const sync::QuorumReplay rounds = rounds_of(comm, node);
  std::size_t in_a_row = 0, longest = 0;
  for (std::uint64_t k = 1; k <= rounds.last(); ++k) {
    in_a_row = rounds.at(k).counts[2] > 0 ? 0 : in_a_row + 1;
    longest = std::max(longest, in_a_row);
  }
  // In the time of one of its rounds the others could have taken 400 steps.
  CHECK(longest == sync::kMostMissedRounds);
}

TEST_CASE("the masks of a run lead to the same bits again", "[quorum]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() < 3) return;
  const auto sparse = codec::make_compressor("topk", {.density = 0.2});
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  for (const codec::Compressor* compressor : {sparse.get(), coarse.get()}) {
    CAPTURE(codec::codec_name(compressor->id()));
    Settings settings{
        .delay = 3,
        .quorum = static_cast<std::size_t>(comm.size() - 1),
        .grace_seconds = 0.001,
        .outer = {.learning_rate = 0.7f, .momentum = 0.5f},
        .total_steps = 40,
        .epoch_steps = 15,
        .seconds = [&](int rank, StepId) { return uneven_seconds(rank, comm.size()); }};
    Node first(comm, *compressor, settings);
    first.run();
    // Now the first rank is the slow one.
    settings.replay = rounds_of(comm, first);
    settings.seconds = [&](int rank, StepId) {
      return uneven_seconds(comm.size() - 1 - rank, comm.size());
    };
    Node second(comm, *compressor, settings);
    second.run();
    CHECK(second.parameters() == first.parameters());
    CHECK(second.own() == first.own());
    CHECK(second.commons() == first.commons());
    bool equal = first.decisions().size() == second.decisions().size();
    for (std::size_t k = 0; equal && k < first.decisions().size(); ++k)
      equal = first.decisions()[k].values == second.decisions()[k].values;
    CHECK(equal);
  }
}

TEST_CASE("a state between epochs is complete", "[quorum]") {
  comm::Communicator comm(test::session(), 30);
  const auto sparse = codec::make_compressor("topk", {.density = 0.2});
  const Settings settings{.delay = 4,
                          .quorum = static_cast<std::size_t>(comm.size()),
                          .outer = {.learning_rate = 0.7f, .momentum = 0.5f},
                          .total_steps = 30,
                          .epoch_steps = 13};
  Memory memory;
  Node whole(comm, *sparse, settings), begun(comm, *sparse, settings),
      resumed(comm, *sparse, settings);
  whole.run();
  begun.start();
  CHECK(begun.epoch());
  begun.synchronizer().visit_state(memory);
  memory.restoring = true;
  resumed.parameters() = begun.parameters();
  resumed.synchronizer().visit_state(memory);
  CHECK(resumed.synchronizer().own_pace()->own_steps() == begun.own());
  resumed.go_to(begun.own(), begun.done());
  while (resumed.epoch()) {
  }
  CHECK(resumed.parameters() == whole.parameters());
}

TEST_CASE("rank 0 closes rounds by its rule", "[quorum]") {
  sync::QuorumCoordinator coordinator(
      {.ranks = 4, .quorum = 3, .grace_seconds = std::optional<double>(2.0)});
  using Counts = std::vector<std::uint64_t>;
  coordinator.open(100);
  coordinator.ready(0, 4, 101);
  coordinator.ready(2, 4, 102);
  CHECK_FALSE(coordinator.close(150));
  coordinator.ready(3, 5, 103);
  CHECK_FALSE(coordinator.close(104.9));
  const auto closing = coordinator.close(105.1);
  REQUIRE(closing);
  CHECK(closing->counts == Counts{4, 0, 4, 5});
  CHECK(closing->waited_seconds == Approx(2.1));
  // All are ready: no grace.
  for (const Rank rank : {0, 1, 2, 3}) coordinator.ready(rank, 4, 110);
  REQUIRE(coordinator.close(110));
  // A rank that is late for one round is in the next.
  for (const Rank rank : {0, 1, 2}) coordinator.ready(rank, 4, 120);
  REQUIRE(coordinator.close(122));
  coordinator.ready(3, 4, 123);
  for (const Rank rank : {0, 1}) coordinator.ready(rank, 4, 124);
  REQUIRE(coordinator.close(126)->counts == Counts{4, 4, 0, 4});
  // Starvation: after eight rounds without it a rank is waited for.
  double now = 200;
  coordinator.ready(2, 4, now);
  for (int missed = 0; missed < 8; ++missed) {
    for (const Rank rank : {0, 1, 2}) coordinator.ready(rank, 4, now);
    REQUIRE(coordinator.close(now += 3)->counts == Counts{4, 4, 4, 0});
  }
  for (const Rank rank : {0, 1, 2}) coordinator.ready(rank, 4, now);
  CHECK_FALSE(coordinator.close(now += 1000));
  coordinator.ready(3, 1, now);
  CHECK(coordinator.close(now)->counts == Counts{4, 4, 4, 1});
}

TEST_CASE("the usual time of grace is a quarter of the last round's", "[quorum]") {
  sync::QuorumCoordinator coordinator({.ranks = 3, .quorum = 2});
  coordinator.open(0);
  for (const Rank rank : {0, 1}) coordinator.ready(rank, 1, 8);
  CHECK_FALSE(coordinator.close(9.9));
  REQUIRE(coordinator.close(10));  // the quorum took 8 s
  for (const Rank rank : {0, 1}) coordinator.ready(rank, 1, 14);
  CHECK_FALSE(coordinator.close(16.4));  // the last round took 10 s
  CHECK(coordinator.close(16.5));
}

TEST_CASE("notes of a quorum are checked", "[quorum]") {
  const sync::QuorumNote note{
      .kind = sync::QuorumNoteKind::close, .round = 7, .counts = {4, 0, 12}};
  std::vector<std::byte> bytes(sync::quorum_note_bytes(3));
  CHECK(bytes.size() == 24 + 3 * 8);
  sync::write_quorum_note(note, bytes);
  sync::QuorumNote read;
  sync::read_quorum_note(bytes, 3, read);
  CHECK(read.kind == note.kind);
  CHECK(read.round == 7);
  CHECK(read.counts == note.counts);
  const auto refused = [&](std::size_t at, int value, std::string_view what) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] = static_cast<std::byte>(value);
    CHECK_THROWS_WITH(sync::read_quorum_note(damaged, 3, read),
                      Catch::Matchers::ContainsSubstring(std::string(what)));
  };
  refused(0, 1, "magic number");
  refused(4, 2, "version 1, found 2");
  refused(5, 0, "kind from 1 to 5, found 0");
  refused(5, 6, "kind from 1 to 5, found 6");
  refused(6, 1, "zero bytes");
  refused(8, 4, "ranks 3, found 4");
  refused(13, 1, "zero bytes");
  refused(23, 1, "a round of at most");
  refused(31, 1, "a count of at most");
  CHECK_THROWS_WITH(sync::read_quorum_note(std::span(bytes).first(40), 3, read),
                    Catch::Matchers::ContainsSubstring("bytes 48, found 40"));
  sync::write_quorum_note({.kind = sync::QuorumNoteKind::close, .round = 7, .counts = {0, 0, 0}},
                          bytes);
  CHECK_THROWS_WITH(sync::read_quorum_note(bytes, 3, read),
                    Catch::Matchers::ContainsSubstring("members of round 7, found none"));
}

TEST_CASE("rounds of another run are refused", "[quorum]") {
  metrics::DecisionRecord decision;
  decision.step = 1;
  decision.values = {4, 0, 9, 9};
  CHECK(sync::QuorumReplay({decision}, 2).applied_after(1, 9) == 1);
  CHECK(sync::QuorumReplay({decision}, 2).applied_after(1, 8) == 0);
  const auto refused = [&](std::size_t ranks, std::string_view what) {
    CHECK_THROWS_WITH(sync::QuorumReplay({decision}, ranks),
                      Catch::Matchers::ContainsSubstring(std::string(what)));
  };
  refused(3, "6 counts of 3 ranks for round 1, found 4 values");
  decision.values[0] = 0.5;
  refused(2, "counts");
  decision.values = {0, 0, 9, 9};
  refused(2, "an empty round 1");
  decision.values = {4, 4, 9, 9};
  decision.step = 2;
  refused(2, "expected round 1");
}
