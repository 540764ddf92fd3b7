// SPDX-License-Identifier: Apache-2.0
#include "app/resume.hpp"

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;

TEST_CASE("a run that goes on with another precision says that parameters are float32", "[app]") {
  const config::RunConfig saved;
  config::RunConfig now;
  const auto note = [&] { return app::settle_resumed_config(saved, "dense", true, now); };
  CHECK(note().empty());
  now.optimizer.learning_rate = 0.5;
  CHECK(note().find("float32") == std::string::npos);
  now.model.precision = model::Precision::int8;
  test::says(note(), "model.precision \"int8\" instead of \"fp32\"");
  test::says(note(), "parameters are float32");
  now.seed = 2;
  test::says(test::refusal(Kind::usage, note), "seed 2 instead of 1");
}
