// SPDX-License-Identifier: Apache-2.0
// Plain gossip: sends the models themselves.
//
// m = frame bytes of d values, k out-neighbours.
// Rounds   1
// Sent     m * k bytes per rank
// Decode   d * in-neighbours values, and d once more with compression
// State    none
// Lossy    with compression, and not only while ranks disagree
//
// Source   X. Lian et al. (D-PSGD), NeurIPS 2017, arXiv:1705.09056, algorithm 1;
//          M. Assran et al. (SGP), ICML 2019, arXiv:1811.10792, algorithm 1, on numerators
// Deviates weights are applied by the receiver, so that they may differ by edge; in SGP the sender
// multiplies. The sums are the same.

#include "sync/algorithm.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/neighbour_messages.hpp"

namespace eqt::sync {
namespace {

class PlainMixer final : public Mixer {
 public:
  explicit PlainMixer(const MixerParts& parts) : messages_(parts, name()) {}

  std::string_view name() const noexcept override { return "gossip of models"; }

  Task mix(const FusionBucket& bucket, const MixContext& context, std::span<float> model,
           MixResult& result) override {
    const auto values = model.subspan(bucket.begin, bucket.count());
    messages_.encode(bucket, context, values, result);
    co_await messages_.exchange(bucket, context, "gossip of models");
    const double given = messages_.out_weight(context, context.consensus_step);
    if (messages_.compressor().properties().lossless) {
      const auto kept = static_cast<float>(1 - given);
      for (float& value : values) value *= kept;
    } else {
      messages_.add_own(bucket, context, static_cast<float>(-given), values, result);
    }
    messages_.add_neighbours(bucket, context, context.consensus_step, values, result);
  }

 private:
  NeighbourMessages messages_;
};

}  // namespace

std::unique_ptr<Mixer> make_plain_mixer(const MixerParts& parts, std::size_t, const MixerOptions&) {
  return std::make_unique<PlainMixer>(parts);
}

namespace {

constexpr std::string_view kDPsgdKeys[] = {"consensus_step", "order", "local_steps", "final_rounds",
                                           "delay"};
constexpr std::string_view kSgpKeys[] = {"consensus_step", "order", "local_steps", "final_rounds"};

}  // namespace

const AlgorithmRow kDPsgd = {.name = "d-psgd",
                             .about = "models mixed with neighbours'",
                             .keys = kDPsgdKeys,
                             .mixes = true,
                             .quasi_global = true,
                             .without_equal_sums = "sgp",
                             .models_remembered = 2,
                             .make = make_gossip,
                             .make_mixer = make_plain_mixer};

const AlgorithmRow kSgp = {
    .name = "sgp",
    .about = "stochastic gradient push: d-psgd for any directed graph, by push-sum",
    .keys = kSgpKeys,
    .mixes = true,
    .push_sum = true,
    .quasi_global = true,
    .models_remembered = 3,
    .make = make_gossip,
    .make_mixer = make_plain_mixer};

}  // namespace eqt::sync
