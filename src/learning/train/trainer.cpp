// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/signals.hpp"
#include "core/error.hpp"
#include "sync/edge_count.hpp"

namespace eqt::train {
namespace {

Replicas replicas_of(const Plan& plan) {
  if (plan.replicas_equal) return Replicas::equal;
  return plan.synchronizes ? Replicas::mixed : Replicas::alone;
}

/// Every rank gets rank 0's values. Collective.
class FromRankZero final : public StateVisitor {
 public:
  explicit FromRankZero(comm::Communicator& comm) : comm_(comm) {}
  void values(std::string_view, std::span<float> values, Across) override { share(values); }
  void doubles(std::string_view, std::span<double> values, Across) override { share(values); }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    share(values);
  }
  void placed(std::string_view name, std::span<float>,
              const std::function<std::vector<SliceRange>()>&) override {
    fail(Kind::bug, "{}: a replica is not placed", name);
  }
  bool restores() const noexcept override { return true; }
  void enter(std::string_view) override {}
  void leave() override {}

 private:
  template <typename T>
  void share(std::span<T> values) {
    comm_.broadcast(std::as_writable_bytes(values), 0);
  }
  comm::Communicator& comm_;
};

}  // namespace

Trainer::Trainer(const Parts& parts, const Plan& plan)
    : p_(parts),
      plan_(plan),
      phase_(parts.comm, parts.timeline),
      statistics_(parts.comm, parts.sink,
                  {.batch_size = plan.batch_size,
                   .values = parts.replica.gradient().size(),
                   .workers = parts.workers == nullptr ? 0 : parts.workers->count(),
                   .synchronizes = plan.synchronizes,
                   .asynchronous = plan.asynchronous,
                   .by_rank = parts.timeline != nullptr && parts.workers == nullptr,
                   .own_batches = parts.balancer != nullptr,
                   .measures = plan.measures}),
      evaluator_(parts.comm, parts.replica, parts.test_set, replicas_of(plan), parts.workers,
                 plan.measures.sums()),
      health_check_(parts.comm, plan.paranoid || may_go_back()),
      accumulation_(parts.replica, plan.accumulate),
      selection_({.early_stopping = plan.early_stopping, .keeps_best = plan.keeps_best}) {
  if (plan.ema > 0) average_.emplace(plan.ema);
  accumulation_.set_weight(plan.loss_weight(0));
  evaluator_.weigh_buffers(plan.buffer_weights);
  if (may_go_back())
    accumulation_.on_divergence([this](const Error& error) {
      p_.divergence->found(fmt::format("rank {}: {}", p_.comm.rank(), error.what()));
    });
  if (plan.own_test_set) evaluator_.use_own_test_set();
  evaluator_.use_views(plan.test_views, plan.measures);
  evaluator_.use_test_batch(test_batch_of(
      *plan.measures.task, static_cast<std::size_t>(plan.batch_size) / plan.accumulate));
  if (parts.comm.rank() == 0) {
    evaluator_.on_progress([this](std::size_t done, std::size_t samples) {
      p_.sink.write(metrics::EvaluationProgress{plan_.epoch_of(done_ - 1) + 1, done, samples});
    });
  }
  if (p_.checkpointer != nullptr)
    p_.checkpointer->attach([this](StateVisitor& visitor) { visit_state(visitor); });
}

metrics::Summary Trainer::run() {
  begin();
  if (plan_.asynchronous) {
    run_asynchronously();
  } else {
    run_in_step();
  }
  // There is no step left after which a signal could stop the run, so it waits until results are
  // written.
  if (comm::meaning_of_signals() == comm::OnSignal::finish_step)
    comm::note_signals(comm::OnSignal::finish_writing);
  enter(phases::kFinishing);
  if (p_.checkpointer != nullptr) p_.checkpointer->finish();
  enter(phases::kComparing);

  metrics::Summary summary = statistics_.summary();
  summary.parameters = p_.replica.parameters().size();
  const std::uint64_t hash = parameter_hash();
  summary.parameter_hash = fmt::format("{:016x}", hash);
  if (plan_.replicas_equal || plan_.ends_equal) {
    const auto hashes = p_.comm.allgather(hash);
    summary.replicas_identical = std::ranges::count(hashes, hashes[0]) == std::ssize(hashes);
  }
  summary.sent_bytes_by_edge = sync::gather_edges(p_.comm, p_.synchronizer.sent_bytes_by_peer());
  summary.wall_seconds = wall_before_ + wall_.seconds();
  phase_.leave();
  return summary;
}

