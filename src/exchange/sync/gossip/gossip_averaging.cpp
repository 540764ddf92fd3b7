// SPDX-License-Identifier: Apache-2.0
// Gossip in a common step, and how it is made from a row: what the graph must be like, the parts.

#include "sync/gossip/gossip_averaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "pipeline/engine.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/background_thread.hpp"
#include "sync/edge_count.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/gossip/periodic_gossip.hpp"

namespace eqt::sync {
namespace {

using pipeline::FusionBucket;

/// The engine's work on a model: mixing every bucket of a buffer in place.
class MixWork final : public pipeline::BufferWork<MixContext, MixResult> {
 public:
  /// @param buckets their number in the plan
  MixWork(Mixer& mixer, Rank rank, std::size_t buckets, const std::optional<comm::Fault>& fault,
          Timeline* timeline)
      : spans(timeline), mixer_(mixer), rank_(rank), fault_(fault), errors_(buckets) {}

  /// @param background the job that this is part of, so that only waits of its owner count; null:
  /// all waits count
  void prepare(const MixContext& context, std::span<float> values, BackgroundThread* background) {
    BufferWork::prepare(context, values);
    background_ = background;
    traffic = {};
  }

  std::size_t slots() const noexcept override { return mixer_.slots(); }
  void waited(double seconds) override {
    spans.waited(seconds);
    traffic.transfer_seconds += background_ != nullptr ? background_->exposed(seconds) : seconds;
  }

  /// Summed over all buckets in the plan's order, because the order in which they finish depends on
  /// timing.
  MessageError message_error() const {
    MessageError sum;
    for (const MessageError& bucket : errors_) {
      sum.error += bucket.error;
      sum.exact += bucket.exact;
    }
    return sum;
  }

  Traffic traffic;
  MessageSpans spans;

 private:
  void before(const FusionBucket& bucket, MixContext& context) override {
    if (fault_) context.step = fault_->inject_in_bucket(rank_, context.step, bucket.index);
  }
  Task work_on(const FusionBucket& bucket, const MixContext& context, std::span<float> values,
               MixResult& result) override {
    return mixer_.mix(bucket, context, values, result);
  }
  void after(const FusionBucket& bucket, const MixResult& result) override {
    traffic += result.traffic;
    errors_.at(bucket.index) = result.message;
  }

  Mixer& mixer_;
  const Rank rank_;
  const std::optional<comm::Fault> fault_;
  BackgroundThread* background_ = nullptr;
  std::vector<MessageError> errors_;  // by the bucket's index
};

class GossipAveraging final : public Synchronizer, private LateExchange, private ModelMixing {
 public:
  GossipAveraging(const GossipParts& parts, const GossipAveragingOptions& options)
      : p_(parts),
        options_(options),
        edges_(parts.comm),
        engine_(parts.comm, parts.plan),
        work_(parts.mixer, parts.comm.rank(), parts.plan.size(), options.fault, options.timeline) {
    const std::size_t count = p_.parameters.size();
    if (p_.direction != nullptr && !p_.direction->mixed().empty()) {
      EQT_CHECK(p_.direction_mixer != nullptr && !options.combine_first,
                "{} mixes a buffer of its own", p_.direction->name());
      direction_work_.emplace(*p_.direction_mixer, p_.comm.rank(), parts.plan.size(), std::nullopt,
                              options.timeline);
    }
    if (p_.direction != nullptr || options.combine_first) before_ = FlatBuffer(count);
    if (!options.combine_first) return;
    mixed_ = FlatBuffer(count);
    if (options.overlap) {
      background_.emplace([this] { mix(mixed_.span(), &*background_); },
                          [this] { p_.comm.cancel(); });
    }
  }

  void start() override {
    set_context(0, 0);
    p_.mixer.start(context_, p_.parameters);
  }

  void begin(StepId step, std::uint64_t epoch) override {
    set_context(step, epoch);
    context_.measure = options_.lossy && step % kVarianceEvery == 0;
    adapting_ = options_.adaptation != nullptr && options_.adaptation->observes(step);
    if (adapting_) context_.observer = &observer_;
    if (!before_.span().empty()) std::ranges::copy(p_.parameters, before_.span().begin());
    if (!options_.combine_first) return;
    std::ranges::copy(p_.parameters, mixed_.span().begin());
    if (p_.push_sum != nullptr) p_.push_sum->to_numerator(mixed_.span());
    p_.mixer.begin(context_, mixed_.span());
    edges_.open();
    begun_ = true;
    if (background_) background_->start();
  }

  void slice_ready(std::size_t) override {}

  SyncResult finish() override {
    if (p_.direction != nullptr) p_.direction->direct(p_.parameters, p_.gradient);
    return {};
  }

