// SPDX-License-Identifier: Apache-2.0
// Payloads that a generator in this folder computed without the program: a JSON file with a key,
// inputs by name (float32 values as hexadecimal words) and cases.

#pragma once

#include <fmt/format.h>

#include <bit>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/vectors.hpp"

namespace eqt::codec::testing {

inline std::vector<float> floats(const nlohmann::json& words) {
  std::vector<float> values;
  for (const auto& word : words) {
    const auto bits = std::stoul(word.get<std::string>(), nullptr, 16);
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

inline std::string hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

inline EncodeContext context_of(const nlohmann::json& key, const nlohmann::json& row) {
  EncodeContext context;
  context.key = {key.at("run_seed"), key.at("step"), key.at("rank"), key.at("slice")};
  context.first_index = row.value("first_index", std::uint64_t{0});
  context.rows = row.value("rows", std::size_t{0});
  if (row.contains("shared")) context.shared_scale = row.at("shared").get<float>();
  return context;
}

/// Encodes every case of `file` on every SIMD target and compares; make(case) gives its codec.
/// @param count number of cases, so that a missing case is noticed
template <typename Make>
void check_frozen_payloads(const std::string& file, std::size_t count, Make make) {
  const auto golden = read_json(std::string(EQT_SOURCE_DIR "/tests/codec/golden/") + file);
  REQUIRE(golden.at("cases").size() == count);
  for (const auto& row : golden.at("cases")) {
    INFO(row.dump());
    const auto codec = make(row);
    const auto values = floats(golden.at("inputs").at(row.at("input").get<std::string>()));
    REQUIRE(codec_name(codec->id()) == row.at("codec").get<std::string>());
    REQUIRE(codec->format_version() == row.at("format_version").get<int>());
    on_every_target([&] {
      REQUIRE(hex(encode(*codec, values, context_of(golden.at("key"), row))) ==
              row.at("payload").get<std::string>());
    });
  }
}

}  // namespace eqt::codec::testing