void Trainer::run_in_step() {
  while (done_ < plan_.total_steps || epoch_open_) {
    if (!epoch_open_) {
      const StepOutcome outcome = train_step({.own = done_, .common = done_});
      own_ = ++done_;
      epoch_open_ = plan_.ends_epoch(done_);
      if (sync::LateExchange* const late = p_.synchronizer.late();
          late != nullptr && (epoch_open_ || plan_.saves_after(done_)))
        late->settle();
      if (!check_health_after_step(outcome)) continue;
    }
    if (epoch_open_ && !finish_epoch()) continue;
    save_if_due();
    save_in_memory_if_due();
  }
}

/// Fast ranks take more of an epoch's steps than slow ones, but each rank takes at least one.
void Trainer::run_asynchronously() {
  while (done_ < plan_.total_steps || epoch_open_) {
    if (!epoch_open_) {
      const StepId before = done_;  // a rank may be told to stop before the common step moves
      train_until_pause();
      epoch_open_ = done_ > before && plan_.ends_epoch(done_);
      check_health_now();
    }
    if (epoch_open_ && !finish_epoch()) continue;
    save_if_due();
    save_in_memory_if_due();
  }
}

void Trainer::train_until_pause() {
  const auto ranks = static_cast<std::uint64_t>(p_.comm.size());
  const StepId end = plan_.next_pause(done_);
  do {
    train_step({.own = own_++, .common = done_});
    done_ = std::min(end, pace().steps_of_all_ranks() / ranks);
  } while (done_ < end && !p_.comm.knows_of_stop());
  enter(phases::kWaitingForSteps);
  const sync::SyncResult rest = pace().end_epoch();
  phase_.leave();
  done_ = std::min(end, pace().steps_of_all_ranks() / ranks);
  statistics_.note_wait(rest, phase_.take_seconds().transfer);
  write_results(rest, done_);
}

/// Tells all that ask what this rank does from now on. A fault for tests may happen here.
/// @param step of the fault
void Trainer::enter(const Phase& phase, StepId step) {
  phase_.enter(phase);
  if (phase.fault) inject_fault(*phase.fault, step);
}

/// Writes what a synchronization tells besides its costs.
void Trainer::write_results(const sync::SyncResult& result, StepId step) {
  if (result.note) p_.sink.write(metrics::NoteRecord{.step = step, .text = *result.note});
  for (const metrics::DecisionRecord& decision : result.decisions) p_.sink.write(decision);
  if (result.noise) p_.sink.write(*result.noise);
  if (result.profile) p_.sink.write(*result.profile);
}

/// True if the communication thread calls MPI now.
bool Trainer::messages_under_way() const {
  const sync::LateExchange* const late = p_.synchronizer.late();
  return late != nullptr && late->is_under_way();
}

void Trainer::begin() {
  EQT_CHECK(!may_go_back() || p_.checkpointer != nullptr, "a rollback without checkpoints");
  enter(phases::kStart);
  begin_timeline();
  if (!plan_.resumes) {
    share_initial_state();
    if (p_.balancer != nullptr) weigh_batches();  // the loader has them already
    if (average_) average_->start(p_.replica);
    if (may_go_back()) p_.checkpointer->save_and_wait(0);
    return;
  }
  const std::optional<StepId> done = p_.checkpointer->restore_newest();
  EQT_CHECK(done.has_value(), "nothing to resume from");
  if (selection_.has_stopped()) {
    if (*done < plan_.total_steps) say_that_it_has_stopped(*done);
    plan_.total_steps = *done;
    plan_.ends_equal = false;  // as in select()
  }
  go_to(*done);
  final_rounds_done_ &= done_ == plan_.total_steps;  // a run that is made longer ends again
  if (done_ < plan_.total_steps || epoch_open_) return;
  // A run that was to be longer may have been within an epoch, which is closed here.
  epoch_open_ = statistics_.has_open_epoch();
  if (!epoch_open_) measure_again();
}

void Trainer::say_that_it_has_stopped(StepId done) {
  if (p_.comm.rank() != 0) return;
  p_.sink.write(metrics::NoteRecord{
      .step = done,
      .text = fmt::format("no step is left: train.early_stopping ended the run, whose best test "
                          "result is that of epoch {}; a longer run needs another --out",
                          selection_.best_epoch())});
}

