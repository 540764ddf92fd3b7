// SPDX-License-Identifier: Apache-2.0
// Local SGD in rounds that need a quorum.
//
// Rounds   two of notes and that of the allgather, in each round of a quorum
// Sent     by each member the message of its difference to n - 1 ranks; notes of 24 + 8 n bytes
// State    3 models: r, p and what is to be subtracted, and the memory of the mean; with outer
//          momentum 1 more
// Source   Decoupled DiLoCo's coordinator; delayed averaging as in local_sgd.cpp

#include "sync/quorum/quorum_rounds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/divergence.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/own_pace.hpp"

namespace eqt::sync {
namespace {

class QuorumRounds final : public Synchronizer, private OwnPace {
 public:
  QuorumRounds(QuorumRoundsParts parts, QuorumRoundsOptions options)
      : p_(std::move(parts)),
        o_(std::move(options)),
        ranks_(static_cast<std::size_t>(p_.comm.size())),
        progress_({.rank = p_.comm.rank(),
                   .ranks = ranks_,
                   .values = p_.parameters.size(),
                   .local_steps = o_.local_steps,
                   .delay = o_.delay,
                   .outer = o_.outer,
                   .replay = replay()}),
        exchange_(
            {.comm = p_.comm,
             .mean = *p_.mean,
             .senders = p_.senders,
             .memory = p_.memory,
             .difference = p_.difference,
             .progress = progress_},
            {.rule = {.ranks = ranks_, .quorum = o_.quorum, .grace_seconds = o_.grace_seconds},
             .timeout_seconds = o_.timeout_seconds,
             .replay = replay(),
             .on_round = o_.on_round}),
        members_(ranks_),
        thread_(p_.comm, progress_, exchange_, o_.timeout_seconds) {}

  void start() override { progress_.start(p_.parameters); }

  void begin(StepId step, std::uint64_t) override {
    thread_.stop_watching();
    if (!thread_.runs()) {
      progress_.open(ranks_ * o_.next_pause(paused_));
      thread_.start();
    }
    thread_.rethrow();
    step_ = step;
    thread_.watch(step_);
  }

  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }

  /// While it waits for a round, other ranks' deadlines count, not this one's.
  SyncResult after_update(float) override {
    const bool waits = progress_.would_wait();
    if (waits) {
      thread_.stop_watching();
      p_.comm.end_heartbeat();
    }
    const bool has_new_difference = progress_.end_step(p_.parameters);
    if (waits) p_.comm.heartbeat("synchronization", true);
    thread_.rethrow();
    if (has_new_difference)
      require_finite(p_.layout, progress_.own(), 0, "the model's change", step_, p_.comm.rank(),
                     nullptr);
    thread_.watch(++step_);
    return result();
  }

  OwnPace* own_pace() override { return this; }

  void visit_state(StateVisitor& visitor) override {
    visitor.number("paused after", paused_, Across::same);
    visit_in(visitor, "progress", progress_);
    visit_in(visitor, "rounds", exchange_);
  }

 private:
  std::uint64_t steps_of_all_ranks() override { return progress_.counted(); }
  StepId own_steps() override { return progress_.own_steps(); }

  SyncResult end_epoch() override {
    thread_.finish();
    progress_.apply_rest(p_.parameters);
    std::vector<metrics::DecisionRecord> decisions = gather_decisions();
    SyncResult last;
    if (progress_.counted() >= ranks_ * o_.total_steps) last = average_all();
    paused_ = std::min(o_.next_pause(paused_), progress_.counted() / ranks_);
    last.add(result());
    std::string note = describe();
    if (p_.comm.rank() != 0) return last;
    last.decisions = std::move(decisions);
    last.note = std::move(note);
    return last;
  }

  const QuorumReplay* replay() const { return o_.replay ? &*o_.replay : nullptr; }

  SyncResult result() {
    const QuorumProgress::Taken taken = progress_.take();
    SyncResult result{.traffic = taken.traffic, .quantization_variance = taken.variance};
    result.rounds = taken.rounds;
    return result;
  }

  /// The last round of the run.
  SyncResult average_all() {
    const std::uint64_t own = progress_.make_last(p_.parameters, p_.difference);
    std::vector<std::uint64_t> counts = p_.comm.allgather(own);
    const std::uint64_t counted = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (counted == 0) counts.assign(ranks_, 1);
    SyncResult result = exchange_.average_all(progress_.rounds() + 1, counts);
    progress_.apply_last(p_.difference, counted, p_.parameters);
    return result;
  }

