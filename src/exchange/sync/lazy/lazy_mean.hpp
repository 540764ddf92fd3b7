// SPDX-License-Identifier: Apache-2.0
// The mean of gradients of which ranks send a change only when it matters: LAQ, and LAG.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "sync/lazy/lazy_difference.hpp"

namespace eqt::sync {

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

/// One rank's part. All ranks have the same means, bit for bit.
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

}  // namespace eqt::sync