/// Measures the model of a run that has no step left, for its summary.
void Trainer::measure_again() {
  if (plan_.emulated || !plan_.evaluates_after(done_)) return;
  enter(phases::kEvaluating, done_);
  exchange_with_average();
  const Assessment assessment = evaluator_.assess(true, model_weight());
  exchange_with_average();
  if (assessment.model) statistics_.note_metrics(*assessment.model);
  phase_.leave();
}

/// Continues after `done` steps, with the restored state.
void Trainer::go_to(StepId done) {
  done_ = done;
  own_ = plan_.asynchronous ? pace().own_steps() : done;
  seek(own_);
}

/// The next batch is the one after this rank's `own` steps.
void Trainer::seek(StepId own) {
  const StepId position = plan_.position(own);
  const std::uint64_t epoch = position / plan_.steps_per_epoch;
  const auto batch = static_cast<std::size_t>(position % plan_.steps_per_epoch) * plan_.accumulate;
  if (p_.workers != nullptr) p_.workers->seek(epoch, batch);
  if (p_.balancer != nullptr) return take_batches(epoch, batch);
  if (p_.batches != nullptr) p_.batches->seek(epoch, batch);
}

void Trainer::save_if_due() {
  if (p_.checkpointer == nullptr || !plan_.saves_after(done_)) return;
  enter(phases::kSaving, done_);
  if (!may_save()) return;
  p_.checkpointer->save(done_);
  phase_.leave();
}

void Trainer::save_in_memory_if_due() {
  if (!memory_due_) return;
  enter(phases::kSavingInMemory);
  const bool saves = may_save();
  memory_due_ = false;
  if (!saves) return;
  p_.checkpointer->save_in_memory(done_);
  phase_.leave();
}

/// Returns false if all ranks have gone back to an earlier step.
/// @throws Error{diverged} if the model is not finite: no run could continue from it
bool Trainer::may_save() {
  require_finite_model(done_);
  return !may_go_back() || check_health_now();
}

void Trainer::visit_state(StateVisitor& visitor) {
  visit_in(visitor, "ledger", statistics_);  // its name in the files of checkpoints
  const Across models = plan_.replicas_equal ? Across::same
                        : plan_.synchronizes ? Across::mean
                                             : Across::own;
  visitor.enter("run");
  // Position in the data and weight of the model, for a run that resumes with another number of
  // ranks.
  std::array<std::uint64_t, 3> data = {plan_.position(done_) / plan_.steps_per_epoch,
                                       plan_.position(done_) % plan_.steps_per_epoch,
                                       plan_.steps_per_epoch};
  double weight = model_weight();
  double wall = wall_before_ + wall_.seconds();
  visitor.numbers("epoch, batch, batches", data, Across::fresh);
  visitor.real("weight", weight, Across::fresh);
  visitor.real("wall seconds", wall, Across::same);
  visitor.real("rate factor", rate_factor_, Across::same);
  std::array<std::uint64_t, 3> flags = {rollbacks_, epoch_open_ ? 1u : 0u,
                                        final_rounds_done_ ? 1u : 0u};
  visitor.numbers("rollbacks, epoch open, mixed", flags, Across::same);
  visitor.leave();
  if (visitor.restores()) {
    rollbacks_ = flags[0];
    epoch_open_ = flags[1] != 0;
    final_rounds_done_ = flags[2] != 0;
  }
  if (visitor.restores()) wall_before_ = wall - wall_.seconds();
  visitor.enter("replica");
  p_.replica.visit_state(visitor, models);
  visitor.leave();
  if (p_.workers != nullptr) visit_in(visitor, "workers", *p_.workers);
  if (average_) {
    visitor.enter("weight average");
    average_->visit_state(visitor, p_.replica, models);
    visitor.leave();
  }
  if (selection_.is_on()) visit_in(visitor, "selection", selection_);
  visitor.enter("optimizer");
  p_.optimizer.visit_state(visitor, models);
  visitor.leave();
  visit_in(visitor, "synchronizer", p_.synchronizer);
  if (p_.balancer != nullptr) visit_in(visitor, "batches", *p_.balancer);
}

void Trainer::share_initial_state() {
  FromRankZero visitor(p_.comm);
  p_.replica.visit_state(visitor, Across::same);
  p_.synchronizer.start();
}

