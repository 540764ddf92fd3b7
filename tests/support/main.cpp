// SPDX-License-Identifier: Apache-2.0
// The runner of all one-process tests; compiled once.

#define CATCH_CONFIG_MAIN
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#include <catch2/catch.hpp>
#endif
