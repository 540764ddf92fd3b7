// SPDX-License-Identifier: Apache-2.0
// The common parts of collectives that encode partial sums. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collective/collective.hpp"
#include "collective/messages.hpp"

namespace eqt::collective {

/// Identifies a partial sum of a mean.
struct Hop {
  const FusionBucket& bucket;
  const MeanContext& context;
  std::uint32_t number = 0;  // in the message's index, see hop_index()
  codec::MessageId id() const { return {context.step, hop_index(bucket.index, number)}; }
};

/// A message with a partial sum, and memory for it.
struct SumMessage {
  std::vector<std::byte> bytes;
  std::span<const std::byte> message = {};  // a part of some message's bytes
};

/// Says how a rank encodes a partial sum.
struct SumEncoder {
  std::uint32_t stream = 0;        // the random stream, in place of the rank
  bool feedback = true;            // use the mean's residual, as in MessageContext
  const Strata* strata = nullptr;  // as in MessageContext; only for a rank's own values
};

/// Encodes and decodes the messages of one collective, and counts the costs.
class SumCoder {
 public:
  /// @param collective a string literal, named in errors
  SumCoder(const codec::Compressor& compressor, std::string_view collective)
      : compressor_(compressor), collective_(collective) {}

  /// Encodes the segments into `buffer`.
  /// @return the message, a part of `buffer`
  std::span<const std::byte> encode(const Hop& hop, const SumEncoder& encoder,
                                    std::span<const codec::Segment> segments,
                                    std::span<const float> values, std::span<std::byte> buffer,
                                    Traffic& traffic);

  /// values += scale * decoded
  /// @throws Error{wire} that names step, collective and sender
  void add(const Hop& hop, Rank from, std::span<const codec::Segment> segments,
           std::span<const std::byte> message, float scale, std::span<float> values,
           Traffic& traffic);

  /// values = decoded first + decoded second, in this order, for the whole bucket.
  /// @param messages of the ranks `from`
  void set_to_sum(const Hop& hop, std::span<const std::span<const std::byte>, 2> messages,
                  std::span<const Rank, 2> from, std::span<float> values, Traffic& traffic);

 private:
  const codec::Compressor& compressor_;
  std::string_view collective_;
  Workspace workspace_;  // never held across a pause
};

}  // namespace eqt::collective