/// Returns false if all ranks have gone back to an earlier step.
bool Trainer::finish_epoch() {
  phase_.leave();
  if (!plan_.asynchronous && !check_health_now()) return false;
  if (done_ == plan_.total_steps && !final_rounds_done_) run_final_rounds();
  enter(phases::kEvaluating, done_);
  const Assessment assessment = assess();
  if (assessment.abandoned && !check_health_now()) return false;
  require_finite_assessment(assessment);
  if (plan_.replicas_equal) compare_replicas();
  enter(phases::kEpochRecords);
  statistics_.close_epoch(plan_.epoch_of(done_ - 1) + 1, done_, assessment);
  write_timeline();
  phase_.leave();
  epoch_open_ = false;
  return true;
}

/// Rounds of gossip without training, to bring the models closer.
void Trainer::run_final_rounds() {
  if (plan_.final_rounds == 0) return;
  const Stopwatch clock;
  const std::uint64_t epoch = plan_.epoch_of(plan_.total_steps - 1);
  sync::ModelMixing* const mixing = p_.synchronizer.mixing();
  EQT_CHECK(mixing != nullptr, "rounds of an algorithm that mixes no models");
  sync::SyncResult result;
  for (std::uint64_t round = 0; round < plan_.final_rounds; ++round) {
    const StepId step = plan_.total_steps + round;
    p_.comm.set_step(step);
    result.add(mixing->mix_only(step, epoch));
  }
  final_rounds_done_ = true;
  const std::uint64_t sent = statistics_.note_rounds(plan_.final_rounds, result.traffic);
  if (p_.comm.rank() != 0) return;
  p_.sink.write(metrics::NoteRecord{
      .step = plan_.total_steps,
      .text = fmt::format("{} rounds of gossip alone after the last step sent {} bytes in {:.2f} s",
                          plan_.final_rounds, sent, clock.seconds())});
}

void Trainer::adopt_result() {
  exchange_with_average();
  if (!plan_.emulated) evaluator_.adopt_mean(model_weight());
}

/// Returns the weight of this rank's model in the mean of all models.
double Trainer::model_weight() const {
  const sync::ModelMixing* const mixing = p_.synchronizer.mixing();
  return mixing != nullptr ? mixing->weight() : 1;
}

sync::OwnPace& Trainer::pace() const {
  sync::OwnPace* const pace = p_.synchronizer.own_pace();
  EQT_CHECK(pace != nullptr, "an asynchronous plan of an algorithm in step");
  return *pace;
}

std::uint64_t Trainer::parameter_hash() {
  const auto parameters = p_.replica.parameters();
  return XXH3_64bits(parameters.data(), parameters.size_bytes());
}

/// Exchanges the weights with their moving average, if there is one.
void Trainer::exchange_with_average() {
  if (average_) average_->exchange_with(p_.replica);
}

/// Assesses the model that the run would leave now.
Assessment Trainer::assess() {
  Assessment assessment;
  if (!plan_.emulated) {  // collective: all ranks share the plan
    exchange_with_average();
    assessment = evaluator_.assess(plan_.evaluates_after(done_), model_weight());
    select(assessment);
    exchange_with_average();
  }
  if (plan_.replicas_equal && !assessment.abandoned) assessment.replicas_identical = true;
  return assessment;
}

/// Keeps the weights of the best evaluation and decides whether to stop: the same on all ranks.
void Trainer::select(const Assessment& assessment) {
  if (!assessment.model || !std::isfinite(assessment.model->loss_sum)) return;
  const std::uint64_t epoch = plan_.epoch_of(done_ - 1) + 1;
  const Selection::Verdict verdict =
      selection_.note(epoch, score_of(plan_.measures, *assessment.model));
  if (verdict.is_best && plan_.keeps_best) keep_best();
  if (!verdict.stop || done_ == plan_.total_steps) return;
  plan_.total_steps = done_;
  plan_.ends_equal = false;  // an average that was due later is not made
  if (p_.comm.rank() != 0) return;
  p_.sink.write(metrics::NoteRecord{
      .step = done_,
      .text =
          fmt::format("stopped after epoch {}: {} epochs without a better test result than that "
                      "of epoch {}",
                      epoch, epoch - selection_.best_epoch(), selection_.best_epoch())});
}

