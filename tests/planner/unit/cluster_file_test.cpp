// SPDX-License-Identifier: Apache-2.0
// Cluster files: what they mean, and what is refused.

#include "planner/cluster_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/document.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const char* const kCluster = R"({
  "boards": [
    {"name": "fast", "count": 2, "step_seconds": 0.5, "link": "lan", "switch": "s0",
     "jitter": {"kind": "lognormal", "cv": 0.1}, "watts": {"busy": 10, "idle": 3}, "price": 99,
     "failures_per_day": 2},
    {"name": "slow", "count": 3, "ranks": 2, "flops": 1e9, "link": "wifi", "memory_mib": 1024,
     "stall": {"every_seconds": 60, "seconds": 2}}
  ],
  "links": {
    "lan": {"kind": "duplex", "megabits": 100, "latency_ms": 0.3},
    "wifi": {"kind": "shared", "megabits": 40, "contention": 0.02, "latency_ms": 3, "jitter_ms": 4}
  },
  "switches": [{"name": "s0", "uplink_megabits": 1000, "to": "core"},
               {"name": "core", "uplink_megabits": 10000}],
  "joules_per_gigabyte": 15,
  "failures": {"restart_seconds": 8, "absent_seconds": 300}
})";

ClusterFile parsed(const json& document) { return parse_cluster(document.dump(), "c.json"); }

/// "nothing" if the cluster is accepted.
std::string refused(const json& document) {
  std::string words = "nothing";
  try {
    (void)parsed(document);
  } catch (const Error&) {
    words = test::refusal(Kind::usage, [&] { (void)parsed(document); });
  }
  return words;
}

}  // namespace

TEST_CASE("a cluster file gives boards, links and switches", "[planner]") {
  const ClusterFile file = parse_cluster(kCluster, "c.json");
  const forecast::Cluster& cluster = file.cluster;
  REQUIRE(cluster.boards.size() == 2);
  CHECK(cluster.ranks() == 8);
  CHECK(cluster.boards[0].speed.cv == 0.1);
  CHECK(cluster.boards[1].speed.stall_every == 60);
  CHECK(cluster.links.at(cluster.boards[0].link).bytes_per_second ==
        Approx(100e6 / 8 * 1448 / 1514));
  CHECK_FALSE(cluster.links.at(cluster.boards[0].link).shared);
  CHECK(cluster.links.at(cluster.boards[1].link).shared);
  CHECK(cluster.switches.at(cluster.boards[0].at).name == "s0");
  CHECK(cluster.switches.at(cluster.switches[0].to).name == "core");
  CHECK(cluster.boards[1].at == forecast::Switch::kTop);
  CHECK_FALSE(file.facts[0].flops);
  CHECK(file.facts[1].flops == 1e9);
  CHECK(file.facts[1].memory_bytes == 1024.0 * 1024 * 1024);
  CHECK(file.facts[0].busy_watts == 10);
  CHECK(file.joules_per_byte == Approx(15e-9));
  CHECK(file.facts[0].failures_per_second == Approx(2.0 / 86400));
  CHECK(file.facts[1].failures_per_second == 0);
  CHECK(file.failures.restart_seconds == 8);
  CHECK(file.failures.join_seconds == 5);  // the default
  CHECK(file.failures.absent_seconds == 300);
}

