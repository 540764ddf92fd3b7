// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/calibration_sources.hpp"

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "planner/calibration/codec_line_keys.hpp"
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

}  // namespace eqt::planner
