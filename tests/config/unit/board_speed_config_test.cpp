// SPDX-License-Identifier: Apache-2.0
// Keys of emulated boards whose steps do not all take the same time.

#include "config_support.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
using test::parse;
using test::rejection;

namespace {

const std::vector<std::string> kEmulated = {"train.steps=5", "train.emulate_compute=0.1"};

std::vector<std::string> emulated(const std::vector<std::string>& more) {
  std::vector<std::string> sets = kEmulated;
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace

TEST_CASE("jitter and changes are read and written again", "[config]") {
  const RunConfig config = parse(R"({"train": {"steps": 5, "emulate_compute": [0.1, 0.2],
      "emulate_jitter": {"cv": 0.25, "stall_every": [0, 2.5], "stall_seconds": 1},
      "emulate_changes": [{"step": 200, "rank": 1, "factor": 2},
                          {"step": 1, "rank": 0, "factor": 0.5}]}})");
  CHECK(std::get<double>(config.train.emulate_jitter.cv) == 0.25);
  CHECK(std::get<std::vector<double>>(config.train.emulate_jitter.stall_every)[1] == 2.5);
  CHECK(config.train.emulate_jitter.stall_seconds == 1);
  CHECK(config.train.emulate_changes ==
        BoardChanges{{.step = 200, .rank = 1, .factor = 2}, {.step = 1, .rank = 0, .factor = 0.5}});
  CHECK(parse(resolved_json(config)) == config);
  CHECK(resolved_json(parse(resolved_json(config))) == resolved_json(config));
}

TEST_CASE("malformed changes are refused", "[config]") {
  for (const std::string wrong :
       {"1", "{}", "[1]", "[{}]", R"([{"step":1,"rank":0}])", R"([{"step":0,"rank":0,"factor":1}])",
        R"([{"step":1,"rank":-1,"factor":1}])", R"([{"step":1,"rank":0,"factor":0}])",
        R"([{"step":1,"rank":0,"factor":-2}])", R"([{"step":1,"rank":0,"factor":1001}])",
        R"([{"step":1.5,"rank":0,"factor":1}])", R"([{"step":1,"rank":0,"factor":1,"more":1}])",
        R"([{"step":1,"rank":0,"factors":1}])"})
    CHECK_THAT(
        rejection("{}", emulated({"train.emulate_changes=" + wrong})),
        ContainsSubstring("train.emulate_changes") && ContainsSubstring("a list of objects like"));
}

TEST_CASE("jitter out of range is refused", "[config]") {
  CHECK_THAT(rejection("{}", emulated({"train.emulate_jitter.cv=-0.1"})),
             ContainsSubstring("[0, 10]"));
  CHECK_THAT(rejection("{}", emulated({"train.emulate_jitter.cv=[]"})),
             ContainsSubstring("train.emulate_jitter.cv"));
  CHECK_THAT(rejection("{}", emulated({"train.emulate_jitter.stall_every=0.001",
                                       "train.emulate_jitter.stall_seconds=1"})),
             ContainsSubstring("0.01") && ContainsSubstring("found 0.001"));
}

TEST_CASE("stalls need a distance and a length, and all of it emulated boards", "[config]") {
  CHECK_THAT(rejection("{}", emulated({"train.emulate_jitter.stall_every=2"})),
             ContainsSubstring("stall_seconds"));
  CHECK_THAT(rejection("{}", emulated({"train.emulate_jitter.stall_seconds=2"})),
             ContainsSubstring("stall_every"));
  for (const std::string set :
       {"train.emulate_jitter.cv=0.1", R"(train.emulate_changes=[{"step":1,"rank":0,"factor":2}])"})
    CHECK_THAT(rejection("{}", {set}), ContainsSubstring("train.emulate_compute"));
  CHECK_NOTHROW(parse("{}", emulated({"train.emulate_jitter.stall_every=[0, 2]",
                                      "train.emulate_jitter.stall_seconds=1"})));
}
