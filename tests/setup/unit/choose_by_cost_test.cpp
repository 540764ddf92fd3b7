// SPDX-License-Identifier: Apache-2.0
// Which collective `auto` takes: the one whose busiest link carries least, if that is clear.

#include "setup/build_collective.hpp"

#include <string>

#include "codec/catalogue.hpp"
#include "pipeline/plan.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::setup;

namespace {

/// For tensors of 2^18 values each.
std::string chosen(const std::string& compressor, int ranks, int hosts) {
  const auto codec = codec::make_compressor(compressor);
  constexpr std::size_t kValues = std::size_t{1} << 18;
  Layout layout;
  for (int i = 0; i < 16; ++i)
    layout.push_back({"matrix", {512, 512}, static_cast<std::size_t>(i) * kValues, kValues});
  const auto plan = pipeline::plan_buckets(layout, *codec, {});
  return std::string(collective_on_paper(*codec, plan, ranks, hosts, ranks % hosts == 0)->name);
}

}  // namespace

TEST_CASE("ranks of a host send each other float32 where that spares the link", "[setup]") {
  // Messages of m bytes on links of hosts: hierarchical m (H - 1) or 2 m (H - 1) / H, all others
  // those of each rank.
  for (const char* const compressor : {"qsgd", "int8", "topk", "none"}) {
    INFO(compressor);
    CHECK(chosen(compressor, 8, 2) == "hierarchical");
    CHECK(chosen(compressor, 16, 4) == "hierarchical");
  }
  // Not if there is one rank on each, or hosts differ.
  CHECK(chosen("qsgd", 4, 4) == "scatter-reduce");
  CHECK(chosen("qsgd", 5, 2) == "scatter-reduce");
}

TEST_CASE("two ranks quantise once, and float32 takes the pipeline", "[setup]") {
  CHECK(chosen("qsgd", 2, 2) == "allgather");
  for (const int ranks : {2, 3, 8, 32}) CHECK(chosen("none", ranks, ranks) == "dense");
}

TEST_CASE("on one host the static choice is taken", "[setup]") {
  CHECK(chosen("qsgd", 8, 1) == "scatter-reduce");
  CHECK(chosen("none", 8, 1) == "dense");
  CHECK(chosen("topk", 8, 1) == "allgather");
}
