// SPDX-License-Identifier: Apache-2.0
// Topologies from keys, and keys that cannot be combined.

#include <algorithm>

#include "config/build_topology.hpp"
#include "config_support.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
using test::parse;
using test::rejection;

namespace {

using Sets = std::vector<std::string>;

Sets keys(const Sets& values) {
  Sets sets;
  for (const std::string& value : values) sets.push_back("synchronization.topology." + value);
  return sets;
}

std::unique_ptr<eqt::topology::Topology> build(const Sets& values, int ranks,
                                               const std::string& text = {}) {
  return build_topology(parse("{}", keys(values)).synchronization.topology, ranks, text);
}

std::string refused(const Sets& values, int ranks, const std::string& text = {}) {
  return eqt::test::refusal(eqt::Kind::usage, [&] { build(values, ranks, text); });
}

}  // namespace

TEST_CASE("every key changes the topology that is built", "[config]") {
  CHECK(build({}, 4)->at(0).weight(0, 1) == 1.0 / 3);
  CHECK(build({"directed=true"}, 4)->at(0).weight(0, 1) == 0);
  CHECK(build({"kind=torus"}, 8)->name() == "torus 2 x 4");
  CHECK(build({"kind=torus", "rows=4"}, 8)->name() == "torus 4 x 2");
  CHECK(build({"kind=one-peer-exponential"}, 8)->period() == 3);
  CHECK(build({"kind=star"}, 4)->at(0).is_symmetric());
  CHECK_FALSE(build({"kind=star", "weights=uniform"}, 4)->at(0).is_symmetric());
  CHECK(build({"kind=torus", "weights=metropolis"}, 8)->at(0).weight(0, 4) == 0.25);
  CHECK(build({"kind=graph", "file=g.json"}, 2, R"({"ranks": 2, "edges": [[0, 1, 0.125]]})")
            ->at(0)
            .weight(0, 1) == 0.125);
}

TEST_CASE("an error in a graph names its file", "[config]") {
  const Sets graph = {"kind=graph", "file=g.json"};
  CHECK_THAT(refused(graph, 4, R"({"ranks": 4, "edges": [[0, 1], [2, 3]]})"),
             ContainsSubstring("g.json") && ContainsSubstring("no edges lead"));
  CHECK_THAT(refused(graph, 3, R"({"ranks": 2, "edges": [[0, 1]]})"),
             ContainsSubstring("g.json") && ContainsSubstring("start 2 ranks"));
  CHECK_THAT(refused(graph, 2, ""), ContainsSubstring("g.json") && ContainsSubstring("valid JSON"));
  CHECK_THAT(refused({"kind=torus"}, 7), ContainsSubstring("6 or 8"));
}

TEST_CASE("keys that would have no effect are refused", "[config]") {
  for (const char* const kind : {"torus", "complete", "star", "mesh", "graph"})
    CHECK_THAT(rejection("{}", keys({std::string("kind=") + kind, "directed=true", "file=g"})),
               ContainsSubstring("synchronization.topology.directed") && ContainsSubstring(kind));
  for (const char* const kind : {"exponential", "one-peer-exponential"})
    CHECK_NOTHROW(parse("{}", keys({std::string("kind=") + kind, "directed=true"})));
  CHECK_THAT(rejection("{}", keys({"file=g.json"})),
             ContainsSubstring("g.json") && ContainsSubstring("\"graph\""));
  CHECK_THAT(rejection("{}", keys({"kind=graph"})),
             ContainsSubstring("synchronization.topology.file"));
  CHECK_THAT(rejection("{}", keys({"weights=given"})), ContainsSubstring("\"given\""));
  CHECK_THAT(rejection("{}", keys({"directed=true", "weights=metropolis"})),
             ContainsSubstring("metropolis"));
  CHECK_THAT(rejection("{}", keys({"kind=exponential", "weights=metropolis"})),
             ContainsSubstring("metropolis") && ContainsSubstring("a.json"));
  CHECK_NOTHROW(parse("{}", keys({"kind=graph", "file=g", "weights=given"})));
}
