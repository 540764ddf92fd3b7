// SPDX-License-Identifier: Apache-2.0
// Averaging of two ranks' models, which both go on training.

#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "comm/communicator.hpp"
#include "core/flat_buffer.hpp"
#include "pipeline/engine.hpp"
#include "pipeline/plan.hpp"
#include "sync/gossip/mixer.hpp"

namespace eqt::sync {

/// A rank's model, shared by the thread that trains it and the thread that averages it. Both add
/// their changes, so updates and averages at the same time are both kept. Each copy or sum of a
/// bucket takes the lock.
class SharedModel {
 public:
  SharedModel(std::span<const FusionBucket> plan, std::size_t count);

  /// The model is `values` from now on.
  void reset(std::span<const float> values);
  /// Copies the bucket's current values. @param values bucket.count()
  void read(const FusionBucket& bucket, std::span<float> values) const;
  /// model += change, in a bucket.
  void add(const FusionBucket& bucket, std::span<const float> change);
  /// Adds the trainer's changes of `parameters` since the last call (or the reset), and copies the
  /// model into them. If nothing else was added since, the model becomes `parameters`, bit for bit.
  void synchronize(std::span<float> parameters);

 private:
  const std::span<const FusionBucket> plan_;
  mutable std::mutex mutex_;  // guards the members below
  FlatBuffer model_;
  FlatBuffer last_synchronized_;  // the model as of the last call
  std::vector<char> changed_;     // by bucket: add() was called since
};

/// Everything outlives the averaging.
struct PairwiseParts {
  comm::Communicator& comm;
  const codec::Compressor& compressor;
  std::span<const FusionBucket> plan;
  SharedModel& model;
};

struct PairwiseOptions {
  std::uint64_t run_seed = 1;
  float consensus_step = 1;  // gamma; 1 gives the mean
};

/// The engine's work of one exchange: with q = Q(x) of both ranks
///   x_a += gamma (q_b - q_a) / 2,  x_b += gamma (q_a - q_b) / 2
/// so the sum of both models does not change, with any compressor and any updates at the same time.
/// Both ranks run it at about the same time; no other rank is involved.
class PairwiseAveraging final : public pipeline::Work {
 public:
  PairwiseAveraging(const PairwiseParts& parts, const PairwiseOptions& options);

  /// Sets the exchange that the engine runs next.
  /// @param number number of earlier exchanges of this pair, equal on both ranks
  /// @param asking the active one of the two ranks
  void prepare(Rank partner, std::uint64_t number, Rank asking, bool measure);
  /// The result of the last run: all of Traffic except bytes and messages.
  const MixResult& result() const noexcept { return result_; }

  std::size_t slots() const noexcept override { return pipeline::kMaxSlots; }
  bool is_ready(const FusionBucket&) override { return true; }
  void wait_ready(const FusionBucket&) override {}
  Task start(const FusionBucket& bucket, std::size_t slot) override;
  void done(const FusionBucket&, std::size_t) override {}
  void waited(double) override {}  // the thread has no other work

 private:
  struct Slot {
    std::vector<float> values;            // this rank's, to be sent
    std::vector<float> change;            // change by the exchange
    std::vector<float> scales;            // this rank's own, if the codec has shared ones
    std::vector<std::byte> mine, theirs;  // room for a message
    std::array<comm::Outgoing, 1> outgoing;
    std::array<comm::Incoming, 1> incoming;
  };

  void encode(const FusionBucket& bucket, Slot& slot);
  void measure(const FusionBucket& bucket, Slot& slot);
  void decode(const FusionBucket& bucket, Slot& slot);
  std::span<const codec::Segment> segments_of(const FusionBucket& bucket) const {
    return segments_.at(bucket.index);
  }

  const PairwiseParts parts_;
  const PairwiseOptions options_;
  const bool lossless_;
  std::vector<std::vector<codec::Segment>> segments_;  // by bucket, relative to its begin
  std::array<Slot, pipeline::kMaxSlots> slots_;
  Workspace workspace_;  // not used across a pause
  Rank partner_ = 0;
  std::uint64_t number_ = 0;
  StepId name_ = 0;  // of the exchange, unique in this job
  bool measure_ = false;
  MixResult result_;
};

}  // namespace eqt::sync
