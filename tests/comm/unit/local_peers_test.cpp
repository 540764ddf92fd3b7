// SPDX-License-Identifier: Apache-2.0
#include "comm/host_facts.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::comm;

TEST_CASE("peers that cannot answer are distinguished from those that can", "[local_peers]") {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const std::array<std::uint64_t, 3> processes = {static_cast<std::uint64_t>(getpid()),
                                                  static_cast<std::uint64_t>(child), 1u << 30};
  const std::vector<Rank> here = {0, 1, 2};
  // Rank 2's process cannot be seen from here, so nothing is reported about it.
  const auto peers = visible_peers(processes, here, 0);
  REQUIRE(peers.size() == 1);
  CHECK(peers[0].rank == 1);
  CHECK(describe_troubled(peers).empty());

  int status = 0;
  kill(child, SIGSTOP);
  waitpid(child, &status, WUNTRACED);
  CHECK(describe_troubled(peers) == "rank 1 is stopped (SIGSTOP or a debugger)");
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  CHECK(describe_troubled(peers) == "rank 1 has ended");
}
