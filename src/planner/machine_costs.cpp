// SPDX-License-Identifier: Apache-2.0
#include "planner/machine_costs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/measure_codec.hpp"
#include "codec/simd.hpp"
#include "config/document.hpp"
#include "core/error.hpp"

namespace eqt::planner {
namespace {

using collective::CodecCosts;
using config::Json;

// ResNet-18's largest fusion bucket has about so many values.
constexpr std::size_t kMeasuredValues = std::size_t{1} << 18;

std::string key_of(const config::RunConfig& config, bool feedback) {
  const auto& c = config.compressor;
  return fmt::format("{} {} {}", c.name->name, c.bits, feedback);
}

double seconds_a_value(double gb_s) { return sizeof(float) / (gb_s * 1e9); }

double speed_in(const Json& line, const char* key, const std::string& origin) {
  const double speed = line.contains(key) && line[key].is_number() ? line[key].get<double>() : 0;
  if (!(speed > 0 && speed < 1e6))
    fail(Kind::usage, "{}: expected lines of \"bench codecs --json\" with \"{}\" above 0, found {}",
         origin, key, config::shown(line));
  return speed;
}

}  // namespace

CodecSpeeds::CodecSpeeds(const std::string& text, const std::string& origin)
    : measures_(false), origin_("read from " + origin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const Json json = config::parse_value(line, origin);
    if (!json.is_object() || !json.contains("compressor") || !json["compressor"].is_string())
      fail(Kind::usage, "{}: expected lines of \"bench codecs --json\", found {}", origin,
           config::shown(json));
    const std::string simd = json.value("simd", std::string(codec::simd_target()));
    if (simd != codec::simd_target())
      origin_ = fmt::format("read from {}, of a machine with {}; this one has {}", origin, simd,
                            codec::simd_target());
    CodecCosts costs = {seconds_a_value(speed_in(json, "encode_gb_s", origin)),
                        seconds_a_value(speed_in(json, "decode_add_gb_s", origin))};
    const bool has_bits = json.contains("bits") && json["bits"].is_number_integer();
    // A line without bits is of a compressor that has no such key.
    const std::string name = json["compressor"].get<std::string>();
    const std::string bits = has_bits ? std::to_string(json["bits"].get<int>()) : "*";
    known_[fmt::format("{} {} false", name, bits)] = costs;
    if (json.contains("feedback_gb_s") && json["feedback_gb_s"].is_number())
      costs.encode = seconds_a_value(speed_in(json, "feedback_gb_s", origin));
    known_[fmt::format("{} {} true", name, bits)] = costs;
  }
}

CodecCosts CodecSpeeds::of(const config::RunConfig& config, const codec::Compressor& compressor,
                           bool feedback) {
  const std::string key = key_of(config, feedback);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (!measures_) {
    const auto any = known_.find(fmt::format("{} * {}", config.compressor.name->name, feedback));
    if (any != known_.end()) return any->second;
    fail(Kind::usage,
         "--calibration: expected a line with the compressor {} and {} bits, found "
         "none; run equant-train bench codecs --json --compressor {} --set compressor.bits={}",
         config.compressor.name->name, config.compressor.bits, config.compressor.name->name,
         config.compressor.bits);
  }
  const FlatBuffer values = bench::bench_gradient(kMeasuredValues);
  const bench::CodecFigures figures = bench::measure_codec(compressor, values.span());
  CodecCosts costs = {seconds_a_value(figures.encode_gb_s),
                      seconds_a_value(figures.decode_add_gb_s)};
  if (feedback && figures.feedback_gb_s) costs.encode = seconds_a_value(*figures.feedback_gb_s);
  known_[key] = costs;
  return costs;
}

}  // namespace eqt::planner
