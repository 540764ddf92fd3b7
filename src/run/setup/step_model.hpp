// SPDX-License-Identifier: Apache-2.0
// The seconds of a step of this run, by the simulated events of src/base/forecast.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "adaptation/grade_adaptation.hpp"
#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "forecast/cluster.hpp"

namespace eqt::setup {

/// Ranks that are all alike: as many on each host, or one more on some, with the slowest link and
/// the slowest rank's times.
struct StepModel {
  const collective::CollectiveRow* collective = nullptr;
  int ranks = 1, hosts = 1;
  forecast::Link link = {};  // of a host; with one host: of a rank
  collective::CommunicationCosts communication = {};
  /// The values of a bucket travel together; buckets are in the order of sending.
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
  /// These are by grade: it sends float32 as it is. With such grades alone the mean is that of
  /// `dense` (collective/exact_grades.hpp); empty: never.
  std::vector<bool> float32 = {};
  bool shares_memory = false;                             // of `dense`
  std::size_t slots = collective::Collective::kMaxSlots;  // buckets under way at the same time
  bool overlap = true;
  /// In place of measured times; null: they are measured.
  struct Fixed {
    double computing = 0;               // of forward and backward pass
    std::vector<double> codec_seconds;  // to encode or decode a value, by grade
  };
  std::optional<Fixed> fixed = {};
};

/// These stand where nothing is measured, so that a run repeats itself: seconds to encode or decode
/// a value, and a link between hosts.
double fixed_codec_seconds(const codec::Compressor& compressor);
forecast::Link fixed_link(double megabits);

/// Returns the time from the start of the forward pass until the mean of the last bucket is there
/// [seconds].
/// @pre collective_cost() is defined for the model's collective and volumes
double predict_step(const StepModel& model, std::span<const adaptation::SliceLoad> slices,
                    const adaptation::StepSpeeds& speeds);

}  // namespace eqt::setup
