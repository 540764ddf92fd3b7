// SPDX-License-Identifier: Apache-2.0
#include "setup/agree_on_topology.hpp"

#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "config/build_topology.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::setup {
namespace {

struct Content {
  std::uint64_t hash = 0;  // of all weights, bit by bit
  std::size_t edges = 0;   // of all matrices
};

Content content_of(const topology::Topology& topology) {
  std::vector<std::uint64_t> words;
  Content content;
  for (StepId step = 0; step < topology.period(); ++step) {
    const topology::MixingMatrix& matrix = topology.at(step);
    content.edges += matrix.edge_count();
    for (Rank from = 0; from < matrix.ranks(); ++from) {
      words.push_back(matrix.out_neighbours(from).size());
      words.push_back(std::bit_cast<std::uint64_t>(matrix.self_weight(from)));
      for (const topology::Neighbour& to : matrix.out_neighbours(from)) {
        words.push_back(static_cast<std::uint64_t>(to.rank));
        words.push_back(std::bit_cast<std::uint64_t>(to.weight));
      }
    }
  }
  content.hash = XXH3_64bits(words.data(), words.size() * sizeof(std::uint64_t));
  return content;
}

}  // namespace

void require_same_topology(const topology::Topology& topology, comm::Communicator& comm) {
  const Content content = content_of(topology);
  const std::string about =
      fmt::format("{} of {} ranks, {} steps long, with {} edges and hash {:016x}", topology.name(),
                  topology.ranks(), topology.period(), content.edges, content.hash);
  require_same_facts({{"topology", about}}, "the graph",
                     "give every rank the same synchronization.topology and program", comm);
}

std::unique_ptr<topology::Topology> agree_on_topology(const config::TopologyConfig& config,
                                                      comm::Communicator& comm) {
  std::string text;
  comm.agree_after([&] {
    if (comm.rank() == 0 && !config.file.empty()) text = config::read_graph_file(config.file);
  });
  text = comm.broadcast(text, 0);
  std::unique_ptr<topology::Topology> topology;
  comm.agree_after([&] { topology = config::build_topology(config, comm.size(), text); });
  require_same_topology(*topology, comm);
  return topology;
}

}  // namespace eqt::setup
