// SPDX-License-Identifier: Apache-2.0
// Catch2 itself, compiled once for the runners of all tests.

#include "support/runner.hpp"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace eqt::test {

int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace eqt::test
