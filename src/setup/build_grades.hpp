// SPDX-License-Identifier: Apache-2.0
// From config keys to the compressor auto's choice of grades.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/cost.hpp"
#include "collective/grade_adaptation.hpp"
#include "config/run_config.hpp"
#include "setup/build_synchronization.hpp"

namespace eqt::setup {

/// Whether a run with this config on so many ranks measures its links before the first step.
bool measures_links(const config::RunConfig& config, int ranks);

/// What a step takes by the formulas of collective/cost.hpp.
struct StepModel {
  const collective::CollectiveRow* collective = nullptr;
  collective::Volume volume;    // whose message_bytes are replaced
  collective::Machine machine;  // without the codec's speeds
  /// What travels together, in the order of sending.
  struct Bucket {
    double raw_bytes = 0;
    struct Share {
      std::size_t slice = 0;  // index in what predict_step() is asked about
      double part = 0;        // of the slice
    };
    std::vector<Share> shares;
  };
  std::vector<Bucket> buckets;
  bool overlap = true;
  /// In place of measured times; null: they are measured.
  struct Fixed {
    double forward = 0, backward = 0;
    std::vector<double> codec_seconds;  // to encode or decode a value, by grade
  };
  std::optional<Fixed> fixed = {};
};

/// Seconds of a step whose buckets are exchanged one after the other, each when it is complete;
/// those of the exchange as collective::predict_seconds() has them, by bytes of the buckets.
/// @pre collective_cost() is defined for the model's collective and volume
collective::StepPrediction predict_step(const StepModel& model,
                                        std::span<const collective::SliceLoad> slices,
                                        const collective::StepSpeeds& speeds);

/// @pre base.messages.compressor has mixed grades
/// @throws Error{usage}, Error{data}
std::unique_ptr<collective::Adaptation> build_grade_adaptation(const config::RunConfig& config,
                                                               const SyncBase& base);

}  // namespace eqt::setup
