// SPDX-License-Identifier: Apache-2.0
// The seconds of a step of this run with given grades, by the simulated events of src/forecast.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collective/cost.hpp"
#include "collective/grade_adaptation.hpp"
#include "collective/rounds.hpp"
#include "forecast/cluster.hpp"

namespace eqt::setup {

/// Ranks that are all alike: as many on each host, with the slowest link and the slowest rank's
/// times.
struct StepModel {
  const collective::CollectiveRow* collective = nullptr;
  int ranks = 1, hosts = 1;
  forecast::Link link = {};  // of a host; with one host: of a rank
  collective::CommunicationCosts communication = {};
  /// What travels together, in the order of sending.
  struct Bucket {
    collective::Volume volume = {};  // whose message_bytes are replaced
    double raw_bytes = 0;            // frame header and values that are not compressed
    struct Share {
      std::size_t slice = 0;  // index in what predict_step() is asked about
      double part = 0;        // of the slice
    };
    std::vector<Share> shares = {};
    double ready = 1;  // at this part of forward and backward pass, if that is not measured
  };
  std::vector<Bucket> buckets = {};
  bool overlap = true;
  /// In place of measured times; null: they are measured.
  struct Fixed {
    double computing = 0;               // of forward and backward pass
    std::vector<double> codec_seconds;  // to encode or decode a value, by grade
  };
  std::optional<Fixed> fixed = {};
};

/// From the start of the forward pass until the mean of the last bucket is there [seconds].
/// @pre collective_cost() is defined for the model's collective and volumes
double predict_step(const StepModel& model, std::span<const collective::SliceLoad> slices,
                    const collective::StepSpeeds& speeds);

}  // namespace eqt::setup
