// SPDX-License-Identifier: Apache-2.0
#include "comm/fault.hpp"

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::comm;
using Phase = Fault::Phase;

TEST_CASE("a fault happens only on its rank and in its step", "[fault]") {
  std::vector<float> parameters = {1, 2};
  const Fault raise = parse_fault("throw:rank=1,step=3");
  CHECK_FALSE(raise.inject(Phase::step, 0, 3, parameters));
  CHECK_FALSE(raise.inject(Phase::step, 1, 2, parameters));
  CHECK_FALSE(raise.inject(Phase::evaluation, 1, 3, parameters));
  CHECK_THROWS_AS(raise.inject(Phase::step, 1, 3, parameters), Error);
  CHECK(parse_fault("nan:rank=0,step=0").inject(Phase::step, 0, 0, parameters));
  CHECK(std::isnan(parameters[0]));
}

TEST_CASE("a fault of an evaluation or a checkpoint happens in the first one after its step",
          "[fault]") {
  std::vector<float> parameters = {1, 2};
  const Fault evaluation = parse_fault("throw:rank=1,step=3,phase=evaluation");
  CHECK_FALSE(evaluation.inject(Phase::evaluation, 1, 2, parameters));
  CHECK_FALSE(evaluation.inject(Phase::step, 1, 3, parameters));
  CHECK_THROWS_AS(evaluation.inject(Phase::evaluation, 1, 5, parameters), Error);
  const Fault checkpoint = parse_fault("nan:phase=checkpoint,step=0,rank=2");
  CHECK(checkpoint.inject(Phase::checkpoint, 2, 8, parameters));
  CHECK(std::isnan(parameters[0]));
  const Fault end = parse_fault("throw:rank=0,step=2,phase=end");
  CHECK_THROWS_AS(end.inject(Phase::end, 0, 4, {}), Error);  // at the end of training, in any step
  CHECK_FALSE(end.inject(Phase::step, 0, 2, {}));
  CHECK_THROWS_AS(parse_fault("throw:rank=1,step=0,phase=start").inject(Phase::start, 1, 0, {}),
                  Error);
}

TEST_CASE("a fault in a bucket happens only there", "[fault]") {
  std::vector<float> parameters = {1, 2};
  const Fault raise = parse_fault("throw:rank=1,step=3,bucket=2");
  CHECK_FALSE(raise.inject(Phase::step, 1, 3, parameters));
  CHECK(raise.inject_in_bucket(0, 3, 2) == 3);
  CHECK(raise.inject_in_bucket(1, 2, 2) == 2);
  CHECK(raise.inject_in_bucket(1, 3, 1) == 3);
  CHECK_THROWS_AS(raise.inject_in_bucket(1, 3, 2), Error);
  CHECK(parse_fault("throw:rank=1,step=3").inject_in_bucket(1, 3, 0) == 3);

  const Fault slip = parse_fault("slip:rank=0,step=7,bucket=0");
  CHECK(slip.inject_in_bucket(0, 7, 0) == 8);
  CHECK(slip.inject_in_bucket(0, 7, 1) == 7);
  CHECK(parse_fault("kill:rank=0,step=7").act == Fault::Act::kill);
  CHECK(parse_fault("stall:rank=0,step=7,bucket=5").bucket == 5u);
}

TEST_CASE("every act has its name", "[fault]") {
  CHECK(parse_fault("stop:rank=0,step=1,phase=launch").act == Fault::Act::stop);
  CHECK(parse_fault("slow:rank=0,step=1").act == Fault::Act::slow);
  CHECK(parse_fault("drop:rank=0,step=1").act == Fault::Act::drop);
  CHECK(parse_fault("flip:rank=0,step=1,bucket=1").act == Fault::Act::flip);
  CHECK(parse_fault("truncate-message:rank=0,step=1").act == Fault::Act::truncate);
}

TEST_CASE("a malformed fault is a usage error", "[fault]") {
  for (const char* text : {"",
                           "throw",
                           "throw:",
                           "throw:rank=1",
                           "throw:rank=x,step=3",
                           "burn:rank=1,step=3",
                           "throw:rank=1,step=3 and more",
                           "slip:rank=1,step=3",
                           "nan:rank=1,step=3,bucket=0",
                           "stall:rank=1,step=3,bucket=",
                           "stall:rank=1,step=3,bucket=2 and more",
                           "throw:rank=1,step=3,",
                           "throw:rank=1,step=3,step=4",
                           "throw:rank=-1,step=3",
                           "throw:rank=1,step=99999999999999999999",
                           "throw:rank=1,step=3,phase=dinner",
                           "throw:rank=1,step=3,phase=evaluation,bucket=1",
                           "nan:rank=1,step=0,phase=start",
                           "nan:rank=1,step=0,phase=end",
                           "flip:rank=1,step=0,phase=launch",
                           "truncate-checkpoint:rank=0,step=1"}) {
    try {
      parse_fault(text);
      FAIL_CHECK(text);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::usage);
    }
  }
}
