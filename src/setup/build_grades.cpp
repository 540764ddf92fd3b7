// SPDX-License-Identifier: Apache-2.0
#include "setup/build_grades.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include "codec/frame.hpp"
#include "collective/collective.hpp"
#include "collective/grade_trial.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "metrics/decisions.hpp"
#include "setup/build_batches.hpp"

namespace eqt::setup {
namespace {

using collective::Machine;
using collective::StepPrediction;

// Where nothing is measured, so that a run repeats itself: about what COMPRESSORS.md measures.
constexpr double kCodecSeconds = 1e-9, kCopySeconds = 1e-10, kAddSeconds = 1e-10;
constexpr double kLatencySeconds = 1e-4;
constexpr double kMegabit = 1e6 / 8;
// Of a step's computing.
constexpr double kForwardShare = 1.0 / 3;

int ranks_of(const SyncBase& base) {
  return base.simulation != nullptr ? base.simulation->count() : base.comm.size();
}

/// What `auto` makes of compressor and plan, if it had no choice by cost.
const collective::CollectiveRow& collective_of(const config::RunConfig& config,
                                               const SyncBase& base) {
  const auto& row = config.synchronization.collective;
  if (!(row == collective::kAutomatic)) return *row;
  const MessageParts& messages = base.messages;
  return collective::choose_collective(*messages.compressor, messages.buckets.front().end,
                                       ranks_of(base));
}

/// The slowest links of each kind; no links of a kind: 0 bytes/s.
void set_measured(const std::vector<comm::Link>& links, Machine& machine) {
  for (const comm::Link& link : links) {
    Machine::Wire& wire = link.same_host ? machine.within_host : machine.between_hosts;
    for (const comm::LinkSpeed& speed : {link.forward, link.backward}) {
      wire.latency_seconds = std::max(wire.latency_seconds, speed.latency_seconds);
      wire.bytes_per_second = wire.bytes_per_second > 0
                                  ? std::min(wire.bytes_per_second, speed.duplex_bytes_per_second)
                                  : speed.duplex_bytes_per_second;
    }
  }
}

/// Of names and sizes of the slices, and of the menu.
std::uint32_t fingerprint_of(const SyncBase& base) {
  std::string text;
  const Layout& layout = base.replica.layout();
  for (const auto& slice : collective::compressed_slices(base.messages.buckets)) {
    text += fmt::format("{} {}\n", slice_name(layout, slice.slice), slice.count);
  }
  for (const std::string& grade : base.messages.compressor->mixed_grades()->names())
    text += grade + "\n";
  return static_cast<std::uint32_t>(checksum(std::as_bytes(std::span(text))));
}

double emulated_seconds(const config::RunConfig& config) {
  const config::PerRank& each = config.train.emulate_compute;
  if (const auto* const one = std::get_if<double>(&each)) return *one;
  if (const auto* const all = std::get_if<std::vector<double>>(&each))
    return std::ranges::max(*all);
  return 0;
}

std::vector<StepModel::Bucket> buckets_of(std::span<const pipeline::FusionBucket> plan) {
  const auto slices = collective::compressed_slices(plan);
  std::vector<StepModel::Bucket> buckets;
  for (const pipeline::FusionBucket& bucket : plan) {
    StepModel::Bucket own{.raw_bytes = static_cast<double>(codec::kFrameHeaderBytes), .shares = {}};
    for (const codec::Segment& segment : bucket.segments) {
      const auto count = static_cast<double>(segment.count);
      if (!segment.compressed) {
        own.raw_bytes += count * sizeof(float);
      } else if (segment.count > 0) {
        const auto slice =
            std::ranges::lower_bound(slices, segment.slice, {}, &collective::SliceParts::slice);
        own.shares.push_back({.slice = static_cast<std::size_t>(slice - slices.begin()),
                              .part = count / static_cast<double>(slice->count)});
      }
    }
    buckets.push_back(std::move(own));
  }
  return buckets;
}

std::optional<StepModel> make_model(const config::RunConfig& config, const SyncBase& base) {
  const MessageParts& messages = base.messages;
  const auto* const rate = std::get_if<double>(&config.compressor.link);
  const int ranks = ranks_of(base);
  const int hosts = messages.hosts;
  StepModel model{.collective = &collective_of(config, base),
                  .volume = {},
                  .machine = {.ranks = ranks,
                              .hosts = std::max(hosts, 1),
                              .encode_seconds = 0,
                              .decode_seconds = 0,
                              .add_seconds = kAddSeconds,
                              .between_hosts = {},
                              .within_host = {}},
                  .buckets = buckets_of(messages.buckets),
                  .overlap = config.synchronization.overlap && base.communication_thread};
  if (rate != nullptr) {
    // Boards with a link each, if nothing is known of hosts.
    model.machine.hosts = hosts > 1 ? hosts : ranks;
    model.machine.between_hosts = {.latency_seconds = kLatencySeconds,
                                   .bytes_per_second = *rate * kMegabit};
    model.machine.within_host = {.latency_seconds = 0, .bytes_per_second = 1 / kCopySeconds};
    const double seconds = emulated_seconds(config);
    model.fixed = {.forward = kForwardShare * seconds,
                   .backward = (1 - kForwardShare) * seconds,
                   .codec_seconds = {}};
    const codec::MixedGrades& codec = *messages.compressor->mixed_grades();
    for (std::size_t k = 0; k < codec.grades(); ++k) {
      const bool copies = codec.grade(static_cast<codec::GradeIndex>(k)).properties().lossless;
      model.fixed->codec_seconds.push_back(copies ? kCopySeconds : kCodecSeconds);
    }
    // Whether MPI admits a thread must not decide either.
    model.overlap = config.synchronization.overlap;
  } else {
    set_measured(messages.links, model.machine);
  }
  model.volume =
      collective::volume_of(*messages.compressor, messages.buckets, ranks, model.machine.hosts);
  if (!collective::collective_cost(*model.collective, model.volume)) return {};
  return model;
}

/// Weights and batches of the ranks: constant, or those of the balancer.
std::function<collective::RankBatch(Rank)> batches_of(const config::RunConfig& config,
                                                      const SyncBase& base) {
  const auto accumulated = static_cast<double>(config.train.accumulate);
  if (base.balancer != nullptr)
    return [balancer = base.balancer, accumulated](Rank) {
      return collective::RankBatch{.samples = accumulated * static_cast<double>(balancer->own()),
                                   .weight = balancer->weight()};
    };
  std::vector<collective::RankBatch> all;
  if (config.train.has_batches_by_rank()) {
    const std::vector<std::size_t> batches = first_batches(config, ranks_of(base));
    const std::vector<double> weights = batch_weights(batches);
    for (std::size_t r = 0; r < batches.size(); ++r)
      all.push_back({accumulated * static_cast<double>(batches[r]), weights[r]});
  } else {
    all.assign(static_cast<std::size_t>(ranks_of(base)),
               {.samples = static_cast<double>(config.train.samples_per_step()), .weight = 1});
  }
  return [all](Rank rank) { return all.at(static_cast<std::size_t>(rank)); };
}

std::function<std::optional<collective::Decision>(StepId)> replay_of(const std::string& path) {
  if (path.empty()) return {};
  const auto replay = std::make_shared<const metrics::Replay>(
      metrics::read_decisions(path, collective::kGradeDecisions));
  return [replay](StepId done) -> std::optional<collective::Decision> {
    const metrics::DecisionRecord* const found = replay->after(done);
    if (found == nullptr) return {};
    return collective::Decision{.values = found->values, .why = found->why};
  };
}

}  // namespace

bool measures_links(const config::RunConfig& config, int ranks) {
  return ranks > 1 && config.compressor.adapts_grades() && config.compressor.replay.empty() &&
         config.compressor.link == config::LinkRate(config::LinkRule::measured);
}

StepPrediction predict_step(const StepModel& model, std::span<const collective::SliceLoad> slices,
                            const collective::StepSpeeds& speeds) {
  const auto& fixed = model.fixed;
  double encode = 0, decode = 0;
  for (const collective::SliceLoad& slice : slices) {
    encode += slice.values * (fixed ? fixed->codec_seconds : speeds.encode_seconds).at(slice.grade);
    decode += slice.values * (fixed ? fixed->codec_seconds : speeds.decode_seconds).at(slice.grade);
  }
  std::vector<double> bytes;
  for (const StepModel::Bucket& bucket : model.buckets) {
    bytes.push_back(bucket.raw_bytes);
    for (const auto& share : bucket.shares) bytes.back() += share.part * slices[share.slice].bytes;
  }
  collective::Volume volume = model.volume;
  volume.message_bytes = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  Machine machine = model.machine;
  machine.encode_seconds = volume.values > 0 ? encode / volume.values : 0;
  machine.decode_seconds = volume.values > 0 ? decode / volume.values : 0;
  machine.between_hosts.bytes_per_second /= speeds.slowdown;
  machine.within_host.bytes_per_second /= speeds.slowdown;
  const auto cost = collective::collective_cost(*model.collective, volume);
  EQT_CHECK(cost.has_value(), "no cost of {}", model.collective->name);
  // Messages of all buckets may be under way together.
  const std::size_t count = model.buckets.size();
  const double exchange = collective::predict_seconds(*cost, machine, count, count);
  const double forward = fixed ? fixed->forward : speeds.forward;
  const double backward = fixed ? fixed->backward : speeds.backward;
  const double end = forward + backward;
  if (!model.overlap) return {.step = end + exchange, .exchange = exchange};
  double sent = 0;
  for (std::size_t b = 0; b < count; ++b) {
    const bool known = !fixed && b < speeds.ready.size();
    const double part =
        known ? speeds.ready[b] : static_cast<double>(b + 1) / static_cast<double>(count);
    sent = std::max(sent, forward + part * backward) + exchange * bytes[b] / volume.message_bytes;
  }
  return {.step = std::max(end, sent), .exchange = exchange};
}

std::unique_ptr<collective::Adaptation> build_grade_adaptation(const config::RunConfig& config,
                                                               const SyncBase& base) {
  const config::CompressorConfig& compressor = config.compressor;
  const int ranks = ranks_of(base);
  collective::GradeAdaptationOptions options{.run_seed = config.seed,
                                             .ranks = ranks,
                                             .noise_share = compressor.noise_share,
                                             .noise_cap = compressor.noise_cap,
                                             .observe_every = compressor.observe_every,
                                             .decide_every = compressor.decide_every,
                                             .fingerprint = fingerprint_of(base),
                                             .predict = {},
                                             .batch = batches_of(config, base),
                                             .replay = replay_of(compressor.replay),
                                             .total_steps = base.plan.total_steps};
  const auto model = make_model(config, base);
  if (model) {
    const auto cost = collective::collective_cost(*model->collective, model->volume);
    options.quantisations = std::max(cost->quantisations, 1);
  }
  options.uses_clock = measures_links(config, ranks) && base.simulation == nullptr;
  const bool by_bytes =
      compressor.link == config::LinkRate(config::LinkRule::ignore) || !model.has_value();
  if (!by_bytes)
    options.predict = [model = *model](std::span<const collective::SliceLoad> slices,
                                       const collective::StepSpeeds& speeds) {
      return predict_step(model, slices, speeds);
    };
  return collective::make_grade_adaptation(base.comm, *base.messages.compressor->mixed_grades(),
                                           base.messages.buckets, std::move(options));
}

}  // namespace eqt::setup
