// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_sink.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "event_support.hpp"
#include "metrics/event_bytes.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::metrics;
using namespace eqt::metrics::test;
namespace fs = std::filesystem;

namespace {

EventSinkOptions options_at(double wall, std::optional<StepId> goes_on_after = {}) {
  return {.step_records = true, .goes_on_after = goes_on_after, .host = "a/host", .wall = [wall] {
            return wall;
          }};
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The events of the one file that `act` writes into.
template <typename Act>
std::vector<ReadEvent> events_of(EventSinkOptions options, Act act) {
  const TemporaryFolder folder;
  {
    const auto sink = make_event_sink(folder.path().string(), std::move(options));
    act(*sink);
  }
  const auto names = files_in(folder.path());
  REQUIRE(names.size() == 1);
  return events_in(folder.path() / names[0]);
}

}  // namespace

TEST_CASE("CRC-32C of the examples of RFC 3720, appendix B.4", "[events]") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  CHECK(crc32c(ascending) == 0x46DD794E);
  std::reverse(ascending.begin(), ascending.end());
  CHECK(crc32c(ascending) == 0x113FDB5C);
}

TEST_CASE("an event file has its version, then a scalar for every number of the records",
          "[events]") {
  const auto events = events_of(options_at(1700000000.5), [](Sink& sink) {
    sink.write(step_record(7));
    sink.write(epoch_record());
  });
  REQUIRE(events.size() == 3);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].wall == 1700000000.5);
  CHECK(events[1].step == 7);
  CHECK(events[1].scalars == std::map<std::string, float>{{"step/epoch", 1.0f},
                                                          {"step/loss", 2.5f},
                                                          {"step/learning_rate", 0.1f},
                                                          {"step/seconds/data", 0.25f / 21},
                                                          {"step/seconds/compute", 0.5f / 21},
                                                          {"step/seconds/encode", 0.75f / 21},
                                                          {"step/seconds/transfer", 1.0f / 21},
                                                          {"step/seconds/decode", 1.25f / 21},
                                                          {"step/seconds/update", 1.5f / 21},
                                                          {"step/seconds/total", 0.25f},
                                                          {"step/sent_bytes", 1000.0f},
                                                          {"step/received_bytes", 1001.0f}});
  CHECK(events[2].step == 100);
  CHECK(events[2].scalars.at("epoch/test_accuracy") == 0.875f);
  CHECK(events[2].scalars.at("epoch/seconds/total") == 210.0f);
  CHECK(events[2].scalars.at("epoch/quantization_variance") == 0.25f);
  CHECK(events[2].scalars.count("epoch/consensus_distance") == 0);
  CHECK(events[2].scalars.count("epoch/step") == 0);
}

TEST_CASE("lists of numbers have a scalar each; texts, NaN and lists of objects have none",
          "[events]") {
  const auto events = events_of(options_at(1), [](Sink& sink) {
    Summary end = summary();
    make_replicas_differ(end);
    end.sent_bytes_by_edge = {{0, 1, 5}, {1, 0, 7}};
    end.train_loss = std::numeric_limits<double>::quiet_NaN();
    sink.write(end);
  });
  const auto& scalars = events.at(1).scalars;
  CHECK(scalars.at("summary/node_test_accuracy/1") == 0.75f);
  CHECK(scalars.at("summary/sent_bytes_by_node/1") == 7.0f);
  CHECK(scalars.at("summary/replicas_identical") == 1.0f);
  for (const auto& [tag, value] : scalars)
    for (const char* absent : {"edge", "hash", "name", "train_loss"})
      CHECK(tag.rfind(std::string("summary/") + absent, 0) == std::string::npos);
  CHECK(events.back().plugins ==
        std::map<std::string, std::string>{{"_hparams_/session_end_info", "hparams"}});
}

