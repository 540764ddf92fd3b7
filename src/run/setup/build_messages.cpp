// SPDX-License-Identifier: Apache-2.0
#include "setup/build_messages.hpp"

#include <algorithm>

#include "codec/frame.hpp"
#include "codec/message.hpp"
#include "codec/parallel.hpp"
#include "codec/rate/rate_codec.hpp"
#include "comm/host_facts.hpp"
#include "comm/link_probe.hpp"
#include "config/checks.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "setup/build_grades.hpp"

namespace eqt::setup {
namespace {

// Probing the links of a whole job may take this long before its first step [seconds].
constexpr double kProbeSeconds = 1;

/// Returns how compressed tensors are sent so that all that is sent has this rate: small tensors
/// are sent in 32 or 8 bits a value, and each message has a header.
/// @param small how these tensors are sent
/// @throws Error{usage} if nothing would be left for the compressed tensors
codec::RateDivision rate_of_compressed(double rate, codec::SmallTensors small,
                                       std::span<const pipeline::FusionBucket> buckets) {
  double all = 0, compressed = 0;
  std::vector<codec::Segment> slices;
  double besides = 8.0 * codec::kFrameHeaderBytes * static_cast<double>(buckets.size());
  for (const pipeline::FusionBucket& bucket : buckets) {
    all += static_cast<double>(bucket.count());
    for (const codec::Segment& segment : bucket.segments) {
      if (segment.compressed) {
        compressed += static_cast<double>(segment.count);
        slices.push_back(segment);
      } else {
        besides += 8.0 * static_cast<double>(codec::raw_segment_bytes(segment));
      }
    }
  }
  if (compressed == 0) return {.rate = rate};
  const double left = (rate * all - besides) / compressed;
  if (left < codec::kLeastRate)
    fail(Kind::usage,
         "expected compressor.rate of at least {:.3g} bits for this model, found {}: small "
         "tensors, which are sent as {}, and headers of messages take {:.3g} bits of each of its "
         "{} values; raise the rate, {}or compress more tensors with a smaller "
         "compressor.skip_below",
         (besides + codec::kLeastRate * compressed) / all, rate, name_of(small), besides / all, all,
         small == codec::SmallTensors::float32 ? "set compressor.small_tensors to \"int8\", " : "");
  return codec::divide_bits(left * compressed, slices);
}

}  // namespace

int threads_for(const config::RunConfig& config, const comm::Communicator& comm, int simulate) {
  if (config.threads_per_rank > 0) return config.threads_per_rank;
  const auto ranks = static_cast<int>(comm.ranks_on_this_host().size());
  return comm::fair_threads(std::max(simulate, ranks));
}

std::unique_ptr<collective::GradientMemory> make_memory(const config::RunConfig& config, int ranks,
                                                        const codec::Compressor& compressor,
                                                        std::size_t count) {
  const codec::Properties properties = compressor.properties();
  if (properties.forgets_sent) {
    return collective::make_dgc_memory(count,
                                       {.momentum = static_cast<float>(config.optimizer.momentum),
                                        .nesterov = config.optimizer.nesterov,
                                        .clip_norm = config.compressor.clip_norm,
                                        .ranks = ranks,
                                        .masking = config.compressor.momentum_masking});
  }
  if (properties.votes) {
    if (config.optimizer.momentum == 0) return nullptr;
    return collective::make_signum_memory(count, static_cast<float>(config.optimizer.momentum));
  }
  switch (config::settled_feedback(config, properties)) {
    case config::ErrorFeedback::ef14:
      return collective::make_error_feedback(
          count, {.decay = static_cast<float>(config.synchronization.feedback_decay),
                  .momentum = config::corrects_momentum(config, properties)
                                  ? static_cast<float>(config.optimizer.momentum)
                                  : 0,
                  .nesterov = config.optimizer.nesterov});
    case config::ErrorFeedback::ef21:
      return collective::make_ef21(count, static_cast<float>(config.synchronization.ef21_momentum));
    default:
      return nullptr;
  }
}

std::vector<pipeline::FusionBucket> make_plan(const config::RunConfig& config, const Layout& layout,
                                              const codec::Compressor& compressor) {
  return pipeline::plan_buckets(
      layout, compressor,
      {.granularity = config.compressor.granularity,
       .skip_below = config.compressor.skip_below,
       .small_tensors = config.compressor.small_tensors,
       .bucket_bytes = static_cast<std::size_t>(config.synchronization.bucket_mib * double{kMib}),
       .split_bytes = config.synchronization.collective->split_bytes});
}

config::RunConfig settled_config(const config::RunConfig& config,
                                 const std::optional<CostedChoice>& choice) {
  config::RunConfig settled = config;
  if (choice) settled.synchronization.collective = choice->collective;
  return settled;
}

MessageParts build_messages(const config::RunConfig& config, const Layout& layout, int threads,
                            bool simulates, comm::Communicator& comm) {
  const bool averages = config.synchronization.algorithm->averages();
  MessageParts parts;
  comm.agree_after([&] {
    parts.compressor = codec::make_parallel(config.compressor.make(), threads);
    if (averages && !simulates)
      parts.memory = make_memory(config, comm.size(), *parts.compressor, total_count(layout));
    parts.buckets = make_plan(config, layout, *parts.compressor);
    if (config.compressor.rate) {
      config::CompressorConfig compressor = config.compressor;
      const codec::RateDivision division =
          rate_of_compressed(*compressor.rate, compressor.small_tensors, parts.buckets);
      compressor.rate = division.rate;
      compressor.slice_bits = division.slice_bits;
      parts.compressor = codec::make_parallel(compressor.make(), threads);
    }
  });
  if (!averages) return parts;
  if (parts.compressor->mixed_grades() != nullptr) {
    parts.threads = threads;
    parts.hosts = equal_hosts(comm);
    if (measures_links(config, comm.size()))
      parts.links =
          comm::probe_links(comm, {.budget_seconds = kProbeSeconds,
                                   .timeout_seconds = config.synchronization.timeout_seconds});
  }
  parts.choice =
      config.synchronization.quorum > 0
          ? CostedChoice{.collective = collective::kAllgather,
                         .note = "collective allgather: members of a quorum send to all ranks"}
          : choose_by_cost(config, comm, *parts.compressor, parts.memory != nullptr, parts.buckets);
  if (!parts.choice) return parts;
  comm.agree_after([&] {
    parts.buckets = make_plan(settled_config(config, parts.choice), layout, *parts.compressor);
  });
  return parts;
}

}  // namespace eqt::setup
