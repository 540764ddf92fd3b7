// SPDX-License-Identifier: Apache-2.0
#include "collective/partial_sums.hpp"

#include <algorithm>

#include "collective/messages.hpp"
#include "core/clock.hpp"

namespace eqt::collective {

std::span<const std::byte> SumCoder::encode(const Hop& hop, const SumEncoder& encoder,
                                            std::span<const codec::Segment> segments,
                                            std::span<const float> values,
                                            std::span<std::byte> buffer, Traffic& traffic) {
  const AddedSeconds timed(traffic.encode_seconds);
  codec::MessageContext message = hop.context.message(encoder.stream, hop.id().index);
  message.strata = encoder.strata;
  if (!encoder.feedback) message.residual = {};
  const std::size_t bytes =
      codec::MessageCodec(compressor_, segments, workspace_).encode(values, message, buffer);
  count_encoded(segments, bytes, traffic);
  return buffer.first(bytes);
}

void SumCoder::add(const Hop& hop, Rank from, std::span<const codec::Segment> segments,
                   std::span<const std::byte> message, float scale, std::span<float> values,
                   Traffic& traffic) {
  const AddedSeconds timed(traffic.decode_seconds);
  naming_sender(collective_, hop.context.step, from, [&] {
    codec::MessageCodec(compressor_, segments, workspace_)
        .decode_add(message, hop.id(), scale, values);
  });
}

void SumCoder::set_to_sum(const Hop& hop, std::span<const std::span<const std::byte>, 2> messages,
                          std::span<const Rank, 2> from, std::span<float> values,
                          Traffic& traffic) {
  const AddedSeconds timed(traffic.decode_seconds);
  const auto part = values.subspan(hop.bucket.begin, hop.bucket.count());
  std::fill(part.begin(), part.end(), 0.0f);
  try {
    codec::MessageCodec(compressor_, hop.bucket.segments, workspace_)
        .decode_add_all(messages, hop.id(), 1.0f, values);
  } catch (const Error&) {
    // One at a time, to find the rank whose message was refused.
    for (std::size_t i = 0; i < 2; ++i) {
      add(hop, from[i], hop.bucket.segments, messages[i], 0, values, traffic);
    }
    throw;
  }
}

std::string_view why_no_partial_sums(const codec::Compressor& compressor) {
  const codec::Properties properties = compressor.properties();
  if (properties.votes) return "encodes partial sums again, but votes are counted once, at the end";
  if (properties.shared_scale)
    return "encodes partial sums again, but all ranks must share a scale";
  if (properties.forgets_sent)
    return "encodes partial sums again, but the memory drops a value once it was sent";
  if (properties.scales_up)
    return "encodes partial sums again, and compressor.unbiased would scale them up in each round";
  return {};
}

std::string_view why_no_segments(const codec::Compressor& compressor) {
  if (!pipeline::needs_whole_slices(compressor)) return {};
  return "cuts tensors into segments, where whole ones are needed";
}

}  // namespace eqt::collective
