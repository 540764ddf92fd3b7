#include "codec/sparse.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "codec/bytes.hpp"
#include "codec/codecs.hpp"
#include "codec/largest.hpp"
#include "unit/codec/codec_case.hpp"
#include "unit/codec/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

/// The oracle: sort everything, larger magnitude first, then lower index.
std::vector<std::uint32_t> sorted_largest(std::span<const float> values, std::size_t k) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

void require_selection(std::span<const float> values, std::size_t k) {
  const auto expected = sorted_largest(values, k);
  on_every_target([&] {
    Workspace workspace;
    const auto found = largest_magnitudes(values, k, workspace);
    REQUIRE(std::vector(found.begin(), found.end()) == expected);
  });
}

EncodeContext with_density(double density) {
  EncodeContext context;
  context.density = density;
  return context;
}

Bytes make_payload(std::uint32_t k, const std::vector<std::uint32_t>& indices,
                   const std::vector<float>& values) {
  Bytes payload(4 + 4 * indices.size() + 4 * values.size());
  std::byte* at = payload.data();
  store(at, k);
  for (const std::uint32_t index : indices) store(at += 4, index);
  for (const float value : values) store(at += 4, value);
  return payload;
}

}  // namespace

TEST_CASE("the selection is that of a sort, for every k", "[topk]") {
  for (const std::size_t count : {1u, 2u, 3u, 7u, 33u, 100u}) {
    for (std::size_t k = 1; k <= count; ++k) require_selection(gaussian(count, 1, count), k);
  }
  for (const std::size_t k : {1u, 10u, 100u, 1000u, 5000u, 10006u, 10007u}) {
    require_selection(gaussian(10007), k);
  }
}

TEST_CASE("equal magnitudes are taken from the lowest index on", "[topk]") {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1.5f : -1.5f;
  for (const std::size_t k : {1u, 2u, 63u, 500u, 999u, 1000u}) require_selection(values, k);
  values[700] = -2.0f;
  values[3] = 0.0f;
  for (const std::size_t k : {1u, 2u, 63u, 998u, 999u, 1000u}) require_selection(values, k);
}

TEST_CASE("magnitudes that differ in the last bit are told apart", "[topk]") {
  // Neighbouring floats, scattered: all share the first two histograms' bins in turn.
  for (const std::uint32_t step : {1u, 1u << 10, 1u << 20}) {
    std::vector<float> values(2000);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const std::uint32_t bits = 0x3F800000u - 1000 + (i * 1237u % 700) * step % 0x10000000u;
      values[i] = std::bit_cast<float>(bits | (i % 3 == 0 ? 0x80000000u : 0));
    }
    for (const std::size_t k : {1u, 17u, 300u, 1999u}) require_selection(values, k);
  }
}

TEST_CASE("denormals and zeros are ordered like other magnitudes", "[topk]") {
  std::vector<float> values(200, 0.0f);
  for (std::size_t i = 0; i < 100; ++i) {
    values[2 * i] = (i % 2 == 0 ? 1.0f : -1.0f) * std::numeric_limits<float>::denorm_min() *
                    static_cast<float>(i * 7919 % 101);
    values[2 * i + 1] = -0.0f;
  }
  for (const std::size_t k : {1u, 50u, 100u, 150u, 200u}) require_selection(values, k);
}

TEST_CASE("NaN or infinity anywhere gives no selection", "[topk]") {
  auto values = gaussian(100);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const std::size_t i : {0u, 50u, 99u}) {
      auto broken = values;
      broken[i] = bad;
      Workspace workspace;
      REQUIRE(largest_magnitudes(broken, 3, workspace).empty());
      const auto codec = make_topk({});
      REQUIRE(contains(error_of(Kind::diverged, [&] { encode(*codec, broken); }),
                       "index " + std::to_string(i) + " of 100"));
    }
  }
}

