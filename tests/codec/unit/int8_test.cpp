// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "codec/catalogue.hpp"
#include "codec/unit/vectors.hpp"
#include "support/sign_oracle.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

std::unique_ptr<Compressor> int8(std::size_t bucket_size) {
  return make_compressor("int8", {.bucket_size = bucket_size});
}

}  // namespace

TEST_CASE("int8's bytes equal the oracle's on every target", "[int8]") {
  for (const std::size_t bucket_size : {1u, 7u, 32u, 512u, 8192u}) {
    const auto codec = int8(bucket_size);
    for (const std::size_t count : kCounts) {
      for (const double deviation : {1e-44, 1e-39, 1e-36, 1e-3, 1e30, 1e37}) {
        const auto values = gaussian(count, deviation, count);
        const Bytes expected = plain_int8(values, bucket_size);
        on_every_target([&] { REQUIRE(encode(*codec, values) == expected); });
        REQUIRE(expected.size() == codec->max_payload_bytes(count));
      }
    }
  }
}

TEST_CASE("int8 agrees with the reference vectors", "[int8][vectors]") {
  for_each_vector_file(
      [](const nlohmann::json& vectors) {
        const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
        const auto& row = vectors.at("casts").at("int8_absmax_v8");
        const Bytes payload = encode(*int8(8), v8);
        REQUIRE(load<float>(payload.data()) ==
                Approx(row.at("scale").get<double>()).epsilon(1e-6).margin(0));
        const auto decoded = decode(*int8(8), payload, 8);
        for (std::size_t i = 0; i < 8; ++i) {
          REQUIRE(load<std::int8_t>(payload.data() + 4 + i) ==
                  row.at("round_half_even").at(i).get<int>());
          REQUIRE(decoded[i] ==
                  Approx(row.at("decoded").at(i).get<double>()).epsilon(1e-6).margin(0));
        }
      },
      "vectors_simple.json");
}

TEST_CASE("int8's error is at most half a step, from denormals to the largest float", "[int8]") {
  for (const double deviation : {3e-44, 1e-40, 1e-37, 1.0, 1e37}) {
    auto values = gaussian(1000, deviation);
    values[3] = 0;
    values[4] = -0.0f;
    values[999] = deviation > 1e30 ? -kMax : kTiny;
    const Bytes payload = encode(*int8(100), values);
    const auto out = decode(*int8(100), payload, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double step = load<float>(payload.data() + i / 100 * 104);
      REQUIRE(std::isfinite(out[i]));
      REQUIRE(std::abs(double{out[i]} - values[i]) <= step * (0.5 + 0x1p-15));
    }
  }
  // One denormal is its own step.
  REQUIRE(decode(*int8(4), encode(*int8(4), std::vector{kTiny, -kTiny}), 2) ==
          std::vector{kTiny, -kTiny});
}

TEST_CASE("int8 rounds ties to even", "[int8]") {
  // The step is exactly 1.
  const std::vector<float> values{127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.75f};
  const std::vector<float> expected{127, 0, 2, 2, 0, -2, -2, 1};
  on_every_target(
      [&] { REQUIRE(decode(*int8(8), encode(*int8(8), values), values.size()) == expected); });
}

TEST_CASE("cutting at a bucket changes no byte", "[int8]") {
  const auto values = gaussian(1000);
  const auto codec = int8(96);
  REQUIRE(codec->properties().granule == 96);
  Bytes joined = encode(*codec, std::span(values).first(480));
  append(joined, encode(*codec, std::span(values).subspan(480)));
  REQUIRE(joined == encode(*codec, values));
}

TEST_CASE("int8-channels is int8 with the rows as buckets", "[int8]") {
  const auto codec = make_compressor("int8-channels");
  struct Case {
    std::size_t rows, columns;
    bool own_steps;
  };
  for (const auto& [rows, columns, own_steps] :
       {Case{16, 27, true}, Case{1, 5, true}, Case{3, 8, true}, Case{40, 7, false},
        Case{100, 1, false}, Case{64, 576, true}}) {
    const auto values = gaussian(rows * columns);
    Workspace workspace;
    Bytes payload(codec->max_payload_bytes(values.size()));
    payload.resize(codec->encode(
        values, {.key = {}, .shared_scale = {}, .density = {}, .rows = rows}, workspace, payload));
    const std::size_t bucket = own_steps ? columns : values.size();
    INFO(rows << " x " << columns);
    CHECK(load<std::uint32_t>(payload.data()) == (own_steps ? rows : 1));
    const Bytes buckets(payload.begin() + 4, payload.end());
    CHECK(buckets == encode(*int8(bucket), values));
    CHECK(decode(*codec, payload, values.size()) == decode(*int8(bucket), buckets, values.size()));
  }
  // A vector has one step.
  CHECK(encode(*codec, gaussian(30)).size() == 4 + 4 + 30);
}

