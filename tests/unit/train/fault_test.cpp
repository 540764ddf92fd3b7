#include "train/fault.hpp"

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::train;

TEST_CASE("a fault strikes its rank and step only", "[fault]") {
  std::vector<float> parameters = {1, 2};
  const Fault raise = parse_fault("throw:rank=1,step=3");
  CHECK_NOTHROW(raise.strike(0, 3, parameters));
  CHECK_NOTHROW(raise.strike(1, 2, parameters));
  CHECK_THROWS_AS(raise.strike(1, 3, parameters), Error);
  parse_fault("nan:rank=0,step=0").strike(0, 0, parameters);
  CHECK(std::isnan(parameters[0]));
}

TEST_CASE("a fault in a bucket strikes there and nowhere else", "[fault]") {
  std::vector<float> parameters = {1, 2};
  const Fault raise = parse_fault("throw:rank=1,step=3,bucket=2");
  CHECK_NOTHROW(raise.strike(1, 3, parameters));
  CHECK(raise.strike_in_bucket(0, 3, 2) == 3);
  CHECK(raise.strike_in_bucket(1, 2, 2) == 2);
  CHECK(raise.strike_in_bucket(1, 3, 1) == 3);
  CHECK_THROWS_AS(raise.strike_in_bucket(1, 3, 2), Error);
  CHECK(parse_fault("throw:rank=1,step=3").strike_in_bucket(1, 3, 0) == 3);

  const Fault slip = parse_fault("slip:rank=0,step=7,bucket=0");
  CHECK(slip.strike_in_bucket(0, 7, 0) == 8);
  CHECK(slip.strike_in_bucket(0, 7, 1) == 7);
  CHECK(parse_fault("kill:rank=0,step=7").act == Fault::Act::kill);
  CHECK(parse_fault("stall:rank=0,step=7,bucket=5").bucket == 5u);
}

TEST_CASE("a fault that cannot be read is a usage error", "[fault]") {
  for (const char* text :
       {"", "throw", "throw:rank=1", "throw:rank=x,step=3", "burn:rank=1,step=3",
        "throw:rank=1,step=3 and more", "slip:rank=1,step=3", "nan:rank=1,step=3,bucket=0",
        "stall:rank=1,step=3,bucket=", "stall:rank=1,step=3,bucket=2 and more"}) {
    try {
      parse_fault(text);
      FAIL_CHECK(text);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::usage);
    }
  }
}
