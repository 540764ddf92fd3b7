// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;

TEST_CASE("bench convolutions refuses kernels that the processor does not have", "[bench]") {
  for (const char* name : {"scalar", "avx9"}) {
    bench::BenchConvolutionsCommand command;
    command.kernels = {name};
    CHECK_THROWS_WITH(bench::run_bench_convolutions(command),
                      Catch::Matchers::Contains("expected one of"));
  }
}