void Trainer::keep_best() {
  phase_.enter(phases::kKeepingBest);
  evaluator_.with_result([&] {
    if (p_.comm.rank() == 0) p_.replica.save_weights(p_.best_weights);
  });
  phase_.enter(phases::kEvaluating);
}

/// Sets what else follows from the size of this rank's batches.
void Trainer::weigh_batches() {
  const double weight = p_.balancer->weight();
  accumulation_.set_weight(plan_.loss_weight(0) * weight);
  evaluator_.weigh_buffers({weight});
  no_batch_.targets.shape = {static_cast<std::int64_t>(p_.balancer->own())};
}

/// The next batch is number `batch` of `epoch`, of which this rank reads what is its own now.
void Trainer::take_batches(std::uint64_t epoch, std::size_t batch) {
  weigh_batches();
  if (p_.batches != nullptr) p_.batches->seek(epoch, batch, p_.balancer->deal());
}

/// After a step: ranks whose computing ends at different times may get other batches.
void Trainer::balance(const metrics::StepRecord& record) {
  const StepId done = record.step;
  p_.balancer->note_step(record.seconds.data + record.seconds.compute + record.seconds.update);
  enter(phases::kBalancing);
  const auto decision = p_.balancer->decide(done);
  if (!decision) return;
  if (p_.comm.rank() == 0) p_.sink.write(*decision);
  seek(done);
}

void Trainer::begin_timeline() {
  if (p_.timeline == nullptr) return;
  const sync::CommonClock clock = sync::agree_on_clock(p_.comm);
  p_.timeline->set_clock(clock);
  if (clock.error_seconds == 0 || p_.comm.rank() != 0) return;
  p_.sink.write(metrics::NoteRecord{
      .step = 0,
      .text = fmt::format("timeline: clocks of hosts are compared to within {:.2g} ms",
                          1000 * clock.error_seconds)});
}

void Trainer::write_timeline() {
  if (p_.timeline == nullptr) return;
  for (const metrics::TimelineRecord& record : p_.timeline->gather(p_.comm)) p_.sink.write(record);
}

void Trainer::inject_fault(comm::Fault::Phase phase, StepId step) {
  // A value is damaged only once, so that the fault does not happen again after a rollback.
  if (!plan_.fault || (fault_injected_ && plan_.fault->act == comm::Fault::Act::nan)) return;
  fault_injected_ |= plan_.fault->inject(phase, p_.comm.rank(), step, p_.replica.parameters());
}

/// This rank's report after a step, with the hash only if it is sent.
HealthReport Trainer::report(bool with_hash) {
  HealthReport own;
  own.stop = p_.comm.stop_asked();
  own.diverged = p_.divergence != nullptr && p_.divergence->any();
  if (with_hash && plan_.paranoid && plan_.replicas_equal) own.hash = parameter_hash();
  if (p_.checkpointer != nullptr) {
    own.save = p_.comm.rank() == 0 && !memory_due_ && p_.checkpointer->wants_memory();
    own.written = p_.checkpointer->has_unconfirmed();
  }
  return own;
}

/// Returns false if all ranks have gone back to an earlier step.
bool Trainer::check_health_after_step(const StepOutcome& outcome) {
  unchecked_seconds_ += outcome.seconds;
  if (messages_under_way()) {
    p_.synchronizer.late()->rethrow();
    was_under_way_ = true;
    return true;
  }
  // Where one round follows the other, this may be the only step between them.
  if (std::exchange(was_under_way_, false)) {
    unchecked_seconds_ = 0;
    return check_health_now();
  }
  const HealthReport own = report(health_check_.is_due(outcome.met));
  return act_on(health_check_.after_step(std::exchange(unchecked_seconds_, 0), outcome.met, own));
}

bool Trainer::check_health_now() { return act_on(health_check_.now(report(false))); }

bool Trainer::act_on(const HealthStatus& status) {
  if (status.replicas_differ) compare_replicas();
  if (status.diverged) {
    roll_back(*status.diverged);
    return false;
  }
  if (status.written) p_.checkpointer->confirm_memory();
  if (!status.stop) {
    memory_due_ |= status.save;
    return true;
  }
  if (p_.checkpointer != nullptr) {
    require_finite_model(done_);
    if (may_go_back()) {
      if (const auto diverged = health_check_.now(report(false)).diverged) {
        roll_back(*diverged);
        return false;
      }
    }
  }
  stop(*status.stop);
}

