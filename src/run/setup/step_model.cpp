// SPDX-License-Identifier: Apache-2.0
#include "setup/step_model.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "forecast/step_simulation.hpp"

namespace eqt::setup {
namespace {

using adaptation::SliceLoad;
using adaptation::StepSpeeds;

// About what docs/compressors.md measures.
constexpr double kCodecSeconds = 1e-9, kCopySeconds = 1e-10;
constexpr double kLatencySeconds = 1e-4;

double computing_seconds(const StepModel& model, const StepSpeeds& speeds) {
  return model.fixed ? model.fixed->computing : speeds.forward + speeds.backward;
}

/// Returns when a bucket is ready, as a part of forward and backward pass.
double ready_part(const StepModel& model, const StepSpeeds& speeds, std::size_t bucket) {
  const double all = speeds.forward + speeds.backward;
  const bool measured = !model.fixed && bucket < speeds.ready.size() && all > 0;
  return measured ? (speeds.forward + speeds.ready[bucket] * speeds.backward) / all
                  : model.buckets[bucket].ready;
}

/// Which rank is next to another's may be on any host: a message to one other rank is as good as a
/// part of it to each.
void send_anywhere(std::vector<forecast::Round>& rounds, int ranks) {
  for (forecast::Round& round : rounds) {
    if (round.to != forecast::Peers::distance) continue;
    round.to = forecast::Peers::all;
    round.message_bytes /= ranks - 1;
  }
}

bool is_exact(const StepModel& model, std::span<const SliceLoad> slices) {
  return !model.float32.empty() && std::ranges::all_of(slices, [&](const SliceLoad& load) {
    return model.float32.at(load.grade);
  });
}

/// @param row the model's collective, or `dense`
forecast::BucketWork work_of(const StepModel& model, const collective::CollectiveRow& row,
                             const StepModel::Bucket& bucket, std::span<const SliceLoad> slices,
                             const StepSpeeds& speeds) {
  collective::Volume volume = bucket.volume;
  volume.message_bytes = bucket.raw_bytes;
  double encode = 0, decode = 0;
  for (const StepModel::Bucket::Share& share : bucket.shares) {
    const SliceLoad& load = slices[share.slice];
    const double values = share.part * load.values;
    volume.message_bytes += share.part * load.bytes;
    encode +=
        values * (model.fixed ? model.fixed->codec_seconds : speeds.encode_seconds).at(load.grade);
    decode +=
        values * (model.fixed ? model.fixed->codec_seconds : speeds.decode_seconds).at(load.grade);
  }
  const auto cost = collective::collective_cost(row, volume);
  EQT_CHECK(cost.has_value(), "no cost of {}", row.name);
  const collective::CodecCosts codec = {
      .encode = volume.values > 0 ? encode / volume.values : 0,
      .decode = volume.values > 0 ? decode / volume.values : 0,
  };
  forecast::BucketWork work;
  work.rounds =
      collective::rounds_of(row, *cost, volume, codec, model.communication, work.seconds_after);
  send_anywhere(work.rounds, model.ranks);
  return work;
}

forecast::Cluster cluster_of(const StepModel& model, const StepSpeeds& speeds) {
  // On one host each rank has a link, that of messages within the host.
  const int hosts = model.hosts == 1 ? model.ranks : model.hosts;
  const int each = model.ranks / hosts, with_one_more = model.ranks % hosts;
  forecast::Cluster cluster = {.boards = {}, .links = {model.link}, .switches = {}};
  cluster.links[0].bytes_per_second /= speeds.slowdown;
  const auto add = [&](int count, int ranks) {
    if (count == 0) return;
    forecast::Boards boards;
    boards.count = count;
    boards.ranks = ranks;
    boards.step_seconds = computing_seconds(model, speeds);
    // While both threads work, computing loses `contention` seconds to each second of
    // communication: so it is if two threads share 2 / (1 + contention) cores.
    if (speeds.contention > 0) boards.cores = boards.ranks * 2 / (1 + speeds.contention);
    cluster.boards.push_back(boards);
  };
  add(with_one_more, each + 1);
  add(hosts - with_one_more, each);
  return cluster;
}

}  // namespace

double fixed_codec_seconds(const codec::Compressor& compressor) {
  return compressor.properties().is_float32() ? kCopySeconds : kCodecSeconds;
}

forecast::Link fixed_link(double megabits) {
  constexpr double kMegabit = 1e6 / 8;
  return {
      .name = "link", .bytes_per_second = megabits * kMegabit, .latency_seconds = kLatencySeconds};
}

double predict_step(const StepModel& model, std::span<const SliceLoad> slices,
                    const StepSpeeds& speeds) {
  const bool exact = is_exact(model, slices);
  const collective::CollectiveRow& row = exact ? collective::kDense : *model.collective;
  forecast::StepWork work;
  work.overlap = model.overlap;
  work.slots = exact && model.shares_memory ? 1 : model.slots;
  double last = 0;
  for (std::size_t b = 0; b < model.buckets.size(); ++b) {
    work.buckets.push_back(work_of(model, row, model.buckets[b], slices, speeds));
    last = std::clamp(ready_part(model, speeds, b), last, 1.0);
    work.buckets.back().ready = last;
  }
  // Steps are alike, and so are ranks: one of each is enough.
  return forecast::simulate_steps(cluster_of(model, speeds), work, {.steps = 1, .most_effort = 0})
      .mean_seconds;
}

}  // namespace eqt::setup