TEST_CASE("config, run and notes are texts", "[events]") {
  const auto events = events_of(options_at(1), [](Sink& sink) {
    sink.write(run_record());
    sink.write(NoteRecord{.step = 3, .text = "levels adapted"});
  });
  REQUIRE(events.size() == 5);
  CHECK(events[1].texts.at("config") == "```\n{\n  \"seed\": 7\n}\n```");
  CHECK(events[1].plugins.at("config") == "text");
  CHECK(events[2].texts.at("run").find("\"e-elastiquant\"") != std::string::npos);
  CHECK(events[3].plugins.at("_hparams_/session_start_info") == "hparams");
  CHECK(events[4].step == 3);
  CHECK(events[4].texts.at("notes") == "levels adapted");
}

TEST_CASE("settings are the leaves of the config", "[events]") {
  const auto settings = settings_of(
      Json::parse(R"({"seed": 7, "a": {"on": true, "name": "x", "none": null, "list": [1, 2]}})"),
      Json::object());
  REQUIRE(settings.size() == 4);
  CHECK(settings[0].name == "seed");
  CHECK(settings[0].number == 7);
  CHECK((settings[1].name == "a.on" && settings[1].type == Setting::Type::flag));
  CHECK((settings[2].name == "a.name" && settings[2].text == "x"));
  CHECK((settings[3].name == "a.list" && settings[3].text == "[1,2]"));
}

TEST_CASE("without step records there are only scalars of epochs", "[events]") {
  EventSinkOptions options = options_at(1);
  options.step_records = false;
  const auto events = events_of(options, [](Sink& sink) {
    sink.write(step_record(1));
    sink.write(epoch_record());
  });
  REQUIRE(events.size() == 2);
  CHECK(events[1].scalars.count("epoch/train_loss") == 1);
}

TEST_CASE(
    "a run that continues has its own file, sorted after the others even if the clock was set back",
    "[events]") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  make_event_sink(path, options_at(1700000000));
  make_event_sink(path, options_at(1600000000, 250))->write(step_record(251));
  make_event_sink(path, options_at(1700000500, 300));
  const auto names = files_in(folder.path());
  CHECK(names == std::vector<std::string>{"events.out.tfevents.1700000000.a-host",
                                          "events.out.tfevents.1700000001.a-host",
                                          "events.out.tfevents.1700000500.a-host"});
  const auto events = events_in(folder.path() / names[1]);
  REQUIRE(events.size() == 3);
  CHECK(events[1].restart);
  CHECK(events[1].step == 251);
  CHECK(events[2].step == 251);
}

TEST_CASE("after a rollback an event says from which step on events are void", "[events]") {
  const auto events = events_of(options_at(1), [](Sink& sink) {
    sink.write(NoteRecord{.step = 9, .text = "back", .back_to = 4});
  });
  REQUIRE(events.size() == 3);
  CHECK(events[1].restart);
  CHECK(events[1].step == 5);
  CHECK(events[2].step == 9);
}

TEST_CASE("scalars of emulated and simulated runs say so", "[events]") {
  for (const auto& [flag, name] : {std::pair{&RunRecord::emulated, "step/emulated"},
                                   {&RunRecord::simulated, "step/simulated"}}) {
    const auto events = events_of(options_at(1), [&](Sink& sink) {
      RunRecord run = run_record();
      run.*flag = true;
      sink.write(run);
      sink.write(step_record(1));
    });
    CHECK(events.back().scalars.at(name) == 1.0f);
  }
}

TEST_CASE("settings that differ from the defaults come first", "[events]") {
  const Json config = {{"a", 1}, {"b", {{"c", "x"}, {"d", true}}}, {"e", 2.5}, {"f", "new"}};
  const Json defaults = {{"a", 1}, {"b", {{"c", "y"}, {"d", true}}}, {"e", 2}};
  std::vector<std::string> names;
  for (const Setting& setting : settings_of(config, defaults)) names.push_back(setting.name);
  CHECK(names == std::vector<std::string>{"b.c", "e", "f", "a", "b.d"});
}
