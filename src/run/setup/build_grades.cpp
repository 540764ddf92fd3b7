// SPDX-License-Identifier: Apache-2.0
#include "setup/build_grades.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "adaptation/grade_trial.hpp"
#include "codec/frame.hpp"
#include "collective/collective.hpp"
#include "collective/exact_grades.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "metrics/decisions.hpp"
#include "model/emulated_replica.hpp"
#include "setup/build_data.hpp"
#include "setup/step_model.hpp"

namespace eqt::setup {
namespace {

constexpr double kMemoryRate = 1e10;  // [bytes/s]

int ranks_of(const SyncBase& base) {
  return base.simulation != nullptr ? base.simulation->count() : base.comm.size();
}

/// Returns the collective; for `auto`, what it makes of compressor and plan without a choice by
/// cost.
const collective::CollectiveRow& collective_of(const config::RunConfig& config,
                                               const SyncBase& base) {
  const auto& row = config.synchronization.collective;
  if (!(row == collective::kAutomatic)) return *row;
  const MessageParts& messages = base.messages;
  return collective::choose_collective(*messages.compressor, messages.buckets.front().end,
                                       ranks_of(base));
}

/// The slowest links between hosts; if all ranks are on one host, those within it.
forecast::Link slowest_link(const std::vector<comm::Link>& links, bool one_host) {
  forecast::Link slowest = {.name = "link"};
  for (const comm::Link& link : links) {
    if (link.same_host != one_host) continue;
    for (const comm::LinkSpeed& speed : {link.forward, link.backward}) {
      const double rate = speed.duplex_bytes_per_second;
      slowest.latency_seconds = std::max(slowest.latency_seconds, speed.latency_seconds);
      if (rate > 0 && (slowest.bytes_per_second == 0 || rate < slowest.bytes_per_second))
        slowest.bytes_per_second = rate;
    }
  }
  if (slowest.bytes_per_second == 0) slowest.bytes_per_second = kMemoryRate;
  return slowest;
}

/// Returns a checksum of names and sizes of the slices, and of the menu.
std::uint32_t fingerprint_of(const SyncBase& base) {
  std::string text;
  const Layout& layout = base.replica.layout();
  for (const auto& slice : adaptation::compressed_slices(base.messages.buckets)) {
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

/// When slices are ready on an emulated board; other boards measure it.
std::vector<double> slice_moments(const Layout& layout) {
  // Which networks are emulated is told by their layers; the side changes little of the shares.
  constexpr int kSide = 32;
  return model::ready_parts(model::multiply_adds(layout, kSide));
}

std::vector<StepModel::Bucket> buckets_of(const SyncBase& base, int ranks, int hosts) {
  const std::span<const pipeline::FusionBucket> plan = base.messages.buckets;
  const auto slices = adaptation::compressed_slices(plan);
  const Layout& layout = base.replica.layout();
  const std::vector<double> ready = pipeline::ready_times(plan, layout, slice_moments(layout));
  const auto volumes = collective::bucket_volumes(*base.messages.compressor, plan, ranks, hosts);
  std::vector<StepModel::Bucket> buckets;
  for (const pipeline::FusionBucket& bucket : plan) {
    StepModel::Bucket own{.volume = volumes[buckets.size()],
                          .raw_bytes = static_cast<double>(codec::kFrameHeaderBytes),
                          .ready = ready[buckets.size()]};
    for (const codec::Segment& segment : bucket.segments) {
      const auto count = static_cast<double>(segment.count);
      if (!segment.compressed) {
        own.raw_bytes += static_cast<double>(codec::raw_segment_bytes(segment));
      } else if (segment.count > 0) {
        const auto slice =
            std::ranges::lower_bound(slices, segment.slice, {}, &adaptation::SliceParts::slice);
        own.shares.push_back({.slice = static_cast<std::size_t>(slice - slices.begin()),
                              .part = count / static_cast<double>(slice->count)});
      }
    }
    buckets.push_back(std::move(own));
  }
  return buckets;
}

/// Empty if the collective has no formula for these ranks.
std::optional<StepModel> make_model(const config::RunConfig& config, const SyncBase& base) {
  const MessageParts& messages = base.messages;
  const auto* const rate = std::get_if<double>(&config.compressor.link);
  StepModel model{.collective = &collective_of(config, base),
                  .ranks = ranks_of(base),
                  .hosts = messages.hosts > 0 ? messages.hosts : ranks_of(base),
                  .overlap = config.synchronization.overlap && base.communication_thread};
  if (rate != nullptr) {
    // Boards with a link each, if nothing is known of hosts.
    if (messages.hosts <= 1) model.hosts = model.ranks;
    model.link = fixed_link(*rate);
    model.fixed = {.computing = emulated_seconds(config), .codec_seconds = {}};
    const codec::MixedGrades& codec = *messages.compressor->mixed_grades();
    for (std::size_t k = 0; k < codec.grades(); ++k)
      model.fixed->codec_seconds.push_back(
          fixed_codec_seconds(codec.grade(static_cast<codec::GradeIndex>(k))));
    // Whether MPI admits a thread must not decide either.
    model.overlap = config.synchronization.overlap;
  } else {
    model.link = slowest_link(messages.links, model.hosts == 1);
  }
  model.communication = model.hosts > 1 ? collective::kTcpCosts : collective::kMemoryCosts;
  model.buckets = buckets_of(base, model.ranks, model.hosts);
  if (model.collective->takes_exact_grades) {
    const codec::MixedGrades& codec = *messages.compressor->mixed_grades();
    for (std::size_t k = 0; k < codec.grades(); ++k)
      model.float32.push_back(
          codec.grade(static_cast<codec::GradeIndex>(k)).properties().is_float32());
  }
  // Not with a fixed rate, which stands for links that are not there.
  model.shares_memory = rate == nullptr && base.comm.host_memory() != nullptr;
  for (StepModel::Bucket& bucket : model.buckets) bucket.volume.shares_memory = model.shares_memory;
  const bool has_formula = std::ranges::all_of(model.buckets, [&](const auto& bucket) {
    return collective::collective_cost(*model.collective, bucket.volume).has_value();
  });
  if (!has_formula) return {};
  return model;
}

/// Weights and batches of the ranks: constant, or those of the balancer.
std::function<adaptation::RankBatch(Rank)> batches_of(const config::RunConfig& config,
                                                      const SyncBase& base) {
  const auto accumulated = static_cast<double>(config.train.accumulate);
  if (base.balancer != nullptr)
    return [balancer = base.balancer, accumulated](Rank) {
      return adaptation::RankBatch{.samples = accumulated * static_cast<double>(balancer->own()),
                                   .weight = balancer->weight()};
    };
  std::vector<adaptation::RankBatch> all;
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

std::function<std::optional<adaptation::Decision>(StepId)> replay_of(const std::string& path) {
  if (path.empty()) return {};
  const auto replay = std::make_shared<const metrics::Replay>(
      metrics::read_decisions(path, adaptation::kGradeDecisions));
  return [replay](StepId done) -> std::optional<adaptation::Decision> {
    const metrics::DecisionRecord* const found = replay->after(done);
    if (found == nullptr) return {};
    return adaptation::Decision{.values = found->values, .why = found->why};
  };
}

}  // namespace

bool measures_links(const config::RunConfig& config, int ranks) {
  return ranks > 1 && config.compressor.adapts_grades() && config.compressor.replay.empty() &&
         config.compressor.link == config::LinkRate(config::LinkRule::measured);
}

std::unique_ptr<adaptation::Adaptation> build_grade_adaptation(const config::RunConfig& config,
                                                               const SyncBase& base) {
  const config::CompressorConfig& compressor = config.compressor;
  const int ranks = ranks_of(base);
  adaptation::GradeAdaptationOptions options{.run_seed = config.seed,
                                             .ranks = ranks,
                                             .threads = base.messages.threads,
                                             .noise_share = compressor.noise_share,
                                             .noise_cap = compressor.noise_cap,
                                             .error_share = {},
                                             .observe_every = compressor.observe_every,
                                             .decide_every = compressor.decide_every,
                                             .pairs = !config.data.partition.kind->reshuffles,
                                             .fingerprint = fingerprint_of(base),
                                             .predict = {},
                                             .batch = batches_of(config, base),
                                             .replay = replay_of(compressor.replay),
                                             .total_steps = base.plan.total_steps};
  if (base.messages.compressor->properties().needs_feedback) {
    options.error_share = compressor.error_share;
    options.pairs = false;  // which are for the noise
  }
  const auto model = make_model(config, base);
  if (model) {
    for (const StepModel::Bucket& bucket : model->buckets)
      options.quantisations =
          std::max(options.quantisations,
                   collective::collective_cost(*model->collective, bucket.volume)->quantisations);
  }
  options.uses_clock = measures_links(config, ranks) && base.simulation == nullptr;
  const bool by_bytes =
      compressor.link == config::LinkRate(config::LinkRule::ignore) || !model.has_value();
  if (!by_bytes)
    options.predict = [model = *model](std::span<const adaptation::SliceLoad> slices,
                                       const adaptation::StepSpeeds& speeds) {
      return predict_step(model, slices, speeds);
    };
  return adaptation::make_grade_adaptation(base.comm, *base.messages.compressor->mixed_grades(),
                                           base.messages.buckets, std::move(options));
}

}  // namespace eqt::setup