/// Ends the run on all ranks, after the same step.
void Trainer::stop(Rank told) {
  enter(phases::kLastSave);
  std::string saved = "nothing was saved, because the run has no checkpoint folder";
  if (p_.checkpointer != nullptr) {
    p_.checkpointer->save_and_wait(done_);
    saved = "its state is saved, and --resume continues from there";
  }
  phase_.leave();
  throw comm::AgreedError(
      Kind::interrupted,
      fmt::format("rank {} was told to stop by a signal; the run has ended after "
                  "step {} of {}, {}",
                  told, done_, plan_.total_steps, saved));
}

/// @throws Error{bug} on all ranks unless all have the same parameters
void Trainer::compare_replicas() {
  const auto hashes = p_.comm.allgather(parameter_hash());
  const auto other = std::ranges::find_if(hashes, [&](auto hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return;
  throw comm::AgreedError(
      Kind::bug, fmt::format("after step {}: expected the same parameters on all ranks, found hash "
                             "{:016x} on rank 0 and {:016x} on rank {}; check the memory of that "
                             "machine, and continue with --resume from an earlier checkpoint",
                             done_, hashes[0], *other, other - hashes.begin()));
}

/// After the update: the loss was finite, but the new parameters may not be.
void Trainer::require_finite_model(StepId step) {
  sync::require_finite(p_.replica.layout(), p_.replica.parameters(), 0, "the parameter", step,
                       p_.comm.rank(), p_.divergence);
}

void Trainer::require_finite_loss(StepId step, double loss, Rank rank) {
  if (plan_.emulated || std::isfinite(loss)) return;
  const auto parameter = sync::name_non_finite(p_.replica.layout(), p_.replica.parameters());
  const auto gradient = sync::name_non_finite(p_.replica.layout(), p_.replica.gradient());
  const std::string because = parameter  ? fmt::format(", because {}", *parameter)
                              : gradient ? fmt::format(", and the gradient of {}", *gradient)
                                         : "";
  const std::string sentence = fmt::format(
      "step {}: the loss is {} on rank {}{}; try a smaller optimizer.learning_rate or "
      "a schedule.warmup_epochs",
      step, loss, rank, because);
  if (p_.divergence == nullptr) fail(Kind::diverged, "{}", sentence);
  p_.divergence->found(sentence);
}

/// Fails on all ranks. Each checks its own model to find the rank whose model is not finite.
void Trainer::require_finite_assessment(const Assessment& assessment) {
  if (!assessment.model || std::isfinite(assessment.model->loss_sum)) return;
  p_.comm.agree_after([this] {
    const auto named = sync::name_non_finite(p_.replica.layout(), p_.replica.parameters());
    if (named)
      fail(Kind::diverged, "after step {}: evaluation: the test loss is not finite, because {}",
           done_, *named);
  });
  throw comm::AgreedError(
      Kind::diverged,
      fmt::format(
          "after step {}: evaluation: the test loss is {}, though all parameters are finite; "
          "try a smaller optimizer.learning_rate",
          done_, assessment.model->loss_sum));
}

/// Returns to the newest checkpoint; smaller steps from there may avoid the failure.
void Trainer::roll_back(Rank diverged) {
  const std::string why = p_.comm.broadcast(p_.divergence->sentence(), diverged);
  const StepId from = done_;
  const double factor = rate_factor_ * plan_.rollback_factor;
  const std::uint64_t rollbacks = rollbacks_ + 1;
  p_.divergence->forget();
  if (rollbacks > kMaxRollbacks) {
    throw comm::AgreedError(Kind::diverged,
                            fmt::format("{}; the run went back {} times before", why, rollbacks_));
  }
  const auto done = p_.checkpointer->restore_newest();
  if (!done)
    throw comm::AgreedError(Kind::diverged, why + "; there is no checkpoint to go back to");
  go_to(*done);
  rate_factor_ = factor;
  rollbacks_ = rollbacks;
  p_.sink.write(metrics::NoteRecord{
      .step = from,
      .text = fmt::format("{}; all ranks went back from step {} to step {}, the learning rate is "
                          "{:.4g} of the schedule's from now on (time {} of {} at most)",
                          why, from, *done, factor, rollbacks, kMaxRollbacks),
      .back_to = *done});
}

}  // namespace eqt::train