  SyncResult after_update(float rate) override {
    SyncResult result;
    if (options_.combine_first) {
      receive();
      add_update();
      result = std::exchange(received_, {}).value();
      begun_ = false;
    } else {
      combine_after_update();
      result = mixed_result();
    }
    p_.mixer.end();
    take_numerator();
    if (p_.direction != nullptr) p_.direction->observe(before_.span(), p_.parameters, rate);
    if (context_.step + 1 == options_.total_steps) note_slices(result);
    return result;
  }

  LateExchange* late() override { return this; }
  ModelMixing* mixing() override { return this; }

  /// Visited after the parameters: if another number of ranks resumes, these are equal on all
  /// ranks, and public copies start with them.
  void visit_state(StateVisitor& visitor) override {
    receive();
    if (visitor.restores()) start();
    visit_in(visitor, "mixer", p_.mixer);
    if (p_.direction != nullptr) visit_in(visitor, "direction", *p_.direction);
    if (p_.direction_mixer != nullptr) visit_in(visitor, "direction mixer", *p_.direction_mixer);
    if (p_.push_sum != nullptr) visit_in(visitor, "push-sum", *p_.push_sum);
    if (options_.adaptation != nullptr) visit_in(visitor, "adaptation", *options_.adaptation);
    visit_in(visitor, "edges", edges_);
    if (options_.delayed) visit_received(visitor);
  }

  std::span<const std::uint64_t> sent_bytes_by_peer() const override { return edges_.sent(); }

 private:
  bool is_under_way() const override { return background_ && begun_ && !received_; }
  void settle() override { receive(); }
  void rethrow() override {
    if (background_) background_->rethrow();
  }

  SyncResult mix_only(StepId step, std::uint64_t epoch) override {
    set_context(step, epoch);
    edges_.open();
    p_.mixer.begin(context_, p_.parameters);
    mix_parameters();
    p_.mixer.end();
    take_numerator();
    SyncResult result{work_.traffic, {}, {}};
    edges_.close(result.traffic);
    return result;
  }

  double weight() const override { return p_.push_sum != nullptr ? p_.push_sum->weight() : 1; }

  /// Adapts the compressor, after the last message, for the next step to the values of all ranks.
  void adapt(SyncResult& result) {
    const Stopwatch transfer;
    result.note = options_.adaptation->adapt(context_.step);
    result.traffic.transfer_seconds += transfer.seconds();
  }

  /// Notes how many slices all ranks have sent and left out.
  void note_slices(SyncResult& result) {
    const std::optional<SliceCounts> own = p_.mixer.slice_counts();
    if (!own) return;
    std::array<double, 2> counts = {static_cast<double>(own->sent),
                                    static_cast<double>(own->left_out)};
    p_.comm.allreduce_sum(counts);
    result.add({.note = fmt::format("event-triggered gossip: {:.0f} of {:.0f} slices were sent, "
                                    "{:.0f} were left out",
                                    counts[0], counts[0] + counts[1], counts[1])});
  }

  void set_context(StepId step, std::uint64_t epoch) {
    context_ = {.run_seed = options_.run_seed,
                .step = step,
                .consensus_step = options_.consensus_step,
                .damping = options_.damping,
                .density = {}};
    if (options_.density) context_.density = options_.density(epoch);
  }

  void run(MixWork& work) {
    work.spans.begin();
    engine_.run(work);
    work.spans.end();
  }

  /// @param background the job that this is part of, or null
  void mix(std::span<float> values, BackgroundThread* background) {
    p_.mixer.prepare(context_, values);
    work_.prepare(context_, values, background);
    run(work_);
  }

  void mix_parameters() {
    if (p_.push_sum != nullptr) p_.push_sum->to_numerator(p_.parameters);
    mix(p_.parameters, nullptr);
  }

  /// With push-sum the parameters are the mixed numerator: mixes the weight and computes the model.
  void take_numerator() {
    if (p_.push_sum == nullptr) return;
    p_.push_sum->to_model(context_.step, options_.consensus_step, p_.parameters);
  }

  void combine_after_update() {
    edges_.open();
    mix_parameters();
    if (!direction_work_) return;
    if (p_.divergence != nullptr)  // a run that goes back ends the step as all others do
      require_finite(*p_.layout, p_.direction->mixed(), 0, "the direction", context_.step,
                     p_.comm.rank(), p_.divergence);
    MixContext second = context_;
    second.round = 1;
    second.measure = false;
    second.observer = nullptr;
    direction_work_->prepare(second, p_.direction->mixed(), nullptr);
    run(*direction_work_);
  }

