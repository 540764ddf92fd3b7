// SPDX-License-Identifier: Apache-2.0
// What encoding, decoding and handling messages cost on a core of this machine.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/cost.hpp"
#include "config/run_config.hpp"
#include "planner/checked_object.hpp"

namespace eqt::planner {

/// Holds what does not depend on the compressor. The defaults are guesses, for a recent x86 core.
struct MachineCosts {
  collective::CommunicationCosts communication = collective::kTcpCosts;
  double update = 1e-9;  // seconds a parameter of the optimizer
  std::vector<std::string> guessed = {"adding", "message", "update"};
};

/// Holds what `bench codecs --json` says of a compressor. GB/s are bytes of float32 a second of one
/// core.
struct CodecLine {
  std::string compressor;
  std::optional<int> bits{};  // none: it has no such key
  double encode_gb_s = 0, decode_add_gb_s = 0;
  std::optional<double> feedback_gb_s{};  // encoding with error feedback
  std::optional<double> variance{};       // |error|^2 / |values|^2 of normal values
  std::string simd{};                     // instructions; "" = not said
};

/// @param text lines of JSON as `bench codecs --json` prints them
/// @throws Error{usage} for other text, a wrong type, a number out of range
std::vector<CodecLine> parse_codec_lines(const std::string& text, const std::string& origin);

/// Reads what `bench codecs --json` and calibrations say of a compressor.
/// @throws Error{usage} unless the object has a compressor and its speeds
CodecLine codec_line_of(const config::Json& json, const std::string& place, OtherKeys others);

/// Writes the same keys; those that are not known are left out.
nlohmann::ordered_json json_of(const CodecLine& line);

/// Speeds of compressors: measured on this machine when they are first asked for, or given, by name
/// and bits, whatever the other keys.
class CodecSpeeds {
 public:
  /// Nothing has been measured yet.
  CodecSpeeds() = default;
  /// @param origin of the lines, for a note
  CodecSpeeds(const std::vector<CodecLine>& lines, const std::string& origin);

  /// @param feedback error feedback is part of encoding
  /// @throws Error{usage} if what was given has no such compressor: it names it
  collective::CodecCosts of(const config::RunConfig& config, const codec::Compressor& compressor,
                            bool feedback);
  /// Relative variance of one encoding of normal values; none: the lines do not say it.
  /// @throws Error{usage} as of()
  std::optional<double> variance_of(const config::RunConfig& config,
                                    const codec::Compressor& compressor);
  /// False if of() would measure or throw.
  bool knows(const config::RunConfig& config) const;
  /// Says where the speeds come from, for a note.
  const std::string& origin() const { return origin_; }

 private:
  struct Figures {
    collective::CodecCosts costs;
    double feedback_encode = 0;
    std::optional<double> variance;
  };
  const Figures* find_given(const config::RunConfig& config) const;
  const Figures& figures_of(const config::RunConfig& config, const codec::Compressor& compressor);

  std::map<std::string, Figures> given_;  // by name and bits
  // All keys count: the density of a sparse compressor changes its speed, too.
  std::vector<std::pair<config::RunConfig::Compressor, Figures>> measured_;
  bool measures_ = true;
  std::string origin_ = "measured now, on one core";
};

}  // namespace eqt::planner
