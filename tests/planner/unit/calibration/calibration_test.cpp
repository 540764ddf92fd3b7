// SPDX-License-Identifier: Apache-2.0
// Calibrations: what is written is what is read, and mistakes are refused with their place.

#include "planner/calibration/calibration.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "planner/unit/calibration/made_times.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

Calibration measured() {
  RunTimes run = test::made_times("runs/a", 32, 0.5);
  run.update_seconds = 2e-6;
  run.sent_bytes = 100;
  run.profile = Profile{
      .forward = 0.125,
      .backward = 0.375,
      .slices = {{.name = "fc.weight", .ready = 0.125}, {.name = "conv1.weight", .ready = 0.5}}};
  return {
      .processor = "Z80",
      .version = "1",
      .made_from = {"doctor: d.json"},
      .codecs = {{.compressor = "qsgd",
                  .bits = 4,
                  .encode_gb_s = 2,
                  .decode_add_gb_s = 4,
                  .feedback_gb_s = 1,
                  .variance = 0.5,
                  .simd = "Z80"}},
      .communication = collective::CommunicationCosts{.add = 1e-9, .message = 2e-5, .byte = 3e-9},
      .between_hosts = MeasuredLinks{.count = 2,
                                     .latency_seconds = 1e-3,
                                     .bytes_per_second = 1e7,
                                     .duplex_bytes_per_second = 9e6},
      .runs = {std::move(run)},
      .matmul = {{.host = "pi0", .threads = 4, .flops = 1e10}}};
}

/// What is said of the document with `value` at `pointer`; "nothing" if it is accepted.
std::string refused(const char* pointer, const json& value) {
  json document = json::parse(calibration_text(measured()));
  document[json::json_pointer(pointer)] = value;
  std::string words = "nothing";
  try {
    (void)parse_calibration(document.dump(2), "c.json");
  } catch (const Error&) {
    words =
        test::refusal(Kind::usage, [&] { (void)parse_calibration(document.dump(2), "c.json"); });
  }
  return words;
}

}  // namespace

TEST_CASE("a calibration that is written is read again", "[planner]") {
  const std::string text = calibration_text(measured());
  const Calibration read = parse_calibration(text, "c.json");
  CHECK(calibration_text(read) == text);
  CHECK(read.runs.at(0).host == "pi0");
  CHECK(read.matmul.at(0).flops == 1e10);
  REQUIRE(read.runs.at(0).profile);
  CHECK(read.runs.at(0).profile->slices.at(1).ready == 0.5);
  CHECK(json::parse(text)["guessed"].empty());
  CHECK(read.machine().communication.message == 2e-5);
  CHECK(read.machine().update == Approx(2e-9));
  CHECK(read.machine().guessed.empty());
}

TEST_CASE("what is missing has defaults and is listed", "[planner]") {
  const Calibration empty = {.processor = "Z80", .version = "1"};
  const json document = json::parse(calibration_text(empty));
  CHECK(document["guessed"] == json({"adding", "message", "update", "compressors", "links",
                                     "computing", "moments at which gradients are ready"}));
  CHECK(empty.machine().communication.message == MachineCosts().communication.message);
  const Calibration lines = parse_calibration(
      R"({"compressor":"none","encode_gb_s":1,"decode_add_gb_s":1})", "speeds.json");
  CHECK(lines.codecs.size() == 1);
  CHECK(differences(lines, "6502", "2").empty());
}

TEST_CASE("another processor or version is said", "[planner]") {
  CHECK(differences(measured(), "Z80", "1").empty());
  const auto notes = differences(measured(), "6502", "2");
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[0], ContainsSubstring("Z80") && ContainsSubstring("6502"));
  CHECK_THAT(notes[1], ContainsSubstring("version 1, this is 2"));
}

TEST_CASE("a calibration with a mistake is refused with its place", "[planner]") {
  CHECK(refused("/processor", "6502") == "nothing");
  CHECK_THAT(refused("/procesor", "6502"),
             ContainsSubstring("c.json") && ContainsSubstring("\"processor\""));
  CHECK_THAT(refused("/version", 3),
             ContainsSubstring("c.json.version") && ContainsSubstring("a text"));
  CHECK_THAT(refused("/codecs", 3), ContainsSubstring("a list"));
  CHECK_THAT(refused("/codecs/0/encode_gb_s", -1), ContainsSubstring("codecs[0].encode_gb_s"));
  CHECK_THAT(refused("/codecs/0/encode_gb_s", 1e300), ContainsSubstring("at most 1e+06"));
  CHECK_THAT(refused("/codecs/0/bits", 1.5), ContainsSubstring("an integer"));
  CHECK_THAT(refused("/codecs/0/speed", 1), ContainsSubstring("unknown key"));
  CHECK_THAT(refused("/communication/byte_seconds", -1e-9), ContainsSubstring("at least 0"));
  CHECK_THAT(refused("/communication/byte_seconds", nullptr), ContainsSubstring("found null"));
  CHECK_THAT(refused("/communication", json::object()), ContainsSubstring("\"add_seconds\""));
  CHECK_THAT(refused("/links_between_hosts/bytes_per_second", 0), ContainsSubstring("above 0"));
  CHECK_THAT(refused("/links_between_hosts/bytes_per_second", "fast"),
             ContainsSubstring("a number"));
  CHECK_THAT(refused("/runs/0/step_seconds", 1e9), ContainsSubstring("runs[0].step_seconds"));
  CHECK_THAT(refused("/runs/0/batch_size", 0), ContainsSubstring("of at least 1"));
  CHECK_THAT(refused("/runs/0/profile/forward_seconds", 0), ContainsSubstring("above 0"));
  CHECK_THAT(refused("/runs/0/profile/slices/1/ready_seconds", "late"),
             ContainsSubstring("runs[0].profile.slices[1]") && ContainsSubstring("a number"));
  CHECK_THAT(refused("/runs/0/profile/slices/0", 7), ContainsSubstring("an object"));
  CHECK_THAT(refused("/matmul/0/flops", 0), ContainsSubstring("matmul[0].flops"));
  CHECK_THAT(refused("/runs/0", 7), ContainsSubstring("runs[0]") && ContainsSubstring("an object"));
  CHECK_THAT(refused("/made_from/0", 7), ContainsSubstring("a list of texts"));
  CHECK_THROWS_WITH(parse_calibration("{\n\"processor\": ", "c.json"), ContainsSubstring("line 2"));
  CHECK_THROWS_WITH(parse_calibration("", "c.json"), ContainsSubstring("c.json"));
  CHECK_THROWS_WITH(parse_calibration("[]", "c.json"), ContainsSubstring("a JSON object"));
}

TEST_CASE("a calibration with any byte changed is read or refused in a sentence", "[planner]") {
  const std::string text = calibration_text(measured());
  std::size_t refusals = 0;
  const auto read = [&](const std::string& changed) {
    try {
      (void)parse_calibration(changed, "c.json");
    } catch (const Error& error) {
      ++refusals;
      CHECK(error.kind() == Kind::usage);
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    read(text.substr(0, at));
    for (const char byte : {'"', '-', '9', '[', '\xff', '\0'}) {
      std::string changed = text;
      changed[at] = byte;
      read(changed);
    }
  }
  CHECK(refusals > 3 * text.size());
}

}  // namespace eqt::planner
