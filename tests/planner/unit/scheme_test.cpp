// SPDX-License-Identifier: Apache-2.0
// Which configs a plan compares.

#include "planner/scheme.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "support/catch.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;

const char* const kTopK =
    R"({"model": {"name": "resnet20"}, "compressor": {"name": "topk", "density": 0.02}})";

std::vector<Scheme> schemes(const std::vector<std::string>& vary, bool uneven = false,
                            const std::vector<std::string>& sets = {}) {
  return schemes_of(kTopK, "c.json", sets, vary, uneven);
}

}  // namespace

TEST_CASE("usual compressors stand beside the config's own, each with its defaults", "[planner]") {
  const auto all = schemes({});
  CHECK(all.front().name == "topk");
  CHECK(all.front().config.compressor.density == 0.02);
  const auto none = std::ranges::find(all, "none", &Scheme::name);
  REQUIRE(none != all.end());
  CHECK(none->config.compressor.name->name == "none");
  CHECK(std::ranges::count(all, "topk", &Scheme::name) == 1);
}

TEST_CASE("uneven boards bring batches by speed", "[planner]") {
  const auto all = schemes({}, true);
  const auto found = std::ranges::find(all, "topk, batches by speed", &Scheme::name);
  REQUIRE(found != all.end());
  CHECK(found->config.train.balances());
}

TEST_CASE("all combinations of what is varied", "[planner]") {
  const auto all = schemes({"compressor.name=none,qsgd", "synchronization.overlap=true,false"});
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "none, overlap true");
  CHECK(all[3].name == "qsgd, overlap false");
  CHECK_FALSE(all[3].config.synchronization.overlap);
  CHECK(all[3].config.compressor.name->name == "qsgd");
}

TEST_CASE("a list is one value", "[planner]") {
  const auto all = schemes({"train.batch_sizes=[64,16],[32,48]"});
  REQUIRE(all.size() == 2);
  CHECK(std::get<std::vector<std::uint64_t>>(all[1].config.train.batch_sizes) ==
        std::vector<std::uint64_t>{32, 48});
}

TEST_CASE("keys of one compressor do not hold for another", "[planner]") {
  const auto all = schemes({"compressor.name=topk,none"}, false, {"compressor.density=0.5"});
  REQUIRE(all.size() == 2);
  CHECK(all[0].config.compressor.density == 0.5);
  CHECK(all[1].config.compressor.name->name == "none");
}

TEST_CASE("what cannot be varied is refused", "[planner]") {
  CHECK_THROWS_WITH(schemes({"compressor.name"}), ContainsSubstring("KEY=VALUE"));
  CHECK_THROWS_WITH(schemes({"compressor.nme=none"}), ContainsSubstring("compressor.name"));
  CHECK_THROWS_AS(schemes({"train.batch_size=0,1"}), Error);
  CHECK_THROWS_WITH(schemes({"seed=1,2,3,4,5,6,7,8,9,10", "train.batch_size=1,2,3,4,5,6,7,8,9,10",
                             "train.epochs=1,2,3"}),
                    ContainsSubstring("256"));
}

}  // namespace eqt::planner
