// SPDX-License-Identifier: Apache-2.0
// What the runners of tests of one process and of MPI tests share.

#pragma once

namespace eqt::test {

/// Runs the test cases that the arguments of main() select, and returns its exit code.
int run_tests(int argc, char** argv);

}  // namespace eqt::test
