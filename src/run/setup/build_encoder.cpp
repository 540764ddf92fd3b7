// SPDX-License-Identifier: Apache-2.0
#include "setup/build_encoder.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda_queue.hpp"
#include "device/device_codec.hpp"
#include "setup/build_synchronization.hpp"

namespace eqt::setup {
namespace {

/// A device encodes the gradient of one batch, which nobody changes or reads before, and the mean
/// takes its payloads.
struct Obstacle {
  bool applies;
  std::string clause;
};

std::unique_ptr<device::Queue> make_queue(const model::Placement& placement) {
  return placement.cuda ? device::make_cuda_queue(*placement.cuda)
                        : device::make_late_emulated_queue();
}

/// Empty: the device encodes.
std::string why_host_encodes(const config::RunConfig& config, const SyncBase& base,
                             const collective::Collective* collective) {
  const auto& algorithm = *config.synchronization.algorithm;
  const std::string_view compressor = config.compressor.name->name;
  const MessageParts& messages = base.messages;
  const std::array obstacles = {
      Obstacle{base.replica.device_gradient() == nullptr, "there is no network"},
      Obstacle{base.simulation != nullptr, "this process plays all ranks"},
      Obstacle{
          collective == nullptr,
          fmt::format("synchronization.algorithm {} sends no plain gradients", algorithm.name)},
      Obstacle{!device::has_kernels(*messages.compressor),
               fmt::format("compressor {} has no kernels for devices", compressor)},
      Obstacle{!device::encodes_sooner(*messages.compressor),
               fmt::format("compressor {} is slower on devices", compressor)},
      Obstacle{collective != nullptr && !collective->own_parts(messages.buckets.front()),
               fmt::format("collective {} takes no messages that were encoded before",
                           collective == nullptr ? "none" : collective->name())},
      Obstacle{messages.memory != nullptr && messages.memory->residual().empty(),
               "what ranks remember of gradients is no plain residual"},
      Obstacle{config.train.accumulate > 1, "train.accumulate adds gradients on the host"},
      Obstacle{!base.plan.loss_weights.empty() || base.balancer != nullptr,
               "the gradients of ranks have weights"},
      Obstacle{base.divergence.recovers(), "train.on_divergence rollback mends gradients"}};
  for (const Obstacle& obstacle : obstacles)
    if (obstacle.applies) return obstacle.clause;
  return {};
}

std::vector<device::EncodedBucket> buckets_of(std::span<const pipeline::FusionBucket> plan,
                                              const collective::Collective& collective) {
  std::vector<device::EncodedBucket> buckets;
  for (const pipeline::FusionBucket& bucket : plan) {
    collective::OwnParts own = *collective.own_parts(bucket);
    buckets.push_back({.begin = bucket.begin,
                       .end = bucket.end,
                       .encoded = std::move(own.encoded),
                       .plain = std::move(own.plain)});
  }
  return buckets;
}

}  // namespace

EncoderChoice choose_encoder(const config::RunConfig& config, const SyncBase& base,
                             const collective::Collective* collective) {
  if (!base.placement.encodes) return {};
  const std::string obstacle = why_host_encodes(config, base, collective);
  if (!obstacle.empty())
    return {.encoder = nullptr,
            .note = fmt::format("gradients are encoded on the host: {}", obstacle)};
  collective::GradientMemory* const memory = base.messages.memory.get();
  return {.encoder = device::make_gradient_encoder(
              {.compressor = *base.messages.compressor,
               .queue = make_queue(base.placement),
               .device_gradient = base.replica.device_gradient(),
               .gradient = base.replica.gradient(),
               .residual = memory == nullptr ? std::span<float>() : memory->residual(),
               .plain_feedback = !collective->takes_residual(),
               .rank = base.comm.rank()},
              buckets_of(base.messages.buckets, *collective)),
          .note = "gradients are encoded on the device"};
}

}  // namespace eqt::setup
