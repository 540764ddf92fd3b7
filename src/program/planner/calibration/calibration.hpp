// SPDX-License-Identifier: Apache-2.0
// What was measured of a machine, in one document: what `plan --calibrate` writes and
// `plan --calibration` reads.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/machine_costs.hpp"

namespace eqt::planner {

/// Links of a job, from `doctor --json`: of all links in both directions the lowest rates and the
/// longest latency.
struct MeasuredLinks {
  std::uint64_t count = 0;  // directions that were measured
  double latency_seconds = 0;
  double bytes_per_second = 0;         // of payload, while nothing is sent back
  double duplex_bytes_per_second = 0;  // while the other direction sends, too
};

/// When the gradient of a step was ready, as the run's record `profile` has it [seconds].
struct Profile {
  double forward = 0, backward = 0;
  struct Slice {
    std::string name;  // of the tensor
    double ready = 0;  // since the start of the forward pass
  };
  std::vector<Slice> slices{};  // the last one first
};

/// Seconds of a run that computed: medians over its steps.
struct RunTimes {
  std::string run, host;                  // folder; host of rank 0
  std::string model, precision, dataset;  // as the config names them
  std::uint64_t parameters = 0, threads_per_rank = 0;
  std::uint64_t batch_size = 0;  // of a rank
  std::uint64_t steps = 0;       // whose records were read
  double step_seconds = 0;       // forward and backward pass of a batch
  double update_seconds = 0;
  double sent_bytes = 0;             // by a rank in a step
  std::optional<Profile> profile{};  // none: the run has no such record
};

/// Says what a rank reaches in matrix products, from `doctor --json`: the least of a host's ranks.
struct MatmulSpeed {
  std::string host;
  std::uint64_t threads = 0;
  double flops = 0;  // a second; multiply-adds count twice
};

/// These are guessed by multiply-adds where no run has a profile.
inline constexpr const char* kReadyMoments = "moments at which gradients are ready";

struct Calibration {
  std::string processor, version;  // of the machine and the program that made it
  std::vector<std::string> made_from{};
  std::vector<CodecLine> codecs{};
  std::optional<collective::CommunicationCosts> communication{};  // from `bench collectives`
  std::optional<MeasuredLinks> between_hosts{}, within_host{};
  std::vector<RunTimes> runs{};
  std::vector<MatmulSpeed> matmul{};  // each host and number of threads once

  /// Defaults where nothing was measured.
  MachineCosts machine() const;
  /// Measured on first use where no speeds were given.
  CodecSpeeds codec_speeds(const std::string& origin) const;
};

/// @param text a calibration, or lines of `bench codecs --json`, which is one with speeds only
/// @throws Error{usage}: malformed, an unknown key (with the nearest), a wrong type, a number out
/// of range
Calibration parse_calibration(const std::string& text, const std::string& origin);

/// The document, pretty-printed.
std::string calibration_text(const Calibration& calibration);

/// Returns what a reader has to know of a calibration that was made by another program or on
/// another processor than this one.
std::vector<std::string> differences(const Calibration& calibration, const std::string& processor,
                                     const std::string& version);

}  // namespace eqt::planner
