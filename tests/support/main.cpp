// SPDX-License-Identifier: Apache-2.0
// The runner of all one-process tests.

#include "support/runner.hpp"

int main(int argc, char** argv) { return eqt::test::run_tests(argc, argv); }