  /// Returns what was sent and measured since edges_.open().
  SyncResult mixed_result() {
    SyncResult result{work_.traffic, {}, {}};
    if (adapting_) adapt(result);
    if (direction_work_) result.traffic += direction_work_->traffic;
    edges_.close(result.traffic);
    const MessageError message = work_.message_error();
    if (message.exact > 0) result.quantization_variance = message.error / message.exact;
    return result;
  }

  /// Combine first: waits until the model of begin() is mixed.
  void receive() {
    if (!begun_ || received_) return;
    if (background_) {
      background_->finish();
    } else {
      mix(mixed_.span(), nullptr);
    }
    received_ = mixed_result();
  }

  /// Adds the updates since begin() to the mixed model.
  void add_update() {
    const auto before = before_.span(), mixed = mixed_.span();
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      p_.parameters[i] = mixed[i] + (p_.parameters[i] - before[i]);
    }
  }

  /// With another number of ranks nothing is under way: all begin with the same model.
  void visit_received(StateVisitor& visitor) {
    const SyncResult result = received_.value_or(SyncResult{});
    const Traffic& traffic = result.traffic;
    std::array<std::uint64_t, 5> counts = {traffic.sent_bytes, traffic.received_bytes,
                                           traffic.messages, traffic.encoded_bytes,
                                           traffic.encoded_values};
    std::array<std::uint64_t, 3> states = {begun_ ? 1u : 0u, context_.step,
                                           result.quantization_variance ? 1u : 0u};
    double variance = result.quantization_variance.value_or(0);
    visitor.values("sent model", before_.span(), Across::fresh);
    visitor.values("mixed model", mixed_.span(), Across::fresh);
    visitor.numbers("under way", states, Across::fresh);
    visitor.numbers("traffic under way", counts, Across::fresh);
    visitor.real("variance under way", variance, Across::fresh);
    if (!visitor.restores()) return;
    begun_ = states[0] != 0;
    context_.step = states[1];
    received_.reset();
    if (!begun_) return;
    received_ = {.traffic = {.sent_bytes = counts[0],
                             .received_bytes = counts[1],
                             .messages = counts[2],
                             .encoded_bytes = counts[3],
                             .encoded_values = counts[4]}};
    if (states[2] != 0) received_->quantization_variance = variance;
  }

  const GossipParts p_;
  const GossipAveragingOptions options_;
  FlatBuffer before_;                        // the model at the beginning of the step, if needed
  FlatBuffer mixed_;                         // combine first: the mixed model
  bool begun_ = false;                       // combine first: between begin() and after_update()
  std::optional<SyncResult> received_ = {};  // set: the model of begin() is mixed
  MixContext context_;
  EdgeCount edges_;
  pipeline::Engine engine_;
  MixWork work_;
  std::optional<MixWork> direction_work_;
  const Observer observer_ = [this](const FusionBucket& bucket, std::span<const float> values) {
    options_.adaptation->observe(bucket, values);
  };
  bool adapting_ = false;  // this step's messages change the compressor
  std::optional<BackgroundThread> background_;
};

}  // namespace

std::unique_ptr<Synchronizer> make_gossip_averaging(const GossipParts& parts,
                                                    const GossipAveragingOptions& options) {
  return std::make_unique<GossipAveraging>(parts, options);
}

