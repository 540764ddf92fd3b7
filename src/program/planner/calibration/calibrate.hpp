// SPDX-License-Identifier: Apache-2.0
// `plan --calibrate`: one document from what other verbs measured. Private to the room.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/calibration/calibration.hpp"

namespace eqt::planner {

/// A line of `bench collectives --json`.
struct CollectiveLine {
  std::string collective, compressor;
  std::uint64_t values = 0;
  int ranks = 2;
  double seconds = 0;  // median of the slowest rank
  double wire_bytes = 0, on_host_bytes = 0;
};

/// Holds what a file or folder says.
struct Source {
  std::string what;  // "doctor", "bench codecs", "bench collectives", "a run"
  std::vector<CodecLine> codecs{};
  std::vector<CollectiveLine> collectives{};
  std::optional<MeasuredLinks> between_hosts{}, within_host{};
  std::vector<RunTimes> runs{};
  std::vector<MatmulSpeed> matmul{};
};

/// @param path a file of `doctor --json`, `bench codecs --json` or `bench collectives --json`, or a
/// run folder, or a folder of them
/// @throws Error{usage} for other files and malformed ones, Error{data} for a folder without a run
/// whose computing times are known
Source read_source(const std::string& path);

/// The text of a file. @throws Error{usage} as read_source()
Source parse_source(const std::string& text, const std::string& origin);

/// Adds a speed that was measured; of those of one host with as many threads the least stays.
void add_matmul(const MatmulSpeed& speed, std::vector<MatmulSpeed>& all);

/// The medians of a run's steps, for one rank. @throws Error{data} for a run that did not compute
/// (emulated), one without steps and a record that is none
RunTimes run_times(const std::string& folder);

/// Puts sources together, in their order. Links of several documents of doctor are those of one.
/// @param paths of the sources, for `made_from`
/// @param notes gets what was left out, and how well the costs of messages fit
Calibration combine(const std::vector<Source>& sources, const std::vector<std::string>& paths,
                    std::vector<std::string>& notes);

/// Reads the sources, writes the document and prints what it holds.
/// @throws Error{usage}, Error{data} as read_source(), Error{output}
void calibrate(const std::vector<std::string>& paths, const std::string& out);

}  // namespace eqt::planner
