// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/fit_communication.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/measure_collective.hpp"
#include "collective/catalogue.hpp"
#include "collective/cost.hpp"
#include "core/error.hpp"
#include "planner/calibration/least_squares.hpp"
#include "setup/build_messages.hpp"

namespace eqt::planner {
namespace {

// Bytes of a line that differ by more from those of the default settings had other settings.
constexpr double kSameBytes = 0.05;

/// Returns what `bench collectives` measures, as a config with default settings.
std::optional<config::RunConfig> config_of(const CollectiveLine& line) {
  const nlohmann::json document = {{"synchronization", {{"collective", line.collective}}},
                                   {"compressor", {{"name", line.compressor}}}};
  try {
    return config::parse_config(document.dump(), "bench collectives", {});
  } catch (const Error& error) {
    if (error.kind() != Kind::usage) throw;
    return {};  // of another version, or a plugin's
  }
}

/// Returns true if a mean with this collective tells what messages cost; false for other versions'
/// names.
bool has_own_rounds(std::string_view name) {
  const collective::CollectiveRow* const row = collective::CollectiveRow::all().find(name);
  return row != nullptr && row->calibrates;
}

double seconds_of(const std::vector<forecast::Round>& rounds, double after) {
  double sum = after;
  for (const forecast::Round& round : rounds) sum += round.seconds_before * round.times;
  return sum;
}

/// The seconds that the compressor takes, and how often each cost occurs. Nothing, and the reason,
/// if the line cannot be used.
std::optional<Equation> equation_of(const CollectiveLine& line, CodecSpeeds& codecs,
                                    std::string& reason) {
  reason = "collectives without rounds of their own";
  if (!has_own_rounds(line.collective)) return {};
  reason = "messages to other hosts, whose link is in the times";
  if (line.on_host_bytes < 0.999 * line.wire_bytes) return {};
  reason = "settings that this program does not have";
  const auto config = config_of(line);
  if (!config) return {};
  const auto compressor = config->compressor.make();
  const collective::CollectiveRow& row = *config->synchronization.collective;
  const auto buckets = setup::make_plan(*config, bench::bench_layout(line.values), *compressor);
  const auto volumes = collective::bucket_volumes(*compressor, buckets, line.ranks, 1);
  std::vector<collective::CollectiveCost> costs;
  double bytes = 0, coded = 0;
  for (const collective::Volume& volume : volumes) {
    const auto cost = collective::collective_cost(row, volume);
    if (!cost) return {};
    costs.push_back(*cost);
    bytes += cost->sent_bytes;
    coded += cost->encoded_values + cost->decoded_values;
  }
  reason = "other settings of the compressor than the default ones";
  if (std::abs(bytes - line.wire_bytes) > kSameBytes * bytes) return {};
  reason = "compressors whose speeds are not in the calibration";
  collective::CodecCosts codec;
  if (coded > 0) {
    if (!codecs.knows(*config)) return {};
    codec = codecs.of(*config, *compressor, false);
  }
  const auto seconds_with = [&](const collective::CodecCosts& speeds,
                                const collective::CommunicationCosts& machine) {
    double sum = 0;
    for (std::size_t b = 0; b < costs.size(); ++b) {
      double after = 0;
      const auto rounds = rounds_of(row, costs[b], volumes[b], speeds, machine, after);
      sum += seconds_of(rounds, after);
    }
    return sum;
  };
  return Equation{.counts = {seconds_with({}, {.add = 1}), seconds_with({}, {.message = 1}),
                             seconds_with({}, {.byte = 1})},
                  .seconds = line.seconds - seconds_with(codec, {})};
}

}  // namespace

std::optional<CommunicationFit> fit_communication(const std::vector<CollectiveLine>& lines,
                                                  CodecSpeeds codecs,
                                                  std::vector<std::string>& notes) {
  std::vector<Equation> equations;
  std::vector<double> measured;
  std::map<std::string, int> left_out;
  for (const CollectiveLine& line : lines) {
    std::string reason;
    const auto equation = equation_of(line, codecs, reason);
    if (!equation) {
      ++left_out[reason];
      continue;
    }
    equations.push_back(*equation);
    measured.push_back(line.seconds);
  }
  for (const auto& [reason, count] : left_out)
    notes.push_back(fmt::format("{} {} of bench collectives left out: {}", count,
                                count == 1 ? "line" : "lines", reason));
  const auto fit = least_squares(equations, measured);
  if (!fit) {
    if (!lines.empty())
      notes.emplace_back(
          "the remaining lines of bench collectives do not determine the costs of messages, bytes "
          "and additions; give more collectives and sizes");
    return {};
  }
  CommunicationFit result = {.costs = {.add = (*fit)[0], .message = (*fit)[1], .byte = (*fit)[2]},
                             .lines = equations.size()};
  std::vector<double> errors;
  for (std::size_t e = 0; e < equations.size(); ++e) {
    double predicted = 0;
    for (std::size_t i = 0; i < 3; ++i) predicted += equations[e].counts[i] * (*fit)[i];
    errors.push_back(std::abs(predicted - equations[e].seconds) / measured[e]);
  }
  std::ranges::nth_element(errors, errors.begin() + std::ssize(errors) / 2);
  result.median_error = errors[errors.size() / 2];
  return result;
}

}  // namespace eqt::planner
