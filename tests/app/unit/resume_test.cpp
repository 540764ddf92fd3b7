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

TEST_CASE("fusion buckets stay where the saved state has parts of them", "[app]") {
  const auto refused = [](const std::vector<std::string>& sets) {
    const config::RunConfig saved = config::parse_config("{}", "test", sets);
    config::RunConfig now = saved;
    now.synchronization.bucket_mib = 1;
    return test::refusal(Kind::usage,
                         [&] { app::settle_resumed_config(saved, "allgather", true, now); });
  };
  test::says(refused({"compressor.name=auto"}), "synchronization.bucket_mib 1.0 instead of 4.0");
  test::says(refused({"synchronization.algorithm=local-sgd", "synchronization.local_steps=4",
                      "synchronization.fragments=2"}),
             "synchronization.bucket_mib");
  const config::RunConfig saved;
  config::RunConfig now;
  now.synchronization.bucket_mib = 1;
  test::says(app::settle_resumed_config(saved, "allgather", true, now), "bucket_mib");
}

TEST_CASE("a run that is resumed keeps the error feedback that it began with", "[app]") {
  const auto config = [](const std::vector<std::string>& sets) {
    return config::parse_config(R"({"compressor": {"name": "e-elastiquant"}})", "test", sets);
  };
  const std::string key = "synchronization.error_feedback=";
  const config::RunConfig automatic = config({}), none = config({key + "none"}),
                          ef14 = config({key + "ef14"});
  const auto resumed = [](const config::RunConfig& saved, config::RunConfig now) {
    CHECK(app::settle_resumed_config(saved, "allgather", true, now).empty());
    return now.synchronization.error_feedback;
  };
  // Older versions saved "auto" and meant none.
  CHECK(resumed(automatic, automatic) == config::ErrorFeedback::none);
  CHECK(resumed(automatic, none) == config::ErrorFeedback::none);
  CHECK(resumed(none, automatic) == config::ErrorFeedback::none);
  CHECK(resumed(ef14, automatic) == config::ErrorFeedback::ef14);
  const config::RunConfig rate = config({"compressor.rate=1"});
  CHECK(resumed(rate, rate) == config::ErrorFeedback::automatic);
  for (const auto& [saved, wanted] : {std::pair(automatic, ef14), {none, ef14}, {ef14, none}}) {
    config::RunConfig now = wanted;
    test::says(test::refusal(Kind::usage,
                             [&] { app::settle_resumed_config(saved, "allgather", true, now); }),
               "synchronization.error_feedback");
  }
}

TEST_CASE("a run that goes on with other ranks may have another quorum", "[app]") {
  const auto config = [](const std::vector<std::string>& sets) {
    return config::parse_config(R"({"synchronization": {"algorithm": "local-sgd", "local_steps": 4,
                                    "delay": "auto"}})",
                                "test", sets);
  };
  const config::RunConfig three = config({"synchronization.quorum=3"});
  const config::RunConfig in_step = config({});
  config::RunConfig two = config({"synchronization.quorum=2"});
  test::says(app::settle_resumed_config(three, "allgather", false, two),
             "synchronization.quorum 2 instead of 3");
  const auto refused = [](const config::RunConfig& saved, config::RunConfig now, bool same_ranks) {
    return test::refusal(Kind::usage,
                         [&] { app::settle_resumed_config(saved, "allgather", same_ranks, now); });
  };
  test::says(refused(three, two, true), "synchronization.quorum 2 instead of 3");
  // A quorum is neither begun nor ended.
  test::says(refused(three, in_step, false), "synchronization.quorum 0 instead of 3");
  test::says(refused(in_step, two, false), "synchronization.quorum 2 instead of 0");
}
