// SPDX-License-Identifier: Apache-2.0
// Gradient averaging, overlapped with the backward pass.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "device/gradient_encoder.hpp"
#include "pipeline/plan.hpp"
#include "sync/divergence.hpp"
#include "sync/synchronizer.hpp"
#include "sync/timeline.hpp"

namespace eqt::sync {

struct GradientAveragingOptions {
  std::uint64_t run_seed = 1;
  /// Buckets are sent on a communication thread during backward; false: in finish(), in the same
  /// order and with the same result.
  bool overlap = true;
  bool lossy = false;  // measure the quantization variance every few steps
  float largest = std::numeric_limits<float>::max();  // magnitude that the compressor can send
  /// Density of sparse compressors in an epoch; unset = the compressor's own.
  std::function<double(std::uint64_t epoch)> density;
  /// Adapts the compressor to the gradients; null: no adaptation.
  adaptation::Adaptation* adaptation = nullptr;
  std::optional<comm::Fault> fault = {};  // happens when its bucket's mean begins
  Divergence* divergence = nullptr;  // gets gradients that are not finite; null: they are errors
  Timeline* timeline = nullptr;      // null: nothing is noted
  /// Encodes gradients on a device in steps in which the host need not read them; null: the host
  /// encodes.
  device::GradientEncoder* encoder = nullptr;
  /// Sets whether the next pass leaves its gradient on the device; for an encoder.
  std::function<void(bool)> leave_on_device = {};
  bool profiles = false;  // slices are announced while backward runs: rank 0 notes when
};

struct AlgorithmParts;
struct AlgorithmSettings;

/// The options of a mean of gradients, or of what takes their place.
GradientAveragingOptions averaging_options(const AlgorithmParts& parts,
                                           const AlgorithmSettings& settings);

/// Averages a part of the buckets in each of its steps (pipeline::fragments_of).
class FragmentAveraging : public Synchronizer {
 public:
  /// The next begin() is of this fragment.
  virtual void select(std::size_t fragment) = 0;
  virtual std::size_t fragments() const = 0;
  /// The values of a fragment.
  virtual std::span<const pipeline::Range> values_of(std::size_t fragment) const = 0;
  /// Does what LateExchange::rethrow() does, for who calls finish() in a later step than begin().
  virtual void rethrow() = 0;
};

/// Keeps references to all arguments. `memory` may be null.
/// @param fragments at most the buckets of the plan; 1: all buckets in each step
std::unique_ptr<FragmentAveraging> make_fragment_averaging(
    comm::Communicator& comm, collective::Collective& collective,
    collective::GradientMemory* memory, std::vector<pipeline::FusionBucket> plan,
    std::size_t fragments, const Layout& layout, std::span<float> gradient,
    const GradientAveragingOptions& options);

/// Averages all buckets in each step. Keeps references to all arguments. `memory` may be null.
std::unique_ptr<Synchronizer> make_gradient_averaging(
    comm::Communicator& comm, collective::Collective& collective,
    collective::GradientMemory* memory, std::vector<pipeline::FusionBucket> plan,
    const Layout& layout, std::span<float> gradient, const GradientAveragingOptions& options);

}  // namespace eqt::sync
