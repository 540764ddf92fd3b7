// SPDX-License-Identifier: Apache-2.0
// Checks decoders with bytes that no encoder made.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "codec/message.hpp"
#include "support/decoder_table.hpp"

namespace eqt::test {

enum class DecodeResult {
  decoded,  // finite sums, the same bits when decoded again
  refused,  // Error{wire}
  broken,   // another error, sums that are not finite, or a second result: `reason` says which
};

struct DecodeReport {
  DecodeResult result;
  std::string reason;
};

/// Decodes `payload`, as one of `count` values, from memory of exactly its length.
DecodeReport try_payload(const Decoder& decoder, std::span<const std::byte> payload,
                         std::size_t count, Workspace& workspace);

/// The segments of hostile frames: compressed ones and a raw one between them.
const std::vector<codec::Segment>& hostile_segments();
inline constexpr std::size_t kHostileValues = 115;
inline constexpr StepId kHostileStep = 7;

/// A valid frame of hostile_segments().
std::vector<std::byte> frame_of(const Decoder& decoder, std::span<const float> values);

/// Decodes `frame` as such a message, and tests DGC's masking if the codec has it.
DecodeReport try_frame(const Decoder& decoder, std::span<const std::byte> frame,
                       Workspace& workspace);

}  // namespace eqt::test
