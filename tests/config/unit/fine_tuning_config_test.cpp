// SPDX-License-Identifier: Apache-2.0
// Keys of fine-tuning and of choosing the weights to keep.

#include "config_support.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
using test::parse;
using test::rejection;

namespace {

std::string groups(const std::string& list) { return "optimizer.groups=" + list; }

}  // namespace

TEST_CASE("groups of parameters are read and written again", "[config]") {
  const RunConfig config = parse(
      R"({"model": {"freeze": ["conv1.*", "bn1.*"]},
          "optimizer": {"groups": [{"names": ["fc.*"], "rate_factor": 10},
                                   {"names": ["*.bias", "*bn*"], "weight_decay": 0},
                                   {"names": ["layer1.*"], "frozen": true}]}})");
  CHECK(config.model.freeze == std::vector<std::string>{"conv1.*", "bn1.*"});
  REQUIRE(config.optimizer.groups.size() == 3);
  CHECK(config.optimizer.groups[0].rate_factor == 10);
  CHECK_FALSE(config.optimizer.groups[0].weight_decay);
  CHECK(config.optimizer.groups[1].names == std::vector<std::string>{"*.bias", "*bn*"});
  CHECK(config.optimizer.groups[1].weight_decay == 0.0);
  CHECK(config.optimizer.groups[2].frozen);
  CHECK(parse(resolved_json(config)) == config);
  CHECK(parse("{}", {groups(R"([{"names":["a"],"frozen":true}])")}).optimizer.groups.size() == 1);
  CHECK(parse("{}", {groups("[]")}).optimizer.groups.empty());
}

TEST_CASE("groups that mean nothing are refused", "[config]") {
  for (const std::string wrong :
       {"3", "[3]", "[{}]", R"([{"names":["a"]}])", R"([{"rate_factor":2}])",
        R"([{"names":[],"rate_factor":2}])", R"([{"names":"a","rate_factor":2}])",
        R"([{"names":["a"],"rate_factor":-1}])", R"([{"names":["a"],"weight_decay":"no"}])",
        R"([{"names":["a"],"frozen":1}])", R"([{"names":["a"],"rate":2}])",
        R"([{"names":[""],"rate_factor":2}])"}) {
    INFO(wrong);
    CHECK_THAT(rejection("{}", {groups(wrong)}), ContainsSubstring("optimizer.groups"));
  }
  CHECK_THAT(rejection("{}", {"model.freeze=layer1"}), ContainsSubstring("list of strings"));
  CHECK_THAT(rejection("{}", {"model.freeze=[1]"}), ContainsSubstring("model.freeze"));
}

TEST_CASE("updates that know no groups refuse them", "[config]") {
  const std::string group = groups(R"([{"names":["fc.*"],"rate_factor":2}])");
  const std::string frozen = groups(R"([{"names":["fc.*"],"frozen":true}])");
  const std::string norms = "optimizer.decay_norms=false";
  const std::vector<std::vector<std::string>> without = {
      {"synchronization.algorithm=laq", "optimizer.momentum=0"}, {"compressor.name=signsgd"}};
  for (std::vector<std::string> sets : without) {
    INFO(sets.front());
    sets.push_back(group);
    CHECK_THAT(rejection("{}", sets), ContainsSubstring("optimizer.groups"));
    sets.back() = norms;
    CHECK_THAT(rejection("{}", sets), ContainsSubstring("optimizer.decay_norms"));
    sets.back() = frozen;
    CHECK_NOTHROW(parse("{}", sets));
  }
  const std::string momentum = groups(R"([{"names":["fc.*"],"momentum":0}])");
  CHECK_THAT(rejection("{}", {"compressor.name=dgc", momentum}),
             ContainsSubstring("optimizer.groups without momentum"));
  CHECK_NOTHROW(parse("{}", {"compressor.name=dgc", group}));
  const std::vector<std::string> d2 = {"synchronization.algorithm=d2", "optimizer.momentum=0"};
  CHECK_THAT(rejection("{}", {d2[0], d2[1], momentum}),
             ContainsSubstring("optimizer.groups without momentum"));
  CHECK_NOTHROW(parse("{}", {d2[0], d2[1], group, norms}));
  CHECK_NOTHROW(parse("{}", {"synchronization.algorithm=d-psgd",
                             "optimizer.momentum_kind=quasi-global", group, momentum, norms}));
  CHECK_NOTHROW(parse("{}", {"synchronization.algorithm=choco-sgd", group, norms}));
  CHECK_NOTHROW(parse("{}", {"optimizer.name=adamw", "compressor.name=topk", group, norms}));
}

TEST_CASE("what evaluations decide needs evaluations", "[config]") {
  const std::string stop = "train.early_stopping=2", best = "checkpoint.best=true";
  CHECK(parse("{}", {stop, best}).train.early_stopping == 2);
  CHECK_THAT(rejection("{}", {stop, "train.evaluate_every=0"}),
             ContainsSubstring("train.evaluate_every"));
  CHECK_NOTHROW(parse("{}", {best, "train.evaluate_every=0"}));
  CHECK_THAT(
      rejection("{}", {stop, "synchronization.algorithm=d-psgd", "synchronization.final_rounds=3"}),
      ContainsSubstring("synchronization.final_rounds"));
  for (const std::string& key : {stop, best, std::string("train.ema=0.9")})
    CHECK_THAT(rejection("{}", {key, "train.emulate_compute=0.1", "train.steps=5"}),
               ContainsSubstring("train.emulate_compute"));
}

TEST_CASE("a moving average needs models of one weight", "[config]") {
  const std::string ema = "train.ema=0.999";
  for (const std::string good : {"allreduce", "local-sgd", "choco-sgd", "d-psgd", "none"})
    CHECK(parse("{}", {ema, "synchronization.algorithm=" + good}).train.ema == 0.999);
  for (const std::string bad : {"sgp", "quant-sgp", "ad-psgd"})
    CHECK_THAT(rejection("{}", {ema, "synchronization.algorithm=" + bad}),
               ContainsSubstring("train.ema") && ContainsSubstring(bad));
  CHECK_THAT(rejection("{}", {"train.ema=1"}), ContainsSubstring("train.ema"));
}

TEST_CASE("mixup is for classification", "[config]") {
  CHECK(parse("{}", {"train.mixup=0.2"}).train.mixup == 0.2);
  CHECK_THAT(rejection("{}", {"train.mixup=0.2", "task.kind=regression"}),
             ContainsSubstring("train.mixup"));
}

TEST_CASE("a run chooses its recipe only for an accuracy that it trains for", "[config]") {
  const std::string tunes = "train.tune=auto", target = "train.tune_target=0.9";
  CHECK(parse("{}", {tunes, target}).train.tunes());
  CHECK_FALSE(parse("{}", {}).train.tunes());
  for (const std::string& one : {tunes, target})
    CHECK_THAT(rejection("{}", {one}), ContainsSubstring("train.tune_target above 0 together"));
  CHECK_THAT(rejection("{}", {tunes, "train.tune_target=1"}), ContainsSubstring("[0, 1)"));
  CHECK_THAT(rejection("{}", {tunes, target, "train.emulate_compute=1", "train.steps=1"}),
             ContainsSubstring("found train.emulate_compute"));
  CHECK_THAT(
      rejection("{}", {tunes, target, "data.name=arrays", "data.path=x", "task.kind=regression",
                       "model.name=torchscript", "model.path=net.pt"}),
      ContainsSubstring("found \"regression\""));
  CHECK_THAT(rejection("{}", {tunes, target, "checkpoint.memory_seconds=1"}),
             ContainsSubstring("checkpoint.memory_seconds 0"));
}
