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

/// Solves A x = b for the unknowns of `used`; the others are 0. Nothing if A is singular.
std::optional<std::array<double, 3>> solve(const std::array<std::array<double, 3>, 3>& a,
                                           const std::array<double, 3>& b, unsigned used) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < 3; ++i)
    if ((used >> i) & 1U) at.push_back(i);
  const std::size_t n = at.size();
  std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) rows[i][j] = a[at[i]][at[j]];
    rows[i][n] = b[at[i]];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r)
      if (std::abs(rows[r][i]) > std::abs(rows[pivot][i])) pivot = r;
    std::swap(rows[i], rows[pivot]);
    if (!(std::abs(rows[i][i]) > 1e-9)) return {};  // columns have norm 1
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = rows[r][i] / rows[i][i];
      for (std::size_t c = i; c <= n; ++c) rows[r][c] -= factor * rows[i][c];
    }
  }
  std::array<double, 3> x{};
  for (std::size_t i = 0; i < n; ++i) x[at[i]] = rows[i][n] / rows[i][i];
  return x;
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

std::optional<std::array<double, 3>> least_squares(std::span<const Equation> equations,
                                                   std::span<const double> weights) {
  // Counts of additions, messages and bytes differ by powers of ten: columns are scaled to norm 1.
  std::array<double, 3> norm{};
  for (std::size_t e = 0; e < equations.size(); ++e)
    for (std::size_t i = 0; i < 3; ++i) norm[i] += std::pow(equations[e].counts[i] / weights[e], 2);
  for (double& n : norm) {
    if (!(n > 0)) return {};
    n = std::sqrt(n);
  }
  std::array<std::array<double, 3>, 3> a{};
  std::array<double, 3> b{};
  double square = 0;
  for (std::size_t e = 0; e < equations.size(); ++e) {
    const double y = equations[e].seconds / weights[e];
    square += y * y;
    for (std::size_t i = 0; i < 3; ++i) {
      const double x = equations[e].counts[i] / weights[e] / norm[i];
      b[i] += x * y;
      for (std::size_t j = 0; j < 3; ++j)
        a[i][j] += x * equations[e].counts[j] / weights[e] / norm[j];
    }
  }
  if (!solve(a, b, 7)) return {};  // not determined
  std::array<double, 3> best{};
  double least = square;
  for (unsigned used = 1; used < 8; ++used) {
    const auto x = solve(a, b, used);
    if (!x || std::ranges::any_of(*x, [](double c) { return c < 0; })) continue;
    double error = square;
    for (std::size_t i = 0; i < 3; ++i) {
      error -= 2 * (*x)[i] * b[i];
      for (std::size_t j = 0; j < 3; ++j) error += (*x)[i] * a[i][j] * (*x)[j];
    }
    if (error < least) {
      least = error;
      best = *x;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) best[i] /= norm[i];
  return best;
}

}  // namespace eqt::planner
