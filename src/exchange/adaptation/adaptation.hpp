// SPDX-License-Identifier: Apache-2.0
// Adaptation of the compressor to the gradients of all ranks, the same on all ranks.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/levels/adaptive_codec.hpp"
#include "comm/communicator.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "pipeline/plan.hpp"

namespace eqt::adaptation {

/// A rank spends these times on a step [seconds]. They are medians of the steps since the last
/// observed one, or of the observed steps as long as all are observed.
struct StepSeconds {
  double forward = 0, backward = 0;
  double delayed = 0;              // of these: the computing thread waited for a core
  double communicating = 0;        // processor time of the communication thread in that time
  double all = 0;                  // until the mean of the last bucket was there
  std::vector<double> ready = {};  // by bucket: until it was complete, in the observed step
};

/// Holds what an adaptation has found; rank 0's is complete.
struct Findings {
  struct Slice {
    std::uint32_t slice = 0;    // as codec::Segment has it
    double gradient_noise = 0;  // variance of the mean over the batch
    std::uint8_t grade = 0;     // from now on
  };
  /// Variances of all slices together.
  double gradient_noise = 0, added_noise = 0;
  double noise_scale = 0;  // [samples]
  std::vector<Slice> slices;
};

/// The kind of decisions about grades in decisions.jsonl: a fingerprint of model and menu, then the
/// grade of each slice.
inline constexpr const char* kGradeDecisions = "grades";

/// A decision that another run can repeat.
struct Decision {
  std::vector<double> values;
  std::string why;
};

/// Observes the gradients of some steps and adapts the compressor after each of them. All ranks
/// call the same functions for the same steps.
class Adaptation {
 public:
  virtual ~Adaptation() = default;

  /// True if the gradients of this step are observed. Pure: the same on every rank.
  virtual bool observes(StepId step) const noexcept = 0;
  /// Observes a fusion bucket's local gradient before it is encoded. Not collective.
  virtual void observe(const pipeline::FusionBucket& bucket, std::span<const float> flat) = 0;
  /// A process that plays workers in turn calls this: the next gradient belongs to another worker.
  virtual void end_worker() = 0;
  /// Adapts the compressor to what all ranks observed. To be called after the last message of an
  /// observed step. Collective; nothing else may encode, decode or communicate at that time.
  /// @return on rank 0 one line about the change, if there was one
  virtual std::optional<std::string> adapt(StepId step) = 0;
  /// The applied mean of all values, and what the step took: to be called before adapt() by who
  /// knows them. The mean is the same on all ranks. Not collective.
  virtual void observe_mean(std::span<const float> /*mean*/, const StepSeconds& /*seconds*/) {}
  /// Each of these returns what the last adapt() found or decided, once.
  virtual std::optional<Findings> take_findings() { return {}; }
  virtual std::optional<Decision> take_decision() { return {}; }
  /// Returns what all of this many ranks together send in one adapt(); only the bytes are set.
  virtual Traffic traffic_among(int ranks) const = 0;

  /// @throws Error{data} if the restored state is impossible for this config
  virtual void visit_state(StateVisitor& visitor) = 0;
};

/// Steps whose gradients adapt levels: with `every` = 0 the paper's, 0, 100, 2000 and each 10000th;
/// else each multiple of `every`.
bool adapts_levels_at(StepId step, std::uint64_t every) noexcept;

/// Adapts the level table of `codec`: statistics of all ranks, added in rank order, levels fitted
/// by rank 0 in fp64 and broadcast. Keeps references.
std::unique_ptr<Adaptation> make_level_adaptation(comm::Communicator& comm,
                                                  codec::AdaptiveLevelCodec& codec,
                                                  std::uint64_t every);

}  // namespace eqt::adaptation
