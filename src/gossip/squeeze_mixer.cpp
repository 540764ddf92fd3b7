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
// Deviates weights are applied by the receiver.

#include <algorithm>
#include <array>
#include <vector>

#include "core/flat_buffer.hpp"
#include "gossip/algorithm.hpp"
#include "gossip/consensus_step.hpp"
#include "gossip/neighbour_messages.hpp"

namespace eqt::gossip {
namespace {

class SqueezeMixer final : public Mixer {
 public:
  SqueezeMixer(const MixerParts& parts, std::size_t count)
      : messages_(parts, name()), error_(count) {}

  std::string_view name() const noexcept override { return "DeepSqueeze"; }
  void visit_state(StateVisitor& visitor) override {
    visitor.values("error", error_.span(), Across::fresh);
  }

  Task mix(const FusionBucket& bucket, const MixContext& context, std::span<float> model,
           MixResult& result) override {
    const auto values = model.subspan(bucket.begin, bucket.count());
    const auto error = error_.span().subspan(bucket.begin, bucket.count());
    // v = x + e, and e becomes v - q.
    for (std::size_t i = 0; i < values.size(); ++i) error[i] += values[i];
    messages_.encode(bucket, context, error, result);
    co_await messages_.exchange(bucket, context, "DeepSqueeze: gossip of compressed models");
    messages_.add_own(bucket, context, -context.damping, error, result);
    const float step = context.consensus_step * context.damping;
    const auto given = static_cast<float>(messages_.out_weight(context, step));
    messages_.add_own(bucket, context, -given, values, result);
    messages_.add_neighbours(bucket, context, step, values, result);
  }

 private:
  NeighbourMessages messages_;
  FlatBuffer error_;
};

}  // namespace

std::unique_ptr<Mixer> make_squeeze_mixer(const MixerParts& parts, std::size_t count,
                                          const MixerOptions&) {
  return std::make_unique<SqueezeMixer>(parts, count);
}

namespace {

constexpr std::string_view kSqueezeKeys[] = {"consensus_step", "order", "local_steps",
                                             "final_rounds"};

}  // namespace

const AlgorithmRow kDeepSqueeze = {
    .name = "deep-squeeze",
    .about = "compressed models, each with the error of the last message added",
    .keys = kSqueezeKeys,
    .mixes = true,
    .quasi_global = true,
    .without_equal_sums = "sparse-push",
    .models_remembered = 3,
    .make_mixer = make_squeeze_mixer,
    .default_step = squeeze_step};

const AlgorithmRow kSparsePush = {.name = "sparse-push",
                                  .about = "deep-squeeze with push-sum",
                                  .keys = kSqueezeKeys,
                                  .mixes = true,
                                  .push_sum = true,
                                  .quasi_global = true,
                                  .models_remembered = 4,
                                  .make_mixer = make_squeeze_mixer,
                                  .default_step = squeeze_step};

}  // namespace eqt::gossip
