// SPDX-License-Identifier: Apache-2.0
// What encoding, decoding and handling messages cost on a core of this machine.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/rounds.hpp"
#include "config/run_config.hpp"

namespace eqt::planner {

/// What does not depend on the compressor. The defaults are guesses, for a recent x86 core.
struct MachineCosts {
  collective::CommunicationCosts communication = collective::kTcpCosts;
  double update = 1e-9;  // seconds a parameter of the optimizer
  std::vector<std::string> guessed = {"adding", "update", "message"};
};

/// Speeds of compressors: measured on this machine when they are first asked for, or read from
/// what `bench codecs --json` wrote.
class CodecSpeeds {
 public:
  /// Nothing has been measured yet.
  CodecSpeeds() = default;
  /// @param text lines of JSON as `bench codecs --json` prints them
  /// @throws Error{usage} for other text, or a line without a speed
  CodecSpeeds(const std::string& text, const std::string& origin);

  /// @param feedback error feedback is part of encoding
  /// @throws Error{usage} if the calibration has no such compressor: it names it
  collective::CodecCosts of(const config::RunConfig& config, const codec::Compressor& compressor,
                            bool feedback);
  /// Where the speeds come from, for a note.
  const std::string& origin() const { return origin_; }

 private:
  std::map<std::string, collective::CodecCosts> known_;
  bool measures_ = true;
  std::string origin_ = "measured now, on one core";
};

}  // namespace eqt::planner
