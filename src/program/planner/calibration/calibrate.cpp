// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/host_facts.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"
#include "planner/calibration/fit_communication.hpp"
#include "report/members.hpp"
#include "report/read_run.hpp"

namespace eqt::planner {
namespace {

using config::Json;
using Type = Key::Type;

constexpr Key kDoctorKeys[] = {
    {"version", Type::text, "of the program", true},
    {"links", Type::list, "measured links", true},
    {"ranks", Type::list, "facts of ranks", true},
};
constexpr Key kDoctorRankKeys[] = {
    {"host", Type::text, "where it is", true},
    {"threads", Type::integer, "that compute", true, 1, false, 65536},
    {"matmul_flops", Type::number, "of matrix products; 0: not measured", true, 0, false, 1e18},
};
constexpr Key kDoctorLinkKeys[] = {
    {"from", Type::integer, "rank", true, 0, false, 1e6},
    {"to", Type::integer, "rank", true, 0, false, 1e6},
    {"same_host", Type::flag, "whether both ranks are on one host", true},
    {"latency_seconds", Type::number, "of a message", true, 0, false, 1e6},
    {"bytes_per_second", Type::number, "in one direction", true, 0, true},
    {"duplex_bytes_per_second", Type::number, "while both directions are busy", true, 0, true},
};
constexpr Key kCollectiveKeys[] = {
    {"collective", Type::text, "its name", true},
    {"ran", Type::text, "the collective that auto stood for"},
    {"compressor", Type::text, "its name", true},
    {"values", Type::integer, "size of the gradient", true, 1, false, 1 << 28},
    {"ranks", Type::integer, "of the job", true, 2, false, 100'000},
    {"median_ms", Type::number, "of the slowest rank", true, 0, true, 1e9},
    {"wire_bytes", Type::number, "that a rank sends", true},
    {"on_host_bytes", Type::number, "of these, to ranks of the same host", true},
};

void take_link(const CheckedObject& link, std::optional<MeasuredLinks>& links) {
  const double latency = link.number("latency_seconds", 0);
  const double rate = link.number("bytes_per_second", 0);
  const double duplex = link.number("duplex_bytes_per_second", 0);
  if (!links) {
    links = {.count = 1,
             .latency_seconds = latency,
             .bytes_per_second = rate,
             .duplex_bytes_per_second = duplex};
    return;
  }
  ++links->count;
  links->latency_seconds = std::max(links->latency_seconds, latency);
  links->bytes_per_second = std::min(links->bytes_per_second, rate);
  links->duplex_bytes_per_second = std::min(links->duplex_bytes_per_second, duplex);
}

Source parse_doctor(const std::string& text, const std::string& origin) {
  const Json document = config::parse_document(text, origin, "document of doctor --json");
  const CheckedObject object(document, kDoctorKeys, origin, OtherKeys::ignored);
  Source source = {.what = "doctor"};
  const Json& links = object.list("links");
  for (std::size_t i = 0; i < links.size(); ++i) {
    const CheckedObject link(links[i], kDoctorLinkKeys, fmt::format("{}: links[{}]", origin, i),
                             OtherKeys::ignored);
    take_link(link, link.flag("same_host") ? source.within_host : source.between_hosts);
  }
  const Json& ranks = object.list("ranks");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const CheckedObject rank(ranks[i], kDoctorRankKeys, fmt::format("{}: ranks[{}]", origin, i),
                             OtherKeys::ignored);
    add_matmul({.host = rank.text("host"),
                .threads = static_cast<std::uint64_t>(rank.number("threads", 1)),
                .flops = rank.number("matmul_flops", 0)},
               source.matmul);
  }
  return source;
}

CollectiveLine collective_line_of(const CheckedObject& line) {
  return {.collective = line.text("ran", line.text("collective")),
          .compressor = line.text("compressor"),
          .values = static_cast<std::uint64_t>(line.number("values", 1)),
          .ranks = line.integer("ranks", 2),
          .seconds = line.number("median_ms", 0) / 1e3,
          .wire_bytes = line.number("wire_bytes", 0),
          .on_host_bytes = line.number("on_host_bytes", 0)};
}

[[noreturn]] void fail_source(const std::string& place, const std::string& found) {
  fail(Kind::usage,
       "--from: expected what doctor, bench codecs or bench collectives print with --json, or a "
       "run folder, found in {}: {}; give such a file",
       place, found);
}

// The first step allocates memory; the second may still choose kernels.
constexpr std::uint64_t kFirstStep = 3;
constexpr double kMostStepSeconds = 1e6;

/// Figures of all steps, by kind.
struct Steps {
  std::vector<double> compute, update, sent_bytes;
  std::optional<Profile> profile{};
};

double seconds_in(const report::Members& seconds, const char* key, bool above_0 = false) {
  const figures::Figure figure = seconds.figure(key);
  if (!figure || !(*figure >= 0 && *figure <= kMostStepSeconds) || (above_0 && *figure == 0))
    seconds.fail_member(key, above_0 ? "seconds above 0 and at most 1e6" : "seconds from 0 to 1e6");
  return *figure;
}

Profile profile_in(const report::Members& record) {
  Profile profile = {.forward = seconds_in(record, "forward_seconds", true),
                     .backward = seconds_in(record, "backward_seconds")};
  const auto& json = record.object();
  if (!json.contains("slices") || !json["slices"].is_array())
    record.fail_member("slices", "a list of tensors");
  for (const auto& item : json["slices"]) {
    const report::Members slice(item, record.place());
    profile.slices.push_back(
        {.name = slice.text("slice"), .ready = seconds_in(slice, "ready_seconds", true)});
    if (profile.slices.back().name.empty()) slice.fail_member("slice", "the name of a tensor");
  }
  return profile;
}

Steps steps_of(const std::string& path) {
  Steps steps;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return steps;  // a pipe would be waited for
  std::ifstream file(path, std::ios::binary);
  std::size_t number = 0;
  // A last line without its end was being written when the run was stopped.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    ++number;
    const bool profile = line.starts_with(R"({"type":"profile")");
    if (!profile && !line.starts_with(R"({"type":"step")")) continue;
    const auto [json, words] = report::parse_lenient(line);
    const std::string place = fmt::format("{}:{}", path, number);
    if (json.is_discarded())
      fail(Kind::data, "{}: expected a record in JSON, found something else; leave the run out",
           place);
    const report::Members record(json, place);
    if (profile) {
      steps.profile = profile_in(record);
      continue;
    }
    if (record.count("step") < kFirstStep) continue;
    const report::Members seconds = record.inside("seconds");
    steps.compute.push_back(seconds_in(seconds, "compute"));
    steps.update.push_back(seconds_in(seconds, "update"));
    steps.sent_bytes.push_back(static_cast<double>(record.count("sent_bytes")));
  }
  return steps;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::uint64_t count_setting(const report::Run& run, const char* key) {
  const std::string text = run.setting(key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0)
    fail(Kind::data,
         "{}: expected a config whose {} is a number from 1, found \"{}\"; leave the run out",
         run.folder, key, text);
  return value;
}

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

void add_matmul(const MatmulSpeed& speed, std::vector<MatmulSpeed>& all) {
  if (!(speed.flops > 0)) return;
  const auto known = std::ranges::find_if(all, [&](const MatmulSpeed& other) {
    return other.host == speed.host && other.threads == speed.threads;
  });
  if (known == all.end()) {
    all.push_back(speed);
  } else {
    known->flops = std::min(known->flops, speed.flops);
  }
}

Source parse_source(const std::string& text, const std::string& origin) {
  const std::size_t begin = text.find_first_not_of(" \n\t");
  if (begin == std::string::npos) fail_source(origin, "an empty file");
  const std::string first = text.substr(begin, text.find('\n', begin) - begin);
  // A document of several lines begins with a line that is no JSON by itself.
  const Json line_alone = config::parse_value(first, origin);
  const bool is_line = line_alone.is_object() &&
                       (line_alone.contains("compressor") || line_alone.contains("collective"));
  if (!is_line) {
    if (text[begin] != '{') fail_source(origin, config::shown_text(first));
    const Json document = config::parse_document(text, origin, "document");
    if (!document.contains("links") || !document.contains("ranks"))
      fail_source(origin, config::shown(document));
    return parse_doctor(text, origin);
  }
  if (!line_alone.contains("collective"))
    return {.what = "bench codecs", .codecs = parse_codec_lines(text, origin)};
  Source source = {.what = "bench collectives"};
  for (const JsonLine& line :
       read_json_lines(text, origin, "a line of \"bench collectives --json\"", "collective"))
    source.collectives.push_back(collective_line_of(
        CheckedObject(line.value, kCollectiveKeys, line.place, OtherKeys::ignored)));
  return source;
}

Source read_source(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    Source source = {.what = "a run"};
    for (const std::string& folder : report::run_folders({path}))
      source.runs.push_back(run_times(folder));
    return source;
  }
  return parse_source(config::read_document(path, "--from", "measured speeds, or a run folder"),
                      path);
}

RunTimes run_times(const std::string& folder) {
  const report::Run run = report::read_run(folder);
  if (run.emulated)
    fail(Kind::data,
         "{}: expected a run whose ranks computed, found one that emulated computing "
         "(train.emulate_compute); make a run without it",
         run.folder);
  if (run.setting("train.batch_sizes", "null") != "null")
    fail(Kind::data,
         "{}: expected a run with equal batches, found one with train.batch_sizes {}; make a run "
         "without the key",
         run.folder, run.setting("train.batch_sizes"));
  Steps steps = steps_of(run.path + "/" + metrics::run_files::kRecords);
  if (steps.compute.empty() || !(median(steps.compute) > 0))
    fail(Kind::data,
         "{}: expected records of steps from step {} on, found none; make a run of some more steps "
         "with output.step_records true",
         run.folder, kFirstStep);
  // The computing of a simulation is that of all ranks, one after the other.
  const double parts =
      static_cast<double>(count_setting(run, "train.accumulate")) * (run.simulated ? run.ranks : 1);
  return {.run = run.folder,
          .host = run.host.empty() ? "unknown" : run.host,
          .model = run.setting("model.name", "unknown"),
          .precision = run.setting("model.precision", "fp32"),
          .dataset = run.setting("data.name", "unknown"),
          .parameters = std::max<std::uint64_t>(run.parameters, 1),
          .threads_per_rank = static_cast<std::uint64_t>(std::max(run.threads_per_rank, 1)),
          .batch_size = count_setting(run, "train.batch_size"),
          .steps = steps.compute.size(),
          .step_seconds = median(steps.compute) / parts,
          .update_seconds = median(steps.update),
          .sent_bytes = median(steps.sent_bytes) / run.ranks,
          .profile = std::move(steps.profile)};
}

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
