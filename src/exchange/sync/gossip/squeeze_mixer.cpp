// SPDX-License-Identifier: Apache-2.0
// DeepSqueeze: sends compressed models, each with the error of the last message added.
//
// m = frame bytes of d values, k out-neighbours.
// Rounds   1
// Sent     m * k bytes per rank
// Decode   d * (in-neighbours + 2) values
// State    e: d floats
//
// Source   H. Tang et al. (DeepSqueeze), 2019, arXiv:1907.07346, algorithm 1; S. A. Aketi et al.
//          (Sparse-Push), 2021, arXiv:2102.05715, on push-sum's numerators
// Deviates weights are applied by the receiver. With a network's own weights as messages, the
//          gradient is that at q, which is sent, not at x, and ranks mix what they had when the
//          step began

#include <optional>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/rounded_rows.hpp"
#include "sync/algorithm.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/neighbour_messages.hpp"

namespace eqt::sync {
namespace {

class SqueezeMixer final : public Mixer {
 public:
  SqueezeMixer(const MixerParts& parts, std::size_t count, WeightRounding* network)
      : messages_(parts, name()),
        plan_(parts.plan),
        network_(network),
        rounded_(parts.plan.size()),
        error_(count) {}

  std::string_view name() const noexcept override { return "DeepSqueeze"; }
  void visit_state(StateVisitor& visitor) override {
    visitor.values("error", error_.span(), Across::fresh);
  }

  void begin(const MixContext& /*context*/, std::span<const float> model) override {
    if (network_ == nullptr) return;
    for (const FusionBucket& bucket : plan_) {
      add_model(bucket, model);
      auto& rounded = rounded_[bucket.index];
      rounded.clear();
      for (const codec::Segment& segment : bucket.segments) {
        const auto v = error_.span().subspan(segment.begin, segment.count);
        rounded.push_back(segment.compressed ? network_->round(segment.slice, v) : std::nullopt);
      }
    }
  }

  void end() override {
    if (network_ != nullptr) network_->release();
  }

  Task mix(const FusionBucket& bucket, const MixContext& context, std::span<float> model,
           MixResult& result) override {
    const auto values = model.subspan(bucket.begin, bucket.count());
    const auto error = error_.span().subspan(bucket.begin, bucket.count());
    if (network_ == nullptr) add_model(bucket, model);
    messages_.encode(bucket, context, error, result, rounded_[bucket.index]);
    co_await messages_.exchange(bucket, context, "DeepSqueeze: gossip of compressed models");
    messages_.add_own(bucket, context, -context.damping, error, result);
    const float step = context.consensus_step * context.damping;
    const auto given = static_cast<float>(messages_.out_weight(context, step));
    messages_.add_own(bucket, context, -given, values, result);
    messages_.add_neighbours(bucket, context, step, values, result);
  }

 private:
  /// v = x + e in place of e, which becomes v - q when q is known.
  void add_model(const FusionBucket& bucket, std::span<const float> model) {
    const std::span<float> error = error_.span();
    for (std::size_t i = bucket.begin; i < bucket.end; ++i) error[i] += model[i];
  }

  NeighbourMessages messages_;
  std::span<const FusionBucket> plan_;
  WeightRounding* const network_;
  // Holds rounded rows by bucket and segment; empty for buckets that the compressor rounds.
  std::vector<std::vector<std::optional<RoundedRows>>> rounded_;
  FlatBuffer error_;
};

}  // namespace

std::unique_ptr<Mixer> make_squeeze_mixer(const MixerParts& parts, std::size_t count,
                                          const MixerOptions& options) {
  return std::make_unique<SqueezeMixer>(parts, count, options.network);
}

namespace {

constexpr std::string_view kSqueezeKeys[] = {"consensus_step", "order", "local_steps",
                                             "final_rounds", "network_weights"};
constexpr auto kSparsePushKeys = std::span(kSqueezeKeys).first<4>();

}  // namespace

const AlgorithmRow kDeepSqueeze = {
    .name = "deep-squeeze",
    .about = "compressed models, each with the error of the last message added",
    .keys = kSqueezeKeys,
    .mixes = true,
    .quasi_global = true,
    .without_equal_sums = "sparse-push",
    .models_remembered = 3,
    .make = make_gossip,
    .make_mixer = make_squeeze_mixer,
    .default_step = squeeze_step};

const AlgorithmRow kSparsePush = {.name = "sparse-push",
                                  .about = "deep-squeeze with push-sum",
                                  .keys = kSparsePushKeys,
                                  .mixes = true,
                                  .push_sum = true,
                                  .quasi_global = true,
                                  .models_remembered = 4,
                                  .make = make_gossip,
                                  .make_mixer = make_squeeze_mixer,
                                  .default_step = squeeze_step};

}  // namespace eqt::sync
