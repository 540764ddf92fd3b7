// SPDX-License-Identifier: Apache-2.0
// GradientEncoder: a rank's own gradient becomes payloads in device memory, fusion bucket by fusion
// bucket, while the host goes on. Only payloads come to the host, and the values of segments that
// are sent or added as they are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/message.hpp"
#include "core/layout.hpp"
#include "device/queue.hpp"

namespace eqt::device {

/// In a step: begin(); start() for each bucket, on the thread that trains; then, on the thread that
/// sends, finish() for each. The bytes are those that the host's codec would write.
class GradientEncoder : public codec::Payloads {
 public:
  virtual void begin(std::uint64_t run_seed, StepId step) = 0;
  /// Queues the encoding of a bucket, whose gradient is complete in device memory.
  virtual void start(std::size_t bucket) = 0;
  /// Is what was started on the host?
  virtual bool is_done(std::size_t bucket) const = 0;
  /// Waits for it. Then of() has the payloads of its segments, and the host's gradient the plain
  /// values.
  /// @return false: a value is not finite; the host's gradient has the bucket's own values, without
  /// the residual, and refuse() follows
  virtual bool finish(std::size_t bucket) = 0;
  /// @throws Error{diverged} as the compressor
  [[noreturn]] virtual void refuse(std::size_t bucket) = 0;

  /// Until the next begin() the residual is the host's, which may change it. Between steps.
  virtual void return_residual() = 0;
};

/// The fields say what to do with the values of a fusion bucket.
struct EncodedBucket {
  std::size_t begin = 0, end = 0;          // in the flat gradient
  std::vector<codec::Segment> encoded;     // become payloads
  std::vector<const Strata*> strata = {};  // of each, see codec::EncodeContext; empty: all null
  std::vector<codec::Segment> plain;       // come to the host as they are
};

struct GradientEncoderParts {
  const codec::Compressor& compressor;  // has_kernels() of it
  std::unique_ptr<Queue> queue;
  const float* device_gradient = nullptr;  // (d), in device memory
  std::span<float> gradient;               // (d), the host's
  std::span<float> residual = {};          // (d), the host's; empty: no error feedback
  bool plain_feedback = false;             // plain values take their residuals with them
  Rank rank = 0;                           // names the random streams
};

/// Takes device memory for payloads and the residual, and pinned memory for payloads. Whatever the
/// parts refer to outlives it.
/// @param buckets by their index
/// @throws Error{usage} if there is not enough memory
std::unique_ptr<GradientEncoder> make_gradient_encoder(GradientEncoderParts parts,
                                                       std::vector<EncodedBucket> buckets);

}  // namespace eqt::device