TEST_CASE("k is the floor of density times count, at least 1", "[topk]") {
  const auto sent = [](double density, std::size_t count) {
    const auto payload = encode(*make_topk({.density = density}), gaussian(count));
    return load<std::uint32_t>(payload.data());
  };
  REQUIRE(sent(0.01, 1) == 1);
  REQUIRE(sent(0.01, 199) == 1);
  REQUIRE(sent(0.01, 200) == 2);
  REQUIRE(sent(0.25, 10007) == 2501);
  REQUIRE(sent(1.0, 10007) == 10007);
}

TEST_CASE("the step's density overrides the option's", "[topk]") {
  const auto codec = make_dgc({.density = 0.01});
  const auto payload = encode(*codec, gaussian(1000), with_density(0.25));
  REQUIRE(payload.size() == 4 + 8 * 250);
  REQUIRE(codec->id() == CodecId::dgc);
}

TEST_CASE("densities outside (0, 1] are rejected", "[topk]") {
  for (const double density : {0.0, -0.1, 1.01, std::nan("")}) {
    error_of(Kind::usage, [&] { make_topk({.density = density}); });
    error_of(Kind::usage, [&] { encode(*make_topk({}), gaussian(10), with_density(density)); });
  }
}

TEST_CASE("top-k agrees with the reference vectors", "[topk][vectors]") {
  for_each_vector_file([](const nlohmann::json& vectors) {
    const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
    const auto& row = vectors.at("contraction").at("topk_k2");
    const auto codec = make_topk({.density = 0.25});
    const auto out = decode(*codec, encode(*codec, v8), v8.size());
    REQUIRE(out == row.at("kept").get<std::vector<float>>());
    REQUIRE(squared_distance(out, v8) / squared_norm(v8) ==
            Approx(row.at("residual_ratio").get<double>()).epsilon(1e-9));
  });
}

TEST_CASE("zero_sent zeroes the sent indices and no other", "[topk]") {
  const auto values = gaussian(1000);
  const auto payload = encode(*make_topk({.density = 0.1}), values);
  const auto sent = sorted_largest(values, 100);
  std::vector<float> memory(1000, 3.0f);
  zero_sent(payload, memory);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    REQUIRE(memory[i] == (std::binary_search(sent.begin(), sent.end(), i) ? 0.0f : 3.0f));
  }
  std::vector<float> none;
  REQUIRE_NOTHROW(zero_sent({}, none));
}

TEST_CASE("malformed sparse payloads are rejected by what is wrong", "[topk]") {
  const auto codec = make_topk({});
  const auto message = [&](const Bytes& payload, std::size_t count) {
    std::vector<float> memory(count);
    error_of(Kind::wire, [&] { zero_sent(payload, memory); });
    return error_of(Kind::wire, [&] { decode(*codec, payload, count); });
  };
  REQUIRE_NOTHROW(decode(*codec, make_payload(2, {0, 9}, {1, 2}), 10));
  REQUIRE(contains(message({}, 10), "at least 4 bytes"));
  REQUIRE(contains(message(Bytes(3), 10), "at least 4 bytes"));
  REQUIRE(contains(message(make_payload(0, {}, {}), 10), "1 to 10 entries, found 0"));
  REQUIRE(contains(message(make_payload(3, {0, 1, 2}, {1, 2, 3}), 2), "1 to 2 entries, found 3"));
  REQUIRE(contains(message(make_payload(2, {0}, {1}), 10), "20 bytes for 2 entries, found 12"));
  REQUIRE(contains(message(make_payload(1, {0, 1}, {1, 2}), 10), "12 bytes for 1 entries"));
  REQUIRE(contains(message(make_payload(2, {0, 10}, {1, 2}), 10), "found 10"));
  REQUIRE(contains(message(make_payload(2, {4, 4}, {1, 2}), 10), "5 ... 9, found 4"));
  REQUIRE(contains(message(make_payload(2, {4, 3}, {1, 2}), 10), "5 ... 9, found 3"));
  REQUIRE(contains(message(make_payload(1, {4}, {std::nanf("")}), 10), "finite"));
  REQUIRE(contains(message(Bytes(4, std::byte{0xFF}), 10), "4294967295"));
  error_of(Kind::wire, [&] { decode(*codec, make_payload(1, {0}, {1}), 0); });
}
