// SPDX-License-Identifier: Apache-2.0
// All ranks have the same topology, or all get an error that names the rank with another one.

#include <unistd.h>

#include <cmath>

#include <filesystem>
#include <fstream>

#include "comm/communicator.hpp"
#include "setup/build_synchronization.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using Catch::Matchers::ContainsSubstring;
using comm::Communicator;
namespace fs = std::filesystem;

namespace {

/// The error that every rank must get; "" if there is none.
template <typename Work>
std::string heard(Work&& work) {
  try {
    work();
  } catch (const comm::AgreedError& error) {
    CHECK(error.kind() == Kind::usage);
    return error.what();
  }
  return "";
}

/// A ring of `ranks` in which rank 0 gives `weight` to the next rank.
std::unique_ptr<topology::Topology> ring(int ranks, double weight) {
  topology::Graph graph{.ranks = ranks, .directed = true, .edges = {}};
  for (Rank r = 0; r < ranks; ++r)
    graph.edges.push_back({r, (r + 1) % ranks, r == 0 ? weight : 0.5});
  return topology::make_topology({.kind = topology::GraphKind::graph, .graph = graph}, ranks);
}

}  // namespace

TEST_CASE("ranks with the same graph continue", "[topology]") {
  Communicator comm(test::session(), 30);
  const auto built = setup::agree_on_topology({.kind = topology::GraphKind::exponential}, comm);
  CHECK(built->ranks() == comm.size());
  CHECK(heard([&] { setup::require_same_topology(*ring(4, 0.25), comm); }).empty());
}

TEST_CASE("a rank with another graph is named with both graphs", "[topology]") {
  Communicator comm(test::session(), 30);
  if (comm.size() < 2) return;
  const bool last = comm.rank() == comm.size() - 1;
  // One weight differs in its last bit.
  const double weight = last ? std::nextafter(0.25, 1) : 0.25;
  const std::string bit = heard([&] { setup::require_same_topology(*ring(4, weight), comm); });
  CHECK_THAT(bit, ContainsSubstring("rank " + std::to_string(comm.size() - 1)) &&
                      ContainsSubstring("graph of 4 ranks") && ContainsSubstring("instead of"));
  const std::string size =
      heard([&] { setup::require_same_topology(*ring(last ? 5 : 4, 0.5), comm); });
  CHECK_THAT(size,
             ContainsSubstring("5 ranks") && ContainsSubstring("instead of graph of 4 ranks"));
}

TEST_CASE("rank 0 reads the file of a graph for all", "[topology]") {
  Communicator comm(test::session(), 30);
  const fs::path path =
      fs::temp_directory_path() / ("eqt_same_topology." + std::to_string(::getpid()) + ".json");
  // Each rank has another file name, and only rank 0's file exists.
  if (comm.rank() == 0) {
    std::ofstream file(path);
    file << "{\"ranks\": " << comm.size() << ", \"edges\": [";
    for (int r = 1; r < comm.size(); ++r) file << (r > 1 ? ", " : "") << "[0, " << r << "]";
    file << "]}";
  }
  const config::TopologyConfig config{.kind = topology::GraphKind::graph, .file = path.string()};
  std::unique_ptr<topology::Topology> star;
  CHECK(heard([&] { star = setup::agree_on_topology(config, comm); }).empty());
  if (star && comm.size() > 1) CHECK(star->at(0).weight(1, 0) == Approx(1.0 / comm.size()));
  if (comm.rank() == 0) fs::remove(path);
}

TEST_CASE("a graph that is missing or of another size ends every rank", "[topology]") {
  Communicator comm(test::session(), 30);
  const config::TopologyConfig absent{.kind = topology::GraphKind::graph,
                                      .file = "/nowhere/g.json"};
  CHECK_THAT(heard([&] { setup::agree_on_topology(absent, comm); }),
             ContainsSubstring("/nowhere/g.json"));
  if (comm.size() != 3) return;
  CHECK_THAT(heard([&] { setup::agree_on_topology({.kind = topology::GraphKind::torus}, comm); }),
             ContainsSubstring("found 3"));
}