TEST_CASE("int8-channels sends rounded rows as they are", "[int8]") {
  const auto codec = make_compressor("int8-channels");
  const std::vector<float> values(16, 100.0f);  // not what is sent
  std::vector<std::int8_t> rounded(16);
  for (std::size_t i = 0; i < 16; ++i) rounded[i] = static_cast<std::int8_t>(i * 16 - 120);
  const std::vector<float> scales = {0.5f, 2.0f};
  Workspace workspace;
  Bytes payload(codec->max_payload_bytes(16));
  payload.resize(codec->encode(values,
                               {.key = {},
                                .shared_scale = {},
                                .density = {},
                                .rows = 2,
                                .rounded = RoundedRows{rounded, scales}},
                               workspace, payload));
  REQUIRE(payload.size() == 4 + 16 + 2 * sizeof(float));
  const auto decoded = decode(*codec, payload, 16);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(decoded[i] == scales[i / 8] * static_cast<float>(rounded[i]));
}

TEST_CASE("int8-channels rejects lengths, steps and integers that are impossible", "[int8]") {
  const auto codec = make_compressor("int8-channels");
  const auto values = gaussian(48);
  Workspace workspace;
  Bytes good(codec->max_payload_bytes(48));
  good.resize(codec->encode(values, {.key = {}, .shared_scale = {}, .density = {}, .rows = 3},
                            workspace, good));
  for (std::size_t size = 0; size < good.size() + 9 * sizeof(float); ++size) {
    if (size == good.size()) continue;
    Bytes other = good;
    other.resize(size);
    refusal(Kind::wire, [&] { decode(*codec, other, 48); });
  }
  for (const std::uint32_t rows : {0u, 5u, 7u, 48u, 0xFFFFFFFFu}) {
    Bytes other = good;
    store(other.data(), rows);
    CHECK(contains(refusal(Kind::wire, [&] { decode(*codec, other, 48); }), "rows that divide"));
  }
  Bytes bad = good;
  store(bad.data() + 24, -1.0f);  // the second row's
  CHECK(contains(refusal(Kind::wire, [&] { decode(*codec, bad, 48); }), "from 16 on"));
  bad = good;
  bad.back() = std::byte{0x80};
  CHECK(contains(refusal(Kind::wire, [&] { decode(*codec, bad, 48); }), "-128"));
  CHECK(decode(*codec, {}, 0).empty());
  refusal(Kind::wire, [&] { decode(*codec, Bytes(4), 0); });
}

TEST_CASE("int8 rejects invalid steps and integers", "[int8]") {
  const auto codec = int8(10);
  for (const std::size_t count : {1u, 10u, 11u, 40u, 45u}) {
    const Bytes good = encode(*codec, gaussian(count));
    for (const float step : {-1.0f, -0.0f, std::nanf(""), HUGE_VALF, 2.6794e36f}) {
      Bytes bad = good;
      store(bad.data() + (count - 1) / 10 * 14, step);
      REQUIRE(contains(refusal(Kind::wire, [&] { decode(*codec, bad, count); }), "step"));
    }
    Bytes bad = good;
    bad.back() = std::byte{0x80};
    on_every_target([&] {
      REQUIRE(contains(refusal(Kind::wire, [&] { decode(*codec, bad, count); }), "-128"));
    });
    for (std::size_t size = 0; size < good.size() + 9; ++size) {
      if (size == good.size()) continue;
      Bytes other = good;
      other.resize(size);
      refusal(Kind::wire, [&] { decode(*codec, other, count); });
    }
  }
  refusal(Kind::usage, [] { int8(0); });
}
