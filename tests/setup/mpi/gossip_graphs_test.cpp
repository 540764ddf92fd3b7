// SPDX-License-Identifier: Apache-2.0
// Algorithms on graphs on which they cannot work: every rank learns which condition is violated,
// and a valid choice.

#include <fstream>

#include "setup/build_synchronization.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using Catch::Matchers::Matches;

namespace {

using Sets = std::vector<std::string>;

const std::string kPlain = "optimizer.momentum=0";  // what d2 and gradient-tracking need

Sets with(const std::string& algorithm, Sets sets = {}) {
  sets.push_back("synchronization.algorithm=" + algorithm);
  return sets;
}

Sets on(const std::string& kind, Sets sets) {
  sets.push_back("synchronization.topology.kind=" + kind);
  return sets;
}

/// Builds the gossip of a model of 4096 values with these keys. @return what it notes
std::string built(comm::Communicator& comm, const Sets& sets) {
  const config::RunConfig config = config::parse_config("{}", "a.json", sets);
  const auto compressor = config.compressor.make();
  const Layout layout = test::layout_of({{64, 64}});
  const auto topology = setup::agree_on_topology(config.synchronization.topology, comm);
  const auto schedule = optim::make_schedule({});
  std::vector<float> parameters(total_count(layout)), gradient(total_count(layout));
  const sync::BuiltAlgorithm algorithm = config.synchronization.algorithm->make(
      {.row = *config.synchronization.algorithm,
       .comm = comm,
       .compressor = *compressor,
       .buckets = pipeline::plan_buckets(layout, *compressor, {}),
       .layout = layout,
       .parameters = parameters,
       .gradient = gradient,
       .topology = topology.get()},
      setup::algorithm_settings(config, {}, *schedule, layout, false, comm.size()));
  return algorithm.note;
}

void refuse(comm::Communicator& comm, const Sets& sets, const std::string& pattern) {
  const std::string found = test::refusal(Kind::usage, [&] { built(comm, sets); });
  CHECK_THAT(found, Matches(".*" + pattern + ".*"));
}

/// Keys of a graph in a file that only rank 0 reads.
class GraphFile {
 public:
  GraphFile(const comm::Communicator& comm, const std::string& text) : path_(folder_.path()) {
    path_ += "/graph.json";
    if (comm.rank() == 0) std::ofstream(path_) << text;
  }
  Sets keys(Sets sets) const {
    sets.push_back("synchronization.topology.file=" + path_);
    return on("graph", sets);
  }

 private:
  test::TemporaryFolder folder_;
  std::string path_;
};

}  // namespace

TEST_CASE("a graph that is none of this job's is refused on every rank", "[gossip]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 4) {
    const GraphFile parted(comm, R"({"ranks": 4, "edges": [[0, 1], [2, 3]]})");
    refuse(comm, parted.keys(with("d-psgd")), "graph\\.json.*no edges lead from rank 0 to rank 2");
  }
  if (comm.size() == 3) {
    const GraphFile heavy(comm, R"({"ranks": 3, "edges": [[0, 1, 0.75], [1, 2, 0.5]]})");
    refuse(comm, heavy.keys(with("sgp")), "graph\\.json.*1\\.25 for rank 1");
  }
}

TEST_CASE("an irregular graph needs push-sum", "[gossip]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 4) return;
  // A chord makes out-degrees differ: columns sum to 1, rows do not.
  const GraphFile chord(
      comm, R"({"ranks": 4, "directed": true, "edges": [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]})");
  const std::string sums = ".*rows and columns sum to 1";
  refuse(comm, chord.keys(with("d-psgd")), "d-psgd" + sums + ".*sgp");
  refuse(comm, chord.keys(with("choco-sgd")), "choco-sgd" + sums + ".*quant-sgp");
  refuse(comm, chord.keys(with("deep-squeeze")), "deep-squeeze" + sums + ".*sparse-push");
  refuse(comm, chord.keys(with("gradient-tracking", {kPlain})), "gradient-tracking" + sums);
  CHECK_NOTHROW(built(comm, chord.keys(with("sgp"))));
}

TEST_CASE("public copies need a graph that does not change", "[gossip]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 3) return;
  refuse(comm, on("one-peer-exponential", with("choco-sgd")),
         "choco-sgd.*does not change.*deep-squeeze");
  refuse(comm, on("one-peer-exponential", with("quant-sgp")),
         "quant-sgp.*does not change.*sparse-push");
}

TEST_CASE("d2 needs symmetric weights with eigenvalues above -1/3", "[gossip]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 3) {
    refuse(comm, with("d2", {kPlain, "synchronization.topology.directed=true"}),
           "d2.*symmetric.*star");
    CHECK_NOTHROW(built(comm, with("d2", {kPlain})));
  }
  if (comm.size() == 4) {
    refuse(comm, with("d2", {kPlain}), "d2.*above -1/3.*-0\\.3333.*odd number");
    refuse(comm, on("torus", with("d2", {kPlain})), "d2.*above -1/3.*-0\\.6.*star");
  }
}

TEST_CASE("a consensus step that is far too large is warned of, with one that is not", "[gossip]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 2) return;
  const auto note_of = [&](const std::string& step) {
    return built(comm, with("choco-sgd",
                            {"compressor.name=topk", "synchronization.consensus_step=" + step}));
  };
  const std::string note = note_of("1");
  REQUIRE_THAT(note,
               Matches(".*consensus_step 1 may not contract with topk.*auto.*take 0\\.[0-9]+"));
  CHECK(note_of(note.substr(note.rfind("0."))).empty());
}
