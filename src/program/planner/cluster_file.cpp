// SPDX-License-Identifier: Apache-2.0
#include "planner/cluster_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/document.hpp"
#include "core/error.hpp"
#include "planner/checked_object.hpp"

namespace eqt::planner {
namespace {

using config::Json;
using nlohmann::ordered_json;
using Type = Key::Type;

constexpr double kMegabit = 1e6 / 8;

constexpr Key kFileKeys[] = {
    {"boards", Type::list, "kinds of boards, in the order of their ranks", true},
    {"links", Type::object, "networks by name", true},
    {"switches", Type::list, "switches with limited uplinks"},
    {"joules_per_gigabyte", Type::number, "energy of sending 1e9 bytes, on top of the boards'"},
    {"cores_of_all", Type::number, "the boards are emulated by one machine with so many cores",
     false, 1},
    {"currency", Type::text, "of prices"},
    {"failures", Type::object, "what a failure of a board costs"},
    {"source", Type::text, "where the numbers come from"},
};
constexpr Key kBoardKeys[] = {
    {"name", Type::text, "of this kind of boards", true},
    {"count", Type::integer, "boards [1]", false, 1, false, kMostRanks},
    {"ranks", Type::integer, "ranks on each board [1]", false, 1, false, 1024},
    {"step_seconds", Type::number,
     "forward and backward pass of the config's model and batch on a rank [from the calibration]",
     false, 0, true},
    {"flops", Type::number,
     "floating-point operations per second of a rank while training, instead of step_seconds",
     false, 0, true},
    {"update_seconds", Type::number, "the optimizer's part of a step [by the number of values]"},
    {"codec_scale", Type::number, "speed of a core of the board, this machine's = 1 [1]", false, 0,
     true},
    {"cores", Type::number, "of the board [enough for all threads]", false, 0, true},
    {"memory_mib", Type::number, "of the board, for all its ranks", false, 0, true},
    {"link", Type::text, "the network that it is on", true},
    {"switch", Type::text, "the switch that it is at [the common one]"},
    {"jitter", Type::object, "steps that do not all take the same time"},
    {"stall", Type::object, "pauses"},
    {"watts", Type::object, "electrical power"},
    {"price", Type::number, "of a board"},
    {"failures_per_day", Type::number, "of a board: it is switched off, cut off, or a rank dies"},
    {"source", Type::text, "where the numbers come from"},
};
constexpr Key kJitterKeys[] = {
    {"kind", Type::text, "lognormal", true},
    {"cv", Type::number, "standard deviation / mean", true, 0, false, 10},
};
constexpr Key kStallKeys[] = {
    {"every_seconds", Type::number, "mean time between pauses", true, 0, true},
    {"seconds", Type::number, "of a pause", true},
};
constexpr Key kWattKeys[] = {
    {"busy", Type::number, "while a rank computes", true},
    {"idle", Type::number, "while it waits", true},
};
constexpr Key kFailureKeys[] = {
    {"restart_seconds", Type::number, "from a failure to the first new step [6]"},
    {"join_seconds", Type::number, "that a run stands still to take a board in [5]"},
    {"absent_seconds", Type::number, "until a lost board answers again [60]"},
};
constexpr Key kLinkKeys[] = {
    {"kind", Type::text, "duplex: a cable to a switch; shared: a radio channel", true},
    {"megabits", Type::number,
     "rate per second, of a cable in each direction [from the calibration]", false, 0, true},
    {"contention", Type::number, "shared: time that each further sender costs, as a part of all",
     false, 0, false, 10},
    {"latency_ms", Type::number, "from one board to another [from the calibration, or 0]"},
    {"jitter_ms", Type::number, "mean of an exponential delay on top of it [0]"},
    {"source", Type::text, "where the numbers come from"},
};
constexpr Key kSwitchKeys[] = {
    {"name", Type::text, "of the switch", true},
    {"uplink_megabits", Type::number, "rate per second of its uplink, in each direction", true, 0,
     true},
    {"to", Type::text, "the switch that the uplink leads to [the common one]"},
};

/// The place of `name` among named things.
template <typename Named>
std::size_t find_named(const std::vector<Named>& all, const std::string& name,
                       const std::string& place, const char* what) {
  const auto found = std::ranges::find(all, name, &Named::name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  std::vector<std::string> names;
  for (const Named& one : all) names.push_back(one.name);
  fail(Kind::usage, "{}: expected a {} that the file describes ({}), found {}", place, what,
       fmt::join(names, ", "), config::shown_text(name));
}

forecast::Link read_link(const std::string& name, const Json& json, const std::string& origin) {
  if (!is_name(name))
    fail(Kind::usage, "{}: links: expected names without control characters, found {}", origin,
         config::shown_text(name));
  const CheckedObject object(json, kLinkKeys, fmt::format("{}: links.{}", origin, name));
  const std::string kind = object.text("kind");
  if (kind != "duplex" && kind != "shared")
    fail(Kind::usage, "{}.kind: expected duplex or shared, found {}", object.place(),
         config::shown_text(kind));
  if (kind == "duplex" && object.has("contention"))
    fail(Kind::usage, "{}.contention: only a shared link has it; remove it or set kind to shared",
         object.place());
  return {.name = name,
          .shared = kind == "shared",
          .bytes_per_second = object.number("megabits", 0) * kMegabit * kGoodput,
          .contention = object.number("contention", 0),
          .latency_seconds = object.has("latency_ms") ? object.number("latency_ms", 0) / 1e3 : -1,
          .jitter_seconds = object.number("jitter_ms", 0) / 1e3};
}

void read_switches(const Json& list, const std::string& origin, forecast::Cluster& cluster) {
  std::vector<std::string> to;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const CheckedObject object(list[i], kSwitchKeys, fmt::format("{}: switches[{}]", origin, i));
    cluster.switches.push_back(
        {.name = object.text("name"),
         .bytes_per_second = object.number("uplink_megabits", 0) * kMegabit * kGoodput});
    to.push_back(object.text("to"));
  }
  for (std::size_t i = 0; i < to.size(); ++i)
    if (!to[i].empty())
      cluster.switches[i].to = find_named(cluster.switches, to[i],
                                          fmt::format("{}: switches[{}].to", origin, i), "switch");
  for (const forecast::Switch& s : cluster.switches) {
    std::size_t at = s.to;
    for (std::size_t hops = 0; at != forecast::Switch::kTop; at = cluster.switches[at].to)
      if (++hops > cluster.switches.size())
        fail(Kind::usage,
             "{}: switches: expected uplinks that lead to one switch, found a loop "
             "through \"{}\"; leave one \"to\" out",
             origin, s.name);
  }
}

void read_boards(const Json& json, const std::string& place, ClusterFile& file) {
  const CheckedObject object(json, kBoardKeys, place);
  forecast::Cluster& cluster = file.cluster;
  forecast::Boards boards = {.name = object.text("name"),
                             .count = object.integer("count", 1),
                             .ranks = object.integer("ranks", 1),
                             .step_seconds = object.number("step_seconds", 0),
                             .update_seconds = object.number("update_seconds", -1),
                             .codec_speed = object.number("codec_scale", 1),
                             .cores = object.number("cores", 0),
                             .speed = {}};
  if (object.has("step_seconds") && object.has("flops"))
    fail(Kind::usage, "{}: expected step_seconds or flops, found both; remove one of them", place);
  BoardFacts facts = {.flops = {},
                      .memory_bytes = object.number("memory_mib", 0) * (1 << 20),
                      .price = object.number("price", 0),
                      .failures_per_second = object.number("failures_per_day", 0) / kDay};
  if (object.has("flops")) facts.flops = object.number("flops", 0);
  // Computing takes all cores but those of other ranks.
  if (boards.cores > 0) boards.cores_of_rank = std::max(1.0, boards.cores / boards.ranks);
  boards.link = find_named(cluster.links, object.text("link"), place + ".link", "link");
  if (object.has("switch"))
    boards.at = find_named(cluster.switches, object.text("switch"), place + ".switch", "switch");
  if (object.has("jitter")) {
    const CheckedObject jitter = object.object("jitter", kJitterKeys);
    if (jitter.text("kind") != "lognormal")
      fail(Kind::usage, "{}.kind: expected lognormal, found {}", jitter.place(),
           config::shown_text(jitter.text("kind")));
    boards.speed.cv = jitter.number("cv", 0);
  }
  if (object.has("stall")) {
    const CheckedObject stall = object.object("stall", kStallKeys);
    boards.speed.stall_every =
        stall.number("every_seconds", 0);  // [seconds]; steps once their time is known
    boards.speed.stall_seconds = stall.number("seconds", 0);
  }
  if (object.has("watts")) {
    const CheckedObject watts = object.object("watts", kWattKeys);
    facts.busy_watts = watts.number("busy", 0);
    facts.idle_watts = watts.number("idle", 0);
  }
  cluster.boards.push_back(boards);
  file.facts.push_back(facts);
}

}  // namespace

ClusterFile parse_cluster(const std::string& text, const std::string& origin) {
  const Json document = config::parse_document(text, origin, "cluster");
  const CheckedObject object(document, kFileKeys, origin);
  ClusterFile file;
  file.joules_per_byte = object.number("joules_per_gigabyte", 0) / 1e9;
  file.currency = object.text("currency", file.currency);
  file.source = object.text("source");
  if (object.has("failures")) {
    const CheckedObject failures = object.object("failures", kFailureKeys);
    file.failures = {
        .restart_seconds = failures.number("restart_seconds", file.failures.restart_seconds),
        .join_seconds = failures.number("join_seconds", file.failures.join_seconds),
        .absent_seconds = failures.number("absent_seconds", file.failures.absent_seconds)};
  }
  file.cluster.cores_of_all = object.number("cores_of_all", 0);
  for (const auto& [name, link] : object.list("links").items())
    file.cluster.links.push_back(read_link(name, link, origin));
  if (object.has("switches")) read_switches(object.list("switches"), origin, file.cluster);
  const Json& boards = object.list("boards");
  for (std::size_t i = 0; i < boards.size(); ++i)
    read_boards(boards[i], fmt::format("{}: boards[{}]", origin, i), file);
  double ranks = 0;
  for (const forecast::Boards& kind : file.cluster.boards)
    ranks += static_cast<double>(kind.count) * kind.ranks;
  if (!(ranks >= 1 && ranks <= kMostRanks))
    fail(Kind::usage, "{}: boards: expected 1 to {} ranks in all, found {:g}", origin, kMostRanks,
         ranks);
  return file;
}

std::string cluster_schema() {
  ordered_json schema = schema_of(kFileKeys);
  ordered_json board = schema_of(kBoardKeys);
  board["properties"]["jitter"] = schema_of(kJitterKeys);
  board["properties"]["stall"] = schema_of(kStallKeys);
  board["properties"]["watts"] = schema_of(kWattKeys);
  schema["properties"]["boards"]["items"] = board;
  schema["properties"]["boards"]["minItems"] = 1;
  schema["properties"]["failures"] = schema_of(kFailureKeys);
  schema["properties"]["links"]["additionalProperties"] = schema_of(kLinkKeys);
  schema["properties"]["switches"]["items"] = schema_of(kSwitchKeys);
  ordered_json result = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                         {"title", "A cluster for equant-train plan"}};
  result.update(schema);
  return result.dump(2) + "\n";
}

ClusterFile first_ranks(const ClusterFile& file, int ranks) {
  ClusterFile result = file;
  auto& boards = result.cluster.boards;
  boards.clear();
  result.facts.clear();
  int left = ranks;
  const auto take = [&](std::size_t kind, int count, int ranks_of_board) {
    if (count == 0) return;
    boards.push_back(file.cluster.boards[kind]);
    boards.back().count = count;
    boards.back().ranks = ranks_of_board;
    result.facts.push_back(file.facts[kind]);
    left -= count * ranks_of_board;
  };
  for (std::size_t k = 0; k < file.cluster.boards.size() && left > 0; ++k) {
    const forecast::Boards& kind = file.cluster.boards[k];
    const bool last = k + 1 == file.cluster.boards.size();
    const int whole = last ? left / kind.ranks : std::min(left / kind.ranks, kind.count);
    take(k, whole, kind.ranks);
    // A further board that is not full.
    if (left > 0 && (last || whole < kind.count)) take(k, 1, left);
  }
  EQT_CHECK(result.cluster.ranks() == ranks, "boards for {} ranks, found {}", ranks,
            result.cluster.ranks());
  return result;
}

}  // namespace eqt::planner
