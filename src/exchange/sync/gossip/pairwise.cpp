// SPDX-License-Identifier: Apache-2.0
// Averaging in pairs: two ranks send each other their models at the same time.
//
// m = frame bytes of d values.
// Rounds   1 per exchange
// Sent     m bytes per rank and exchange, and a note of 24 + 8n bytes
// Decode   d values, and d once more with compression
// State    none
// Lossy    with compression, and not only while ranks disagree
//
// Source   X. Lian, W. Zhang, C. Zhang, J. Liu (AD-PSGD), ICML 2018, arXiv:1710.06952,
//          algorithm 1; the exchange of two snapshots as in M. Assran's BilatPushPull
// Deviates the average is added as a difference, so that updates between snapshot and average are
// kept; with compression both use the two decoded messages, so that the sum of both models does not
// change; partners alternate instead of being random, so that the time between two exchanges of a
// pair is bounded

#include "sync/gossip/pairwise.hpp"

#include <algorithm>

#include "codec/message.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/square_norm.hpp"
#include "pipeline/messages.hpp"

namespace eqt::sync {

SharedModel::SharedModel(std::span<const FusionBucket> plan, std::size_t count)
    : plan_(plan), model_(count), last_synchronized_(count), changed_(plan.size()) {}

void SharedModel::reset(std::span<const float> values) {
  const std::lock_guard lock(mutex_);
  EQT_CHECK(values.size() == model_.span().size(), "{} values for a model of {}", values.size(),
            model_.span().size());
  std::ranges::copy(values, model_.span().begin());
  std::ranges::copy(values, last_synchronized_.span().begin());
  std::ranges::fill(changed_, 0);
}

void SharedModel::read(const FusionBucket& bucket, std::span<float> values) const {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(model_.span().subspan(bucket.begin, bucket.count()), values.begin());
}

void SharedModel::add(const FusionBucket& bucket, std::span<const float> change) {
  const std::lock_guard lock(mutex_);
  const auto model = model_.span().subspan(bucket.begin, bucket.count());
  for (std::size_t i = 0; i < model.size(); ++i) model[i] += change[i];
  changed_[bucket.index] = 1;
}

void SharedModel::synchronize(std::span<float> parameters) {
  for (const FusionBucket& bucket : plan_) {
    const auto mine = parameters.subspan(bucket.begin, bucket.count());
    const std::lock_guard lock(mutex_);
    const auto model = model_.span().subspan(bucket.begin, bucket.count());
    const auto last = last_synchronized_.span().subspan(bucket.begin, bucket.count());
    if (changed_[bucket.index] == 0) {
      std::ranges::copy(mine, model.begin());
      std::ranges::copy(mine, last.begin());
      continue;
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      model[i] += mine[i] - last[i];
      mine[i] = last[i] = model[i];
    }
    changed_[bucket.index] = 0;
  }
}

PairwiseAveraging::PairwiseAveraging(const PairwiseParts& parts, const PairwiseOptions& options)
    : parts_(parts), options_(options), lossless_(parts.compressor.properties().lossless) {
  std::size_t most_values = 0, most_bytes = 0;
  for (const FusionBucket& bucket : parts.plan) {
    EQT_CHECK(bucket.index == segments_.size(), "bucket {} at place {} of the plan", bucket.index,
              segments_.size());
    auto& own = segments_.emplace_back(bucket.segments);
    for (codec::Segment& segment : own) segment.begin -= bucket.begin;
    most_values = std::max(most_values, bucket.count());
    most_bytes = std::max(most_bytes, codec::max_message_bytes(parts.compressor, own));
  }
  const std::size_t used = std::min(slots_.size(), parts.plan.size());
  for (Slot& slot : std::span(slots_).first(used)) {
    slot.values.reserve(most_values);
    slot.change.reserve(most_values);
    slot.mine.resize(most_bytes);
    slot.theirs.resize(most_bytes);
  }
}

void PairwiseAveraging::prepare(Rank partner, std::uint64_t number, Rank asking, bool measure) {
  const auto ranks = static_cast<std::uint64_t>(parts_.comm.size());
  const Rank answering = asking == partner ? parts_.comm.rank() : partner;
  partner_ = partner;
  number_ = number;
  name_ = (number * ranks + static_cast<std::uint64_t>(asking)) * ranks +
          static_cast<std::uint64_t>(answering);
  measure_ = measure;
  result_ = {};
}

Task PairwiseAveraging::start(const FusionBucket& bucket, std::size_t place) {
  Slot& slot = slots_.at(place);
  slot.values.resize(bucket.count());
  parts_.model.read(bucket, slot.values);
  encode(bucket, slot);
  slot.incoming = {{{partner_, slot.theirs, 0}}};
  co_await parts_.comm.transfers().exchange(slot.outgoing, slot.incoming,
                                            pipeline::route_of(bucket), "averaging in pairs");
  try {
    decode(bucket, slot);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("averaging in pairs, exchange {} with rank {}: {}",
                                          number_, partner_, error.what()));
  }
  parts_.model.add(bucket, slot.change);
}

void PairwiseAveraging::encode(const FusionBucket& bucket, Slot& slot) {
  const Stopwatch encode;
  const auto segments = segments_of(bucket);
  slot.scales.clear();
  if (parts_.compressor.properties().shared_scale) {
    for (const codec::Segment& s : segments) {
      const auto run = std::span<const float>(slot.values).subspan(s.begin, s.count);
      slot.scales.push_back(s.compressed ? parts_.compressor.local_scale(run) : 0.0f);
    }
  }
  const std::size_t bytes = codec::MessageCodec(parts_.compressor, segments, workspace_)
                                .encode(slot.values,
                                        {.run_seed = options_.run_seed,
                                         .id = {name_, bucket.index},
                                         .rank = static_cast<std::uint32_t>(parts_.comm.rank()),
                                         .scales = slot.scales,
                                         .own_scales = slot.scales},
                                        slot.mine);
  slot.outgoing = {{{partner_, std::span<const std::byte>(slot.mine).first(bytes)}}};
  result_.traffic.encode_seconds += encode.seconds();
  result_.traffic.encoded_bytes += bytes;
  result_.traffic.encoded_values += bucket.count();
  if (measure_) measure(bucket, slot);
}

void PairwiseAveraging::measure(const FusionBucket& bucket, Slot& slot) {
  slot.change = slot.values;
  codec::MessageCodec(parts_.compressor, segments_of(bucket), workspace_)
      .decode_add(slot.outgoing[0].bytes, {name_, bucket.index}, -1, slot.change);
  result_.message.error += square_norm(slot.change);
  result_.message.exact += square_norm(slot.values);
}

void PairwiseAveraging::decode(const FusionBucket& bucket, Slot& slot) {
  const Stopwatch decode;
  const float half = options_.consensus_step / 2;
  const auto add = [&](std::span<const std::byte> message, float scale) {
    codec::MessageCodec(parts_.compressor, segments_of(bucket), workspace_)
        .decode_add(message, {name_, bucket.index}, scale, slot.change);
  };
  const comm::Incoming& in = slot.incoming[0];
  slot.change.assign(slot.values.size(), 0);
  if (lossless_) {
    for (std::size_t i = 0; i < slot.values.size(); ++i) slot.change[i] = -half * slot.values[i];
  } else {
    add(slot.outgoing[0].bytes, -half);
  }
  add(in.buffer.first(in.bytes), half);
  result_.traffic.decode_seconds += decode.seconds();
}

}  // namespace eqt::sync