TEST_CASE("a cluster file with a mistake is refused with its place", "[planner]") {
  const auto with = [](const char* pointer, const json& value) {
    json document = json::parse(kCluster);
    document[json::json_pointer(pointer)] = value;
    return refused(document);
  };
  const auto without = [](const char* at, const char* key) {
    json document = json::parse(kCluster);
    document[json::json_pointer(at)].erase(key);
    return refused(document);
  };
  CHECK_THAT(with("/boards/0/cout", 2),
             ContainsSubstring("boards[0]") && ContainsSubstring("\"count\""));
  CHECK_THAT(with("/boards/0/count", 0),
             ContainsSubstring("boards[0].count") && ContainsSubstring("at least 1"));
  CHECK_THAT(with("/boards/0/count", 1.5), ContainsSubstring("integer"));
  CHECK_THAT(with("/boards/0/step_seconds", 0), ContainsSubstring("above 0"));
  CHECK_THAT(with("/boards/0/step_seconds", "fast"), ContainsSubstring("a number"));
  CHECK_THAT(with("/boards/0/flops", 1e9), ContainsSubstring("found both"));
  CHECK_THAT(without("/boards/0", "link"), ContainsSubstring("\"link\""));
  CHECK_THAT(with("/boards/0/link", "lam"), ContainsSubstring("lan, wifi"));
  CHECK_THAT(with("/boards/0/switch", "s9"), ContainsSubstring("s0, core"));
  CHECK_THAT(with("/links/lan/megabits", -1), ContainsSubstring("links.lan.megabits"));
  CHECK_THAT(with("/links/lan/kind", "token-ring"), ContainsSubstring("duplex or shared"));
  CHECK_THAT(with("/links/lan/contention", 0.1), ContainsSubstring("only a shared link"));
  CHECK_THAT(with("/switches/1/to", "s0"), ContainsSubstring("loop"));
  CHECK_THAT(with("/boards/0/jitter/kind", "normal"), ContainsSubstring("lognormal"));
  CHECK_THAT(with("/boards/1/count", 60000), ContainsSubstring("100000 ranks"));
  CHECK_THAT(with("/boards", json::array()), ContainsSubstring("1 to 100000 ranks"));
  CHECK_THAT(with("/boards", 7), ContainsSubstring("a list"));
  CHECK_THAT(with("/links", json::array()), ContainsSubstring("an object"));
  // What the quotients of a plan cannot hold.
  for (const char* const key : {"/links/lan/megabits", "/boards/0/step_seconds", "/boards/0/cores",
                                "/switches/0/uplink_megabits"})
    for (const double number : {5e-324, 1e-310, 1e308})
      CHECK_THAT(with(key, number), ContainsSubstring("at least 1e-09 and at most 1e+15"));
  CHECK_THAT(with("/boards/0/name", "\x1b[2J"),
             ContainsSubstring("boards[0].name: expected a text without"));
  CHECK_THAT(with("/currency",
                  "\xC2\x9B"
                  "2J"),
             ContainsSubstring("currency: expected a text without"));
  CHECK_THAT(with("/links/a\nb", json::object()),
             ContainsSubstring("expected names without control"));
  CHECK(with("/boards/0/price", 1) == "nothing");
}

TEST_CASE("fewer ranks are the first, more are further boards of the last kind", "[planner]") {
  const ClusterFile file = parse_cluster(kCluster, "c.json");
  const auto counts = [&](int ranks) {
    const ClusterFile part = first_ranks(file, ranks);
    CHECK(part.cluster.ranks() == ranks);
    CHECK(part.facts.size() == part.cluster.boards.size());
    std::vector<int> result;
    for (const forecast::Boards& boards : part.cluster.boards) result.push_back(boards.count);
    return result;
  };
  CHECK(counts(1) == std::vector{1});
  CHECK(counts(2) == std::vector{2});
  CHECK(counts(3) == std::vector{2, 1});  // one rank on a board for two
  CHECK(counts(6) == std::vector{2, 2});
  CHECK(counts(8) == std::vector{2, 3});
  CHECK(counts(12) == std::vector{2, 5});
}

TEST_CASE("boards with several ranks are filled before the next kind, the last one in part",
          "[planner]") {
  json document = json::parse(kCluster);
  document["boards"][0]["count"] = 4;
  document["boards"][0]["ranks"] = 4;
  const ClusterFile file = parse_cluster(document.dump(), "c.json");
  const auto boards = [&](int ranks) {
    std::string text;
    for (const forecast::Boards& kind : first_ranks(file, ranks).cluster.boards)
      text += fmt::format("{} of {} {}; ", kind.count, kind.ranks, kind.name);
    return text;
  };
  const std::string first = file.cluster.boards[0].name, last = file.cluster.boards[1].name;
  CHECK(boards(3) == "1 of 3 " + first + "; ");
  CHECK(boards(10) == "2 of 4 " + first + "; 1 of 2 " + first + "; ");
  document["boards"].erase(1);
  for (const int ranks : {15, 16, 18, 21})
    CHECK(first_ranks(parse_cluster(document.dump(), "c.json"), ranks).cluster.ranks() == ranks);
  CHECK(first_ranks(file, 17).cluster.boards.back().name == last);
}

TEST_CASE("the shipped clusters are read, and the schema has every key of theirs", "[planner]") {
  const json schema = json::parse(cluster_schema());
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EQT_CLUSTERS)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const std::string text = config::read_document(entry.path(), "--cluster", "a cluster");
    CHECK(parse_cluster(text, entry.path()).cluster.ranks() > 1);
    const json document = json::parse(text);
    for (const auto& [key, value] : document.items()) CHECK(schema["properties"].contains(key));
  }
  CHECK(files >= 4);
}

}  // namespace eqt::planner
