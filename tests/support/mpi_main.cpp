// SPDX-License-Identifier: Apache-2.0
// The runner of MPI tests. A failed assertion on any rank is printed and aborts the job, because
// the other ranks may wait in a collective.

#include <mpi.h>

#include <cstdio>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Listener = Catch::EventListenerBase;
using Noted = void;  // what its functions return
#else
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
using Noted = bool;
#endif

#include "support/mpi_world.hpp"
#include "support/runner.hpp"

namespace {

const eqt::comm::Session* g_session = nullptr;

/// Prints the assertion with its rank and stops all ranks.
struct AbortOnFailure : Listener {
  using Listener::Listener;

  Noted assertionEnded(const Catch::AssertionStats& stats) override {
    const auto& result = stats.assertionResult;
    if (!result.isOk()) {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      std::string context;
      for (const auto& info : stats.infoMessages) context += info.message + "; ";
      std::fprintf(stderr, "[rank %d] %s:%zu: FAILED: %s with expansion: %s %s\n", rank,
                   result.getSourceInfo().file, result.getSourceInfo().line,
                   result.getExpression().c_str(), result.getExpandedExpression().c_str(),
                   (context + std::string(result.getMessage())).c_str());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return Noted(true);
  }
};
CATCH_REGISTER_LISTENER(AbortOnFailure)

}  // namespace

namespace eqt::test {

const comm::Session& session() { return *g_session; }

}  // namespace eqt::test

int main(int argc, char** argv) {
  const eqt::comm::Session session(&argc, &argv);
  g_session = &session;
  return eqt::test::run_tests(argc, argv);
}
