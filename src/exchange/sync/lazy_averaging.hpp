// SPDX-License-Identifier: Apache-2.0
// Gradient descent of which ranks leave out messages that would change little: LAQ, and LAG.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "sync/divergence.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

/// The largest number of bits of a code.
inline constexpr unsigned kMostLazyBits = 16;

/// A rank sends this of its gradient: the difference from what the others know already, on a
/// uniform grid or as float32.
///
/// The grid is that of LAQ (Sun et al., NeurIPS 2019, arXiv:1909.07588, equation 5): 2^bits points
/// from -R to R, R being the largest magnitude of the difference. With 0 bits the difference is
/// float32.
///
/// A frame of codec number 23 (codec/FORMAT.md). Its length says whether the rank has sent.
class LazyDifference {
 public:
  /// @param count values of the gradient
  /// @param bits  at most kMostLazyBits; 0 = float32
  LazyDifference(std::size_t count, unsigned bits);

  /// Returns the length of a frame with a difference [bytes].
  std::size_t frame_bytes() const noexcept;

  struct Squares {
    double sent = 0;   // |delta|^2
    double error = 0;  // |gradient - known - delta|^2; 0 for float32
    double exact = 0;  // |gradient - known|^2
  };
  /// Writes the frame of delta, which is gradient - known on the grid.
  /// @param frame (frame_bytes())
  /// @throws Error{diverged} if the difference has no float32
  Squares encode(std::span<const float> gradient, std::span<const double> known, StepId step,
                 std::span<std::byte> frame) const;

  /// Writes the frame of a rank that sends nothing. @return its bytes
  std::size_t encode_nothing(StepId step, std::span<std::byte> frame) const;

  /// values += delta, unless the frame says that its rank has sent nothing.
  /// @return whether it has sent
  /// @throws Error{wire} on any malformed frame
  bool decode_add(std::span<const std::byte> frame, StepId step, std::span<double> values) const;

 private:
  std::size_t payload_bytes() const noexcept;
  Squares encode_exact(std::span<const float> gradient, std::span<const double> known,
                       std::span<std::byte> payload) const;
  Squares encode_codes(std::span<const float> gradient, std::span<const double> known,
                       std::span<std::byte> payload) const;
  void add_exact(std::span<const std::byte> payload, std::span<double> values) const;
  void add_codes(std::span<const std::byte> payload, std::span<double> values) const;
  float point(double radius, std::uint32_t code) const noexcept;

  const std::size_t count_;
  const unsigned bits_;
  const std::uint32_t last_code_;  // 2^bits - 1
};

struct LazyMeanOptions {
  unsigned bits = 4;            // of a code; 0: differences are float32 (LAG)
  std::size_t history = 10;     // D: steps whose movement decides, at least 1
  double weight = 0.8;          // sum of the weights xi of those steps
  std::uint64_t silence = 100;  // a rank sends at least once in so many steps; 1: in every step
};

struct LazyMeanResult {
  Traffic traffic = {};  // seconds and what was encoded; the caller counts bytes
  std::size_t senders = 0;
  /// |error|^2 / |difference|^2 of the rank's own message, if it sent one with codes.
  std::optional<double> quantization_variance = {};
};

/// The mean of gradients of which ranks send a change only when it matters: one rank's part. All
/// ranks have the same means, bit for bit.
class LazyMean {
 public:
  /// Keeps a reference. @param count values of the gradient
  LazyMean(comm::Communicator& comm, std::size_t count, const LazyMeanOptions& options);

  /// The gradient becomes the mean of what all ranks know of each other's gradients. Collective.
  /// @throws Error{wire}; Error{diverged} if a change has no float32
  LazyMeanResult mean(StepId step, std::span<float> gradient);

  /// These count the messages of all ranks so far.
  std::uint64_t messages_sent() const noexcept { return sent_; }
  std::uint64_t messages_skipped() const noexcept { return skipped_; }

  /// Returns what the others know of this rank's gradient.
  std::span<const double> known() const noexcept { return known_; }

  /// With another number of ranks all begin anew: every rank sends in the next step.
  void visit_state(StateVisitor& visitor);

 private:
  bool may_skip(const LazyDifference::Squares& squares) const;
  /// @return bytes of this rank's frame
  std::size_t encode(StepId step, std::span<const float> gradient, LazyMeanResult& result);
  void exchange(std::size_t own_bytes);
  void add_up(StepId step, std::size_t own_bytes, LazyMeanResult& result);

  comm::Communicator& comm_;
  const LazyMeanOptions options_;
  const LazyDifference difference_;
  std::vector<double> known_;    // (d) sum of what this rank has sent
  std::vector<double> sum_;      // (d) of all ranks' known_; the same on all ranks
  std::vector<double> squares_;  // (D) |mean|^2 of the last steps, that of step s at s mod D
  double error_ = 0;             // |error|^2 of the last message
  std::uint64_t quiet_;          // steps since the last message
  std::uint64_t sent_ = 0, skipped_ = 0;
  std::vector<std::byte> own_;
  std::vector<std::vector<std::byte>> received_;  // by rank; empty at its own place
  std::vector<comm::Outgoing> outgoing_;
  std::vector<comm::Incoming> incoming_;
};

struct LazyAveragingParts {
  comm::Communicator& comm;
  std::span<const float> parameters;
  std::span<float> gradient;
  const Layout& layout;              // of both
  Divergence* divergence = nullptr;  // gets gradients that are not finite; null: they are errors
};

struct LazyAveragingOptions {
  LazyMeanOptions rule = {};
  float weight_decay = 0;  // part of the gradient that is sent, not of the update
  StepId total_steps = 0;  // the last step's result notes how many messages were sent
  std::optional<comm::Fault> fault = {};  // happens in its step, as bucket 0
};

/// The gradient becomes that of LazyMean in finish(): a rank decides about all of it.
std::unique_ptr<Synchronizer> make_lazy_averaging(const LazyAveragingParts& parts,
                                                  const LazyAveragingOptions& options);

}  // namespace eqt::sync
