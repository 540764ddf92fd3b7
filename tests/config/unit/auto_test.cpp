// SPDX-License-Identifier: Apache-2.0
// Keys of the compressor auto, and what it refuses.

#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig with(std::vector<std::string> sets) {
  sets.insert(sets.begin(), "compressor.name=auto");
  return parse_config("{}", "test", sets);
}

std::string why_not(std::vector<std::string> sets) {
  return eqt::test::refusal(eqt::Kind::usage, [&] { with(sets); });
}

/// The same of e-elastiquant.
RunConfig elastic(std::vector<std::string> sets) {
  sets.insert(sets.begin(), "compressor.name=e-elastiquant");
  return parse_config("{}", "test", sets);
}

std::string why_not_elastic(std::vector<std::string> sets) {
  return eqt::test::refusal(eqt::Kind::usage, [&] { elastic(sets); });
}

}  // namespace

TEST_CASE("auto reads its keys and writes them back", "[config]") {
  const RunConfig usual = with({});
  CHECK(usual.compressor.noise_share == 0.1);
  CHECK(usual.compressor.noise_cap == 0.5);
  CHECK(usual.compressor.observe_every == 50);
  CHECK(usual.compressor.decide_every == 4);
  CHECK(usual.compressor.link == LinkRate(LinkRule::measured));
  CHECK(usual.compressor.replay.empty());
  CHECK(usual.compressor.menu.size() == 9);
  const RunConfig given =
      with({"compressor.noise_share=0.5", "compressor.noise_cap=2", "compressor.observe_every=10",
            "compressor.decide_every=1", "compressor.link=12.5", "compressor.replay=a/b",
            R"(compressor.menu=["none", "qsgd:4"])"});
  CHECK(given.compressor.link == LinkRate(12.5));
  CHECK(given.compressor.replay == "a/b");
  CHECK(given.compressor.menu == std::vector<std::string>{"none", "qsgd:4"});
  CHECK(with({"compressor.link=ignore"}).compressor.link == LinkRate(LinkRule::ignore));
  for (const RunConfig& config : {usual, given, with({"compressor.link=ignore"})})
    CHECK(parse_config(resolved_json(config), "test", {}) == config);
}

TEST_CASE("auto refuses values that make no sense", "[config]") {
  CHECK_THAT(why_not({"compressor.noise_share=0"}), ContainsSubstring("compressor.noise_share"));
  CHECK_THAT(why_not({"compressor.noise_share=101"}), ContainsSubstring("compressor.noise_share"));
  CHECK_THAT(why_not({"compressor.noise_share=0.6"}), ContainsSubstring("compressor.noise_cap") &&
                                                          ContainsSubstring("0.6") &&
                                                          ContainsSubstring("found 0.5"));
  CHECK_THAT(why_not({"compressor.observe_every=0"}),
             ContainsSubstring("compressor.observe_every"));
  CHECK_THAT(why_not({"compressor.decide_every=0"}), ContainsSubstring("compressor.decide_every"));
  for (const std::string link : {"0", "-1", "fast", "true"})
    CHECK_THAT(why_not({"compressor.link=" + link}),
               ContainsSubstring("compressor.link") &&
                   ContainsSubstring("\"measured\", \"ignore\" or a number"));
  CHECK_THAT(why_not({R"(compressor.menu=["none"])"}), ContainsSubstring("from 2 to 16 grades"));
  CHECK_THAT(why_not({R"(compressor.menu=["none", "topk"])"}), ContainsSubstring("\"topk\""));
  CHECK_THAT(why_not({R"(compressor.menu=["none", "none"])"}),
             ContainsSubstring("each grade once"));
}

TEST_CASE("auto refuses what has another noise, a memory, or no such messages", "[config]") {
  for (const std::string algorithm : {"local-sgd", "laq", "d-psgd", "choco-sgd", "ad-psgd"})
    CHECK_THAT(
        why_not({"synchronization.algorithm=" + algorithm,
                 "synchronization.local_steps=" + std::string(algorithm == "local-sgd" ? "2" : "1"),
                 "optimizer.momentum=0"}),
        ContainsSubstring("\"allreduce\"") && ContainsSubstring("\"" + algorithm + "\""));
  CHECK_THAT(why_not({"synchronization.error_feedback=ef21"}),
             ContainsSubstring("synchronization.error_feedback") && ContainsSubstring("ef21"));
  for (const std::string collective : {"sparse", "integer", "dense"})
    CHECK_THAT(why_not({"synchronization.collective=" + collective}),
               ContainsSubstring("\"" + collective + "\""));
  for (const std::string collective : {"allgather", "scatter-reduce", "hierarchical"})
    CHECK_NOTHROW(with({"synchronization.collective=" + collective}));
}

