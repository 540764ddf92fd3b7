// SPDX-License-Identifier: Apache-2.0
// Events against the bytes of TensorBoard's own protocol buffers; make_events.py made them.

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metrics/event_bytes.hpp"
#include "support/catch.hpp"

using namespace eqt::metrics;

namespace {

constexpr double kWall = 1700000000.25;
constexpr EventTime kTime = {.wall = kWall, .step = 300};

std::string golden(const std::string& name) {
  std::ifstream file(EQT_SOURCE_DIR "/tests/metrics/golden/events.json");
  return nlohmann::json::parse(file).at(name);
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string setting(const Setting& one) { return hex(settings_event(kWall, std::vector{one})); }

}  // namespace

TEST_CASE("events have the bytes of TensorBoard's protocol buffers", "[events]") {
  CHECK(hex(version_event(kWall)) == golden("version"));
  CHECK(hex(restart_event(kTime)) == golden("restart"));
  CHECK(hex(scalars_event(kTime,
                          std::vector<Scalar>{{"step/loss", 2.5}, {"step/seconds/data", 0.1}})) ==
        golden("scalars"));
  CHECK(hex(text_event(kTime, "config", "# a\n\xC3\xA4")) == golden("text"));
  CHECK(hex(success_event(kWall)) == golden("success"));
}

TEST_CASE("histograms and images have the bytes of TensorBoard's protocol buffers", "[events]") {
  const HistogramRecord histogram = {.step = 300,
                                     .name = "gradient/all",
                                     .least = -1.5,
                                     .most = 2,
                                     .sum = 3.25,
                                     .sum_squares = 11,
                                     .upper_limits = {-1, 1, 2.5},
                                     .counts = {1, 4, 2}};
  CHECK(hex(histogram_event(kWall, histogram)) == golden("histogram"));
  const ImageRecord image = {
      .step = 300, .name = "samples", .width = 3, .height = 2, .channels = 1, .pixels = {}};
  CHECK(hex(image_event(kWall, image, "\x89PNG")) == golden("image"));
}

TEST_CASE("settings of all types have the bytes of TensorBoard's protocol buffers", "[events]") {
  CHECK(setting({.name = "a.b", .number = 0.5}) == golden("setting_number"));
  CHECK(setting({.name = "a.b", .type = Setting::Type::flag, .number = 1}) ==
        golden("setting_flag"));
  CHECK(setting({.name = "a.b", .type = Setting::Type::text, .text = "qsgd"}) ==
        golden("setting_text"));
}

TEST_CASE("a frame has the length, the event and their masked checksums", "[events]") {
  CHECK(hex(framed(version_event(kWall))) == golden("framed_version"));
}
