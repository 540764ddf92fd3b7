// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/host_facts.hpp"
#include "core/version.hpp"
#include "metrics/output_file.hpp"
#include "planner/calibration/fit_communication.hpp"

namespace eqt::planner {
namespace {

// Beyond this median error of the fit, a busy machine was measured.
constexpr double kMostError = 0.3;

void merge(const std::optional<MeasuredLinks>& from, std::optional<MeasuredLinks>& to) {
  if (!from || !to) {
    if (from) to = from;
    return;
  }
  to->count += from->count;
  to->latency_seconds = std::max(to->latency_seconds, from->latency_seconds);
  to->bytes_per_second = std::min(to->bytes_per_second, from->bytes_per_second);
  to->duplex_bytes_per_second =
      std::min(to->duplex_bytes_per_second, from->duplex_bytes_per_second);
}

std::string link_text(const MeasuredLinks& links) {
  return fmt::format("{:.4g} Mb/s, {:.4g} with both directions busy, {:.3g} ms",
                     links.bytes_per_second * 8 / 1e6, links.duplex_bytes_per_second * 8 / 1e6,
                     links.latency_seconds * 1e3);
}

}  // namespace

Calibration combine(const std::vector<Source>& sources, const std::vector<std::string>& paths,
                    std::vector<std::string>& notes) {
  Calibration result = {.processor = comm::processor_name(), .version = version()};
  std::vector<CollectiveLine> collectives;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    result.made_from.push_back(fmt::format("{}: {}", source.what, paths[i]));
    result.codecs.insert(result.codecs.end(), source.codecs.begin(), source.codecs.end());
    result.runs.insert(result.runs.end(), source.runs.begin(), source.runs.end());
    for (const MatmulSpeed& speed : source.matmul) add_matmul(speed, result.matmul);
    collectives.insert(collectives.end(), source.collectives.begin(), source.collectives.end());
    merge(source.between_hosts, result.between_hosts);
    merge(source.within_host, result.within_host);
  }
  const auto fit =
      fit_communication(collectives, CodecSpeeds(result.codecs, "the calibration"), notes);
  if (!fit) return result;
  const std::string how_well = fmt::format(
      "costs of messages fit {} lines of bench collectives with a median error of {:.0f} %",
      fit->lines, 100 * fit->median_error);
  if (fit->median_error > kMostError) {
    notes.push_back(how_well +
                    " and are not used; measure while the machine does nothing else, with at most "
                    "as many ranks as cores");
    return result;
  }
  result.communication = fit->costs;
  notes.push_back(how_well);
  return result;
}

void calibrate(const std::vector<std::string>& paths, const std::string& out) {
  std::vector<Source> sources;
  for (const std::string& path : paths) sources.push_back(read_source(path));
  std::vector<std::string> notes;
  const Calibration calibration = combine(sources, paths, notes);
  metrics::write_atomically(out, calibration_text(calibration));
  fmt::print("{}: {}, version {}\n", out, calibration.processor, calibration.version);
  fmt::print("* {} compressors\n", calibration.codecs.size());
  if (const auto& costs = calibration.communication)
    fmt::print("* {:.3g} us a message and {:.3g} ns a byte on each side, {:.3g} ns an addition\n",
               costs->message * 1e6, costs->byte * 1e9, costs->add * 1e9);
  if (calibration.between_hosts)
    fmt::print("* links between hosts: {}\n", link_text(*calibration.between_hosts));
  if (calibration.within_host)
    fmt::print("* links within a host: {}\n", link_text(*calibration.within_host));
  for (const RunTimes& run : calibration.runs)
    fmt::print("* {} in batches of {}: {:.4g} s forward and backward, {:.3g} s update\n", run.model,
               run.batch_size, run.step_seconds, run.update_seconds);
  for (const MatmulSpeed& speed : calibration.matmul)
    fmt::print("* {} with {} threads: {:.4g} Gflop/s in matrix products\n", speed.host,
               speed.threads, speed.flops * 1e-9);
  for (const std::string& note : notes) fmt::print("* {}\n", note);
}

}  // namespace eqt::planner