TEST_CASE("bits and elasticity can be left open", "[config]") {
  const RunConfig bits = elastic({"compressor.bits=auto"});
  CHECK(bits.compressor.open.bits);
  CHECK(bits.compressor.adapts_grades());
  CHECK(bits.compressor.name == eqt::codec::kEElastiQuant);
  const RunConfig elasticity = elastic({"compressor.elasticity=measured", "compressor.bits=5"});
  CHECK_FALSE(elasticity.compressor.open.bits);
  CHECK(elasticity.compressor.open.elasticity);
  CHECK(elasticity.compressor.adapts_grades());
  CHECK_FALSE(elastic({"compressor.elasticity=auto"}).compressor.adapts_grades());
  CHECK_FALSE(elastic({"compressor.bits=auto", "compressor.bits=4"}).compressor.adapts_grades());
  CHECK(with({}).compressor.adapts_grades());
  for (const RunConfig& config : {bits, elasticity}) {
    CHECK(parse_config(resolved_json(config), "test", {}) == config);
    CHECK(config.compressor.make()->mixed_grades() != nullptr);
  }
  // As they are written.
  CHECK_THAT(resolved_json(bits), ContainsSubstring("\"bits\": \"auto\""));
  CHECK_THAT(resolved_json(elasticity), ContainsSubstring("\"elasticity\": \"measured\""));
  CHECK_THAT(resolved_json(elastic({})),
             ContainsSubstring("\"bits\": 4") && ContainsSubstring("\"elasticity\": \"auto\""));
}

TEST_CASE("open bits and elasticity are for the elastic families, and refuse what auto does",
          "[config]") {
  for (const std::string name : {"qsgd", "none", "auto", "alq", "topk"})
    CHECK_THAT(
        eqt::test::refusal(
            eqt::Kind::usage,
            [&] {
              parse_config("{}", "test", {"compressor.name=" + name, "compressor.bits=auto"});
            }),
        ContainsSubstring("e-elastiquant") && ContainsSubstring("\"" + name + "\""));
  CHECK_THAT(why_not_elastic({"compressor.bits=auto", "compressor.levels=adaptive"}),
             ContainsSubstring("compressor.levels") && ContainsSubstring("\"adaptive\""));
  CHECK_THAT(why_not_elastic({"compressor.bits=2", "compressor.elasticity=measured"}),
             ContainsSubstring("from 3 to 8") && ContainsSubstring("found 2"));
  CHECK_THAT(why_not_elastic({"compressor.bits=auto", "compressor.levels=exponential",
                              "compressor.elasticity=1e-20"}),
             ContainsSubstring("compressor.elasticity") && ContainsSubstring("found 1e-20"));
  CHECK_THAT(why_not_elastic({"compressor.bits=measured"}),
             ContainsSubstring("\"auto\" or an integer in [2, 8]"));
  for (const std::string open : {"compressor.bits=auto", "compressor.elasticity=measured"}) {
    const std::string cause = open == "compressor.bits=auto" ? "compressor.bits \"auto\""
                                                             : "compressor.elasticity \"measured\"";
    CHECK_THAT(
        why_not_elastic({open, "synchronization.algorithm=local-sgd",
                         "synchronization.local_steps=2", "optimizer.momentum=0"}),
        ContainsSubstring("\"allreduce\" with " + cause) && ContainsSubstring("\"local-sgd\""));
    CHECK_THAT(why_not_elastic({open, "synchronization.algorithm=choco-sgd"}),
               ContainsSubstring(cause) && ContainsSubstring("\"choco-sgd\""));
    CHECK_THAT(why_not_elastic({open, "synchronization.error_feedback=ef14"}),
               ContainsSubstring("synchronization.error_feedback") && ContainsSubstring(cause));
    CHECK_THAT(why_not_elastic({open, "synchronization.collective=sparse"}),
               ContainsSubstring("\"sparse\""));
    CHECK_THAT(why_not_elastic({open, "compressor.noise_share=0.6"}),
               ContainsSubstring("noise_cap"));
    CHECK_NOTHROW(elastic({open, "compressor.replay=a/b", "compressor.link=10"}));
  }
}

TEST_CASE("compressor.replay needs auto", "[config]") {
  CHECK_THAT(eqt::test::refusal(eqt::Kind::usage,
                                [] { parse_config("{}", "test", {"compressor.replay=x"}); }),
             ContainsSubstring("compressor.name \"auto\"") &&
                 ContainsSubstring("found the compressor \"none\""));
}