namespace {

using topology::Topology;

/// Returns true if rows and columns sum to 1 in every step of the topology's period.
bool is_doubly_stochastic(const Topology& topology) {
  for (StepId step = 0; step < topology.period(); ++step)
    if (!topology.at(step).is_doubly_stochastic()) return false;
  return true;
}

void require_doubly_stochastic(const AlgorithmRow& algorithm, const Topology& topology) {
  if (is_doubly_stochastic(topology)) return;
  fail(Kind::usage,
       "synchronization.algorithm {}: expected weights whose rows and columns sum to 1, found rows "
       "that do not in the {}; take the algorithm {} or, on an undirected graph, "
       "synchronization.topology.weights \"metropolis\"",
       algorithm.name, topology.name(), algorithm.without_equal_sums);
}

/// Push-sum's weights take one step where AdaGossip's values take each their own.
void require_equal_steps(const Topology& topology) {
  if (is_doubly_stochastic(topology)) return;
  fail(Kind::usage,
       "synchronization.adaptive_step: expected weights whose rows and columns sum to 1, found "
       "rows that do not in the {}; leave it out, or take another kind of graph",
       topology.name());
}

void check_topology_fits(const AlgorithmRow& algorithm, const AlgorithmSettings& settings,
                         const Topology& topology) {
  if (!algorithm.push_sum) require_doubly_stochastic(algorithm, topology);
  if (algorithm.check_topology != nullptr) algorithm.check_topology(topology);
  if (settings.adaptive_step) require_equal_steps(topology);
  if (settings.rounds.delays() && !topology.is_static())
    fail(Kind::usage,
         "synchronization.delay: expected a graph that does not change for "
         "synchronization.algorithm {}, found the {}; take a static synchronization.topology.kind, "
         "or leave the delay out",
         algorithm.name, topology.name());
  if (algorithm.public_copies && !topology.is_static())
    fail(Kind::usage,
         "synchronization.algorithm {}: expected a graph that does not change, because it keeps a "
         "sum over its neighbours' public copies, found the {}; take a static "
         "synchronization.topology.kind or the algorithm {}",
         algorithm.name, topology.name(), algorithm.on_changing_graph);
}

/// Owns the parts, in the order in which they depend on each other.
struct GossipOwned {
  std::unique_ptr<Mixer> mixer;
  std::unique_ptr<Direction> direction;    // may be null
  std::unique_ptr<Mixer> direction_mixer;  // may be null
  std::unique_ptr<PushSum> push_sum;       // may be null
  std::vector<FusionBucket> buckets;
};

std::unique_ptr<Mixer> make_mixer(const AlgorithmParts& parts, const AlgorithmSettings& settings,
                                  const ChosenStep& step, std::span<const FusionBucket> plan,
                                  WeightRounding* network) {
  return parts.row.make_mixer({parts.comm, parts.compressor, *parts.topology, plan},
                              parts.parameters.size(),
                              {.adaptive_step = settings.adaptive_step,
                               .most_adaptive_step = step.most_adaptive_step,
                               .resync_every = settings.resync_every,
                               .events = settings.events,
                               .network = network});
}

void make_parts(const AlgorithmParts& parts, const AlgorithmSettings& settings,
                const ChosenStep& step, GossipOwned& owned) {
  EQT_CHECK(!settings.network_weights || parts.network != nullptr, "{} without 8-bit weights",
            parts.row.name);
  owned.mixer = make_mixer(parts, settings, step, owned.buckets,
                           settings.network_weights ? parts.network : nullptr);
  owned.direction = make_direction(parts.row, settings);
  if (owned.direction != nullptr && !owned.direction->mixed().empty())
    owned.direction_mixer = make_mixer(parts, settings, step, owned.buckets, nullptr);
  if (parts.row.push_sum)
    owned.push_sum =
        std::make_unique<PushSum>(*parts.topology, parts.comm.rank(), parts.parameters.size());
}

}  // namespace

BuiltAlgorithm make_gossip(AlgorithmParts parts, const AlgorithmSettings& settings) {
  parts.comm.agree_after([&] { check_topology_fits(parts.row, settings, *parts.topology); });
  const ChosenStep step = choose_step(parts, settings);
  const auto owned = std::make_shared<GossipOwned>();
  owned->buckets = std::move(parts.buckets);
  parts.comm.agree_after([&] { make_parts(parts, settings, step, *owned); });
  const StepId local_steps = settings.rounds.local_steps;
  const StepId delay = settings.rounds.delay.value_or(automatic_delay(local_steps));
  const bool periodic = local_steps > 1 || delay > 0;
  Direction* const direction = owned->direction.get();
  std::unique_ptr<Synchronizer> gossip = make_gossip_averaging(
      {.comm = parts.comm,
       .mixer = *owned->mixer,
       .direction = periodic ? nullptr : direction,
       .direction_mixer = owned->direction_mixer.get(),
       .push_sum = owned->push_sum.get(),
       .plan = owned->buckets,
       .parameters = parts.parameters,
       .gradient = parts.gradient,
       .layout = &parts.layout,
       .divergence = parts.divergence},
      // Schedules of density are for gradients.
      {.run_seed = settings.run_seed,
       .consensus_step = step.consensus_step,
       .damping = step.damping,
       .combine_first = delay > 0 || settings.order == Order::combine_then_adapt,
       .overlap = settings.overlap,
       .delayed = delay > 0,
       .lossy = !parts.compressor.properties().lossless,
       .density = {},
       .fault = fault_in_round(parts.fault, local_steps),
       .timeline = parts.timeline,
       .adaptation = parts.adaptation,
       .total_steps = settings.rounds.total_steps / local_steps});
  if (periodic)
    gossip = make_periodic_gossip(
        {.gossip = std::move(gossip),
         .direction = direction,
         .parameters = parts.parameters,
         .gradient = parts.gradient},
        {.local_steps = local_steps, .delay = delay, .total_steps = settings.rounds.total_steps});
  return {.owned = owned,
          .synchronizer = std::move(gossip),
          .directs = direction != nullptr,
          .note = step.note};
}

}  // namespace eqt::sync
