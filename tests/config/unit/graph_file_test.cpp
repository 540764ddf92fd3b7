// SPDX-License-Identifier: Apache-2.0
// Graph files: valid ones, and every kind of error.

#include "config/build_topology.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/document.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::string refused(const std::string& text) {
  INFO(text);
  try {
    parse_graph(text, "g.json");
  } catch (const eqt::Error& error) {
    CHECK(error.kind() == eqt::Kind::usage);
    CHECK_THAT(error.what(), ContainsSubstring("g.json"));
    return error.what();
  }
  FAIL_CHECK("accepted");
  return "";
}

std::string with_edges(const std::string& edges) {
  return R"({"ranks": 4, "edges": )" + edges + "}";
}

std::string unreadable(const std::string& path) {
  try {
    read_graph_file(path);
  } catch (const eqt::Error& error) {
    CHECK(error.kind() == eqt::Kind::usage);
    return error.what();
  }
  FAIL_CHECK("accepted");
  return "";
}

}  // namespace

TEST_CASE("a graph file has ranks, edges, weights and direction", "[graph_file]") {
  const auto plain = parse_graph(R"({"ranks": 3, "edges": [[0, 1], [1, 2]]})", "g.json");
  CHECK(plain.ranks == 3);
  CHECK_FALSE(plain.directed);
  REQUIRE(plain.edges.size() == 2);
  CHECK(plain.edges[1].from == 1);
  CHECK(plain.edges[1].to == 2);
  CHECK(plain.edges[1].weight == 0);
  const auto weighted = parse_graph(
      R"({"edges": [[2, 0, 0.25], [0, 2, 1]], "directed": true, "ranks": 3})", "g.json");
  CHECK(weighted.directed);
  CHECK(weighted.edges[0].from == 2);
  CHECK(weighted.edges[0].weight == 0.25);
  CHECK(weighted.edges[1].weight == 1);
  CHECK(parse_graph(R"({"ranks": 1, "edges": []})", "g.json").edges.empty());
  CHECK(parse_graph(R"({"ranks": 4096, "edges": [[4095, 0]]})", "g.json").ranks == 4096);
}

TEST_CASE("a file that is no graph is refused", "[graph_file]") {
  CHECK_THAT(refused(""), ContainsSubstring("valid JSON"));
  CHECK_THAT(refused(R"({"ranks": 4, "edges": [[0, 1])"), ContainsSubstring("valid JSON"));
  CHECK_THAT(refused(std::string("{\"ranks\": 4\0}", 13)), ContainsSubstring("valid JSON"));
  CHECK_THAT(refused("[[0, 1]]"), ContainsSubstring("JSON object with graph keys"));
  CHECK_THAT(refused(std::string(kMaxDocumentBytes + 1, ' ')),
             ContainsSubstring("a graph of at most"));
  CHECK_THAT(refused(std::string(1000, '[')), ContainsSubstring("nesting"));
  CHECK_THAT(refused(R"({"ranks": 2, "edges": [], "edges": [[0, 1]]})"),
             ContainsSubstring("twice"));
  CHECK_THAT(refused(R"({"ranks": 2, "edge": []})"), ContainsSubstring("nearest is \"edges\""));
  CHECK_THAT(refused(R"({"edges": [[0, 1]]})"), ContainsSubstring("\"ranks\""));
  CHECK_THAT(refused(R"({"ranks": 2})"), ContainsSubstring("\"edges\""));
}

TEST_CASE("values of wrong types and ranges are refused", "[graph_file]") {
  for (const char* const ranks : {"0", "-1", "4097", "2.0", "\"2\"", "null", "[2]", "1e3",
                                  "18446744073709551615", "99999999999999999999"})
    CHECK_THAT(refused(std::string(R"({"edges": [], "ranks": )") + ranks + "}"),
               ContainsSubstring("[1, 4096]"));
  for (const char* const directed : {"1", "\"true\"", "null", "[]"})
    CHECK_THAT(refused(std::string(R"({"ranks": 2, "edges": [], "directed": )") + directed + "}"),
               ContainsSubstring("true or false"));
  for (const char* const edges : {"{}", "null", "3", "\"0 1\""})
    CHECK_THAT(refused(with_edges(edges)), ContainsSubstring("list of edges"));
  for (const char* const edge : {"[]", "[0]", "[0, 1, 0.5, 1]", "0", "\"01\"", "{}", "null"})
    CHECK_THAT(refused(with_edges(std::string("[[0, 1], ") + edge + "]")),
               ContainsSubstring("as edge 1"));
  for (const char* const end : {"4", "-1", "0.5", "\"0\"", "null", "18446744073709551615",
                                "-9223372036854775808", "4294967296"}) {
    CHECK_THAT(refused(with_edges(std::string("[[") + end + ", 1]]")),
               ContainsSubstring("from 0 to 3"));
    CHECK_THAT(refused(with_edges(std::string("[[1, ") + end + "]]")),
               ContainsSubstring("from 0 to 3"));
  }
  for (const char* const weight : {"0", "-0.5", "1.0000001", "\"0.5\"", "null", "true", "1e300"})
    CHECK_THAT(refused(with_edges(std::string("[[0, 1, ") + weight + "]]")),
               ContainsSubstring("(0, 1]"));
  refused(with_edges("[[0, 1, 1e999]]"));
}

TEST_CASE("only a regular file of limited size is read", "[graph_file]") {
  const fs::path folder =
      fs::temp_directory_path() / ("eqt_graph_file." + std::to_string(::getpid()));
  fs::create_directory(folder);
  const std::string path = (folder / "g.json").string();
  std::ofstream(path) << "{\"ranks\": 1}";
  CHECK(read_graph_file(path) == "{\"ranks\": 1}");
  CHECK_THAT(unreadable((folder / "absent.json").string()), ContainsSubstring("absent.json"));
  CHECK_THAT(unreadable(folder.string()), ContainsSubstring(folder.string()));
  CHECK_THAT(unreadable("/dev/zero"), ContainsSubstring("/dev/zero"));  // has no end
  std::ofstream(path) << std::string(kMaxDocumentBytes + 100, ' ');
  CHECK_THAT(refused(read_graph_file(path)), ContainsSubstring("at most"));
  fs::remove_all(folder);
}
