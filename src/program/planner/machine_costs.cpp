// SPDX-License-Identifier: Apache-2.0
#include "planner/machine_costs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/measure_codec.hpp"
#include "codec/simd.hpp"
#include "config/document.hpp"
#include "core/error.hpp"

namespace eqt::planner {
namespace {

using collective::CodecCosts;
using config::Json;
using Type = Key::Type;

// ResNet-18's largest fusion bucket has about so many values.
constexpr std::size_t kMeasuredValues = std::size_t{1} << 18;

constexpr double kMostSpeed = 1e6;  // [GB/s]
constexpr Key kLineKeys[] = {
    {"compressor", Type::text, "its name", true},
    {"bits", Type::integer, "compressor.bits, if it has the key", false, 1, false, 32, true},
    {"encode_gb_s", Type::number, "GB of float32 encoded a second", true, 0, true, kMostSpeed},
    {"decode_add_gb_s", Type::number, "GB of float32 decoded a second", true, 0, true, kMostSpeed},
    {"feedback_gb_s", Type::number, "encoded with error feedback", false, 0, true, kMostSpeed,
     true},
    {"variance", Type::number, "|error|^2 / |values|^2", false, 0, false, 1e9, true},
    {"simd", Type::text, "instructions of the kernels"},
};

double seconds_a_value(double gb_s) { return sizeof(float) / (gb_s * 1e9); }

std::string name_and_bits(const std::string& name, std::optional<int> bits) {
  return name + " " + (bits ? std::to_string(*bits) : "*");
}

}  // namespace

CodecLine codec_line_of(const Json& json, const std::string& place, OtherKeys others) {
  const CheckedObject line(json, kLineKeys, place, others);
  CodecLine result = {.compressor = line.text("compressor"),
                      .encode_gb_s = line.number("encode_gb_s", 0),
                      .decode_add_gb_s = line.number("decode_add_gb_s", 0),
                      .simd = line.text("simd")};
  if (line.has("bits")) result.bits = line.integer("bits", 0);
  if (line.has("feedback_gb_s")) result.feedback_gb_s = line.number("feedback_gb_s", 0);
  if (line.has("variance")) result.variance = line.number("variance", 0);
  return result;
}

nlohmann::ordered_json json_of(const CodecLine& line) {
  nlohmann::ordered_json json = {{"compressor", line.compressor}};
  if (line.bits) json["bits"] = *line.bits;
  json["encode_gb_s"] = line.encode_gb_s;
  json["decode_add_gb_s"] = line.decode_add_gb_s;
  if (line.feedback_gb_s) json["feedback_gb_s"] = *line.feedback_gb_s;
  if (line.variance) json["variance"] = *line.variance;
  if (!line.simd.empty()) json["simd"] = line.simd;
  return json;
}

std::vector<CodecLine> parse_codec_lines(const std::string& text, const std::string& origin) {
  std::vector<CodecLine> result;
  for (const JsonLine& line :
       read_json_lines(text, origin, "a line of \"bench codecs --json\"", "compressor"))
    result.push_back(codec_line_of(line.value, line.place, OtherKeys::ignored));
  return result;
}

CodecSpeeds::CodecSpeeds(const std::vector<CodecLine>& lines, const std::string& origin)
    : measures_(false), origin_("read from " + origin) {
  for (const CodecLine& line : lines) {
    if (!line.simd.empty() && line.simd != codec::simd_target())
      origin_ = fmt::format("read from {}, of a machine with {}; this one has {}", origin,
                            line.simd, codec::simd_target());
    const CodecCosts costs = {seconds_a_value(line.encode_gb_s),
                              seconds_a_value(line.decode_add_gb_s)};
    given_[name_and_bits(line.compressor, line.bits)] = {
        .costs = costs,
        .feedback_encode = line.feedback_gb_s ? seconds_a_value(*line.feedback_gb_s) : costs.encode,
        .variance = line.variance};
  }
}

const CodecSpeeds::Figures* CodecSpeeds::find_given(const config::RunConfig& config) const {
  const std::string name(config.compressor.name->name);
  for (const auto& bits :
       {std::optional<int>(static_cast<int>(config.compressor.bits)), std::optional<int>()})
    if (const auto found = given_.find(name_and_bits(name, bits)); found != given_.end())
      return &found->second;
  return nullptr;
}

bool CodecSpeeds::knows(const config::RunConfig& config) const {
  return find_given(config) != nullptr;
}

const CodecSpeeds::Figures& CodecSpeeds::figures_of(const config::RunConfig& config,
                                                    const codec::Compressor& compressor) {
  if (const Figures* const given = find_given(config)) return *given;
  if (!measures_)
    fail(Kind::usage,
         "--calibration: expected a line with the compressor {} and {} bits, found "
         "none; run equant-train bench codecs --json --compressor {} --set compressor.bits={}",
         config.compressor.name->name, config.compressor.bits, config.compressor.name->name,
         config.compressor.bits);
  for (const auto& [settings, figures] : measured_)
    if (settings == config.compressor) return figures;
  const FlatBuffer values = bench::bench_gradient(kMeasuredValues);
  const bench::CodecFigures measured = bench::measure_codec(compressor, values.span());
  const CodecCosts costs = {seconds_a_value(measured.encode_gb_s),
                            seconds_a_value(measured.decode_add_gb_s)};
  const Figures figures = {.costs = costs,
                           .feedback_encode = measured.feedback_gb_s
                                                  ? seconds_a_value(*measured.feedback_gb_s)
                                                  : costs.encode,
                           .variance = measured.variance};
  return measured_.emplace_back(config.compressor, figures).second;
}

CodecCosts CodecSpeeds::of(const config::RunConfig& config, const codec::Compressor& compressor,
                           bool feedback) {
  const Figures& figures = figures_of(config, compressor);
  return {feedback ? figures.feedback_encode : figures.costs.encode, figures.costs.decode};
}

std::optional<double> CodecSpeeds::variance_of(const config::RunConfig& config,
                                               const codec::Compressor& compressor) {
  return figures_of(config, compressor).variance;
}

}  // namespace eqt::planner