  /// Returns what rank 0 has closed, and when each rank has applied it.
  std::vector<metrics::DecisionRecord> gather_decisions() {
    std::vector<std::uint64_t> own;
    const std::vector<QuorumProgress::Applied> applied = progress_.take_applied();
    for (const QuorumProgress::Applied& round : applied) own.push_back(round.own_steps);
    const auto steps = p_.comm.allgather_lists<std::uint64_t>(own);
    const std::vector<QuorumExchange::Closed> closed = exchange_.take_closed();
    if (p_.comm.rank() != 0) return {};
    for (std::size_t r = 0; r < ranks_; ++r)
      if (steps[r].size() != closed.size())
        fail(Kind::wire, "rounds of rank {}: expected {} numbers of steps, found {}", r,
             closed.size(), steps[r].size());
    std::vector<metrics::DecisionRecord> decisions;
    for (std::size_t k = 0; k < closed.size(); ++k) {
      QuorumRound round{.round = applied.at(k).round,
                        .counts = {closed[k].counts.begin(), closed[k].counts.end()}};
      for (std::size_t r = 0; r < ranks_; ++r) {
        round.applied_after.push_back(static_cast<double>(steps[r][k]));
        if (closed[k].counts[r] > 0) ++members_[r];
      }
      decisions.push_back(to_decision(round, closed[k].waited_seconds));
    }
    rounds_ += closed.size();
    return decisions;
  }

  /// A note about the rounds since the run was started. Collective.
  std::string describe() {
    const std::vector<StepId> steps = p_.comm.allgather(progress_.own_steps());
    const auto [least, most] = std::ranges::minmax_element(steps);
    const std::uint64_t all = std::accumulate(steps.begin(), steps.end(), std::uint64_t{0});
    return fmt::format(
        "{} rounds of a quorum of {}; a rank was in {} of them; {} of {} steps have counted; steps "
        "so far from {} (rank {}) to {} (rank {})",
        rounds_, o_.quorum, fmt::join(members_, ", "), progress_.counted(), all, *least,
        least - steps.begin(), *most, most - steps.begin());
  }

  const QuorumRoundsParts p_;
  const QuorumRoundsOptions o_;
  const std::size_t ranks_;
  QuorumProgress progress_;
  QuorumExchange exchange_;
  StepId step_ = 0;
  StepId paused_ = 0;                   // steps of the mean rank at the last end of an epoch
  std::uint64_t rounds_ = 0;            // rank 0: since the start
  std::vector<std::uint64_t> members_;  // rank 0: rounds of each rank, likewise
  EpochThread<QuorumExchange> thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Synchronizer> make_quorum_rounds(QuorumRoundsParts parts,
                                                 QuorumRoundsOptions options) {
  return std::make_unique<QuorumRounds>(std::move(parts), std::move(options));
}

namespace {

/// Holds what rounds change from one to the next, and what averages them.
struct QuorumOwned {
  collective::Senders senders;
  std::optional<QuorumMemory> memory = {};  // empty: no error feedback
  std::unique_ptr<collective::Collective> collective;
  FlatBuffer difference;
};

/// The number of ranks is known here only.
void require_quorum(std::uint64_t quorum, std::uint64_t ranks) {
  if (quorum < (ranks + 1) / 2 || quorum > ranks)
    fail(Kind::usage,
         "synchronization.quorum: expected from {} to {}, at least half of the {} ranks, found {}",
         (ranks + 1) / 2, ranks, ranks, quorum);
}

}  // namespace

BuiltAlgorithm make_quorum(AlgorithmParts parts, const AlgorithmSettings& settings) {
  require_quorum(settings.quorum, static_cast<std::uint64_t>(parts.comm.size()));
  const auto owned = std::make_shared<QuorumOwned>();
  if (parts.memory != nullptr) owned->memory.emplace(*parts.memory);
  QuorumMemory* const memory = owned->memory ? &*owned->memory : nullptr;
  collective::Group group = collective::everyone(parts.comm);
  group.senders = &owned->senders;
  owned->collective =
      collective::make_allgather(parts.comm, parts.compressor, parts.buckets, std::move(group));
  owned->difference = FlatBuffer(parts.parameters.size());
  GradientAveragingOptions options = averaging_options(parts, settings);
  options.overlap = false;
  options.divergence = nullptr;
  const StepId local_steps = settings.rounds.local_steps;
  options.fault = fault_in_round(options.fault, local_steps);
  const std::span<float> difference = owned->difference.span();
  return {.owned = owned,
          .synchronizer = make_quorum_rounds(
              {.comm = parts.comm,
               .mean = make_gradient_averaging(parts.comm, *owned->collective, memory,
                                               std::move(parts.buckets), parts.layout, difference,
                                               options),
               .senders = owned->senders,
               .memory = memory,
               .parameters = parts.parameters,
               .difference = difference,
               .layout = parts.layout},
              {.local_steps = local_steps,
               .delay = settings.rounds.delay.value_or(automatic_delay(local_steps)),
               .quorum = settings.quorum,
               .grace_seconds = settings.grace_seconds,
               .outer = settings.outer,
               .total_steps = settings.rounds.total_steps,
               .next_pause = settings.next_pause,
               .timeout_seconds = settings.timeout_seconds,
               .replay = settings.replay}),
          .collective = std::string(owned->collective->name())};
}

}  // namespace eqt::sync
