// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>

#include "codec/catalogue.hpp"
#include "codec/signs/sign_kernels.hpp"
#include "codec/unit/vectors.hpp"
#include "support/sign_oracle.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

/// Around vectors, words and the blocks of kSignBlock values.
std::vector<std::size_t> sign_counts() {
  auto counts = kCounts;
  counts.insert(counts.end(), {15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 8191, 8193});
  return counts;
}

/// Gaussian values among zeros of both signs, denormals and the largest floats.
std::vector<float> mixed(std::size_t count, double deviation = 1) {
  auto values = gaussian(count, deviation, count + 1);
  const float special[] = {0.0f, -0.0f, kTiny, -kTiny, kMax, -kMax};
  for (std::size_t i = 0; i < count; i += 7) values[i] = special[i / 7 % 6];
  return values;
}

EncodeContext with_rows(std::size_t rows) {
  EncodeContext context;
  context.rows = rows;
  return context;
}

/// As in the collective: each rank's signs times 1/n added in rank order, then the vote.
std::vector<float> vote(const std::vector<std::vector<float>>& ranks) {
  const auto codec = make_compressor("signsgd");
  Workspace workspace;
  std::vector<float> mean(ranks[0].size(), 0.0f);
  for (const auto& values : ranks) {
    codec->decode_add(encode(*codec, values), 1.0f / static_cast<float>(ranks.size()), workspace,
                      mean);
  }
  codec->finish_mean(mean);
  return mean;
}

}  // namespace

TEST_CASE("sign payloads equal the oracle's on every target", "[sign]") {
  for (const std::size_t count : sign_counts()) {
    INFO(count);
    for (const auto& values : {gaussian(count, 1e-3, count), mixed(count)}) {
      on_every_target([&] {
        REQUIRE(encode(*make_compressor("signsgd"), values) == plain_plane(values));
        REQUIRE(encode(*make_compressor("ef-signsgd"), values) == plain_ef_signsgd(values));
        REQUIRE(encode(*make_compressor("onebit"), values) == plain_onebit(values, 1));
      });
    }
  }
}

TEST_CASE("onebit has a pair of means per row of eight values or more", "[sign]") {
  struct Shape {
    std::size_t rows, columns, rows_sent;
  };
  for (const Shape shape :
       {Shape{1, 5, 1}, Shape{16, 27, 16}, Shape{3, 8, 3}, Shape{4, 7, 1}, Shape{2, 5000, 2},
        Shape{64, 577, 64}, Shape{1000, 9, 1000}, Shape{10, 64, 10}, Shape{3, 1, 1}}) {
    const std::size_t count = shape.rows * shape.columns;
    INFO(shape.rows << " x " << shape.columns);
    for (const auto& values : {gaussian(count, 0.1, count), mixed(count)}) {
      const Bytes expected = plain_onebit(values, shape.rows_sent);
      REQUIRE(expected.size() <= make_compressor("onebit")->max_payload_bytes(count));
      on_every_target([&] {
        REQUIRE(encode(*make_compressor("onebit"), values, with_rows(shape.rows)) == expected);
      });
    }
  }
}

TEST_CASE("onebit decodes each row with its own means, on every target", "[sign]") {
  const auto codec = make_compressor("onebit");
  for (const std::size_t rows : {1u, 3u, 7u, 21u}) {
    const std::size_t columns = 27;
    const auto values = gaussian(rows * columns, 1, rows);
    const Bytes payload = encode(*codec, values, with_rows(rows));
    const auto start = gaussian(values.size(), 1, 5);
    auto expected = start;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::byte* pair = payload.data() + 4 + 8 * r;
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) {
        expected[i] += 0.3f * load<float>(pair + (values[i] < 0 ? 0 : 4));
      }
    }
    on_every_target([&] {
      auto sum = start;
      Workspace workspace;
      codec->decode_add(payload, 0.3f, workspace, sum);
      REQUIRE(same_bits(sum, expected));
    });
  }
}

TEST_CASE("scaled sign and one bit agree with the reference vectors", "[sign][vectors]") {
  for_each_vector_file(
      [](const nlohmann::json& vectors) {
        const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
        const auto& scaled = vectors.at("contraction").at("scaled_sign");
        const auto signs =
            decode(*make_compressor("ef-signsgd"), encode(*make_compressor("ef-signsgd"), v8), 8);
        REQUIRE(signs == scaled.at("decoded_signzero_plus").get<std::vector<float>>());
        REQUIRE(squared_distance(v8, signs) / squared_norm(v8) ==
                Approx(scaled.at("residual_ratio_sign0_plus").get<double>()).epsilon(1e-6));

        const auto& one = vectors.at("contraction").at("onebit");
        const Bytes payload = encode(*make_compressor("onebit"), v8);
        REQUIRE(load<float>(payload.data() + 4) == Approx(one.at("mean_neg").get<double>()));
        REQUIRE(load<float>(payload.data() + 8) == Approx(one.at("mean_nonneg").get<double>()));
        const auto bits = decode(*make_compressor("onebit"), payload, 8);
        for (std::size_t i = 0; i < 8; ++i) {
          REQUIRE(v8[i] - bits[i] == Approx(one.at("residual").at(i).get<double>()).margin(1e-6));
        }
      },
      "vectors_simple.json");
}

TEST_CASE("contraction: |v - C(v)|^2 = (1 - delta) |v|^2", "[sign][law]") {
  for (const std::size_t count : sign_counts()) {
    if (count == 0) continue;
    for (const auto& values : {gaussian(count, 1e-3, count), std::vector<float>(count, -0.25f)}) {
      double l1 = 0;
      for (const float v : values) l1 += std::abs(double{v});
      const double l2 = squared_norm(values);
      const double delta = l1 * l1 / (static_cast<double>(count) * l2);
      const auto scaled = decode(*make_compressor("ef-signsgd"),
                                 encode(*make_compressor("ef-signsgd"), values), count);
      REQUIRE(squared_distance(values, scaled) == Approx((1 - delta) * l2).margin(1e-6 * l2));
      // The two means are the best code with these bits, so no worse than the scaled sign; more
      // means are better still.
      double last = squared_distance(values, scaled);
      for (const std::size_t rows : {std::size_t{0}, std::size_t{2}, std::size_t{4}}) {
        if (rows > 0 && (count % rows != 0 || count / rows < 8)) continue;
        const auto out = decode(*make_compressor("onebit"),
                                encode(*make_compressor("onebit"), values, with_rows(rows)), count);
        REQUIRE(squared_distance(values, out) <= last + 1e-6 * l2);
        last = squared_distance(values, out);
      }
    }
  }
}

TEST_CASE("a side without values has mean 0 and does not count", "[sign]") {
  const auto codec = make_compressor("onebit");
  const std::vector<float> positive{1, 2, 3, 0, -0.0f}, negative{-1, -3};
  const Bytes up = encode(*codec, positive);
  REQUIRE(load<float>(up.data() + 4) == 0);
  REQUIRE(load<float>(up.data() + 8) == 1.2f);
  const Bytes down = encode(*codec, negative);
  REQUIRE(load<float>(down.data() + 4) == -2);
  REQUIRE(load<float>(down.data() + 8) == 0);
  REQUIRE(decode(*codec, down, 2) == std::vector<float>{-2, -2});
}

TEST_CASE("the vote of one to five ranks, for every combination", "[sign][vote]") {
  for (unsigned ranks = 1; ranks <= 5; ++ranks) {
    // Coordinate c holds combination c: rank r votes against if bit r is set.
    const std::size_t combinations = std::size_t{1} << ranks;
    std::vector<std::vector<float>> values(ranks, std::vector<float>(combinations));
    for (unsigned r = 0; r < ranks; ++r) {
      for (std::size_t c = 0; c < combinations; ++c) values[r][c] = c >> r & 1 ? -0.5f : 2.0f;
    }
    on_every_target([&] {
      const auto result = vote(values);
      for (std::size_t c = 0; c < combinations; ++c) {
        const auto against = static_cast<unsigned>(std::popcount(c));
        REQUIRE(result[c] == (2 * against > ranks ? -1.0f : 1.0f));
      }
    });
  }
}

TEST_CASE("the vote agrees with the reference vectors", "[sign][vote][vectors]") {
  for_each_vector_file(
      [](const nlohmann::json& vectors) {
        const auto& row = vectors.at("contraction").at("majority_vote_3workers");
        REQUIRE(vote(row.at("signs").get<std::vector<std::vector<float>>>()) ==
                row.at("result").get<std::vector<float>>());
      },
      "vectors_simple.json");
}

TEST_CASE("ties and majorities of one vote are correct for many ranks in any order",
          "[sign][vote]") {
  const RandomStream stream({9, 0, 0, 0});
  std::uint32_t next = 0;
  const auto codec = make_compressor("signsgd");
  for (const std::size_t ranks : {6u, 7u, 10u, 49u, 50u, 1000u, 1999u, 2047u, 2048u}) {
    // Sorted orders reach the largest partial sums and with them the largest rounding.
    for (int order = 0; order < 20; ++order) {
      const std::size_t against = ranks / 2 + (order % 2 == 0 ? 0 : 1);
      std::vector<float> share(ranks, 1.0f / static_cast<float>(ranks));
      for (std::size_t i = 0; i < against; ++i) share[i] = -share[i];
      if (order == 2 || order == 3) std::reverse(share.begin(), share.end());
      for (std::size_t i = ranks; order > 3 && i > 1; --i) {
        std::swap(share[i - 1], share[stream.bounded(next++, i)]);
      }
      float mean = 0;
      for (const float vote : share) mean += vote;
      codec->finish_mean({&mean, 1});
      REQUIRE(mean == (2 * against > ranks ? -1.0f : 1.0f));
    }
  }
}

TEST_CASE("add_signs starts at any bit and reads nothing outside the plane", "[sign]") {
  const auto values = gaussian(300);
  const Bytes plane = plain_plane(values);
  for (std::size_t first = 0; first < 70; ++first) {
    for (const std::size_t count : {0u, 1u, 31u, 32u, 33u, 100u, 230u}) {
      // An exact allocation, so that a sanitizer sees any access outside it.
      const Bytes exact(plane.begin(),
                        plane.begin() + static_cast<std::ptrdiff_t>(plane_bytes(first + count)));
      std::vector<float> expected(count, 1.0f);
      for (std::size_t i = 0; i < count; ++i) expected[i] += values[first + i] < 0 ? 3.0f : 0.5f;
      on_every_target([&] {
        std::vector<float> sum(count, 1.0f);
        add_signs(exact, first, 3.0f, 0.5f, sum);
        REQUIRE(sum == expected);
      });
    }
  }
}

TEST_CASE("sign codecs reject invalid lengths, padding, magnitudes and rows", "[sign]") {
  const auto sign = make_compressor("signsgd"), scaled = make_compressor("ef-signsgd"),
             onebit = make_compressor("onebit");
  for (const std::size_t count : {1u, 7u, 33u, 100u}) {
    for (const auto* codec : {sign.get(), scaled.get(), onebit.get()}) {
      const Bytes good = encode(*codec, gaussian(count));
      for (std::size_t bit = count % 8; bit % 8 != 0; ++bit) {
        Bytes bad = good;
        bad.back() |= std::byte{1} << bit;
        REQUIRE(contains(refusal(Kind::wire, [&] { decode(*codec, bad, count); }), "zeros"));
      }
      for (std::size_t size = 0; size < good.size() + 9; ++size) {
        if (size == good.size()) continue;
        Bytes bad = good;
        bad.resize(size);
        refusal(Kind::wire, [&] { decode(*codec, bad, count); });
      }
      refusal(Kind::wire, [&] { decode(*codec, good, 0); });
    }
    for (const float magnitude : {-1.0f, -0.0f, HUGE_VALF, std::nanf("")}) {
      Bytes bad = encode(*scaled, gaussian(count));
      store(bad.data(), magnitude);
      REQUIRE(contains(refusal(Kind::wire, [&] { decode(*scaled, bad, count); }), "magnitude"));
    }
    const Bytes good = encode(*onebit, gaussian(count));
    for (const std::uint32_t rows : {0u, 2u, 3u, 11u, 25u, 100u, 0xFFFFFFFFu}) {
      Bytes bad = good;
      store(bad.data(), rows);
      refusal(Kind::wire, [&] { decode(*onebit, bad, count); });
    }
    for (const std::size_t at : {4u, 8u}) {
      for (const float mean : {at == 4 ? 1.0f : -1.0f, HUGE_VALF, std::nanf("")}) {
        Bytes bad = good;
        store(bad.data() + at, mean);
        REQUIRE(contains(refusal(Kind::wire, [&] { decode(*onebit, bad, count); }), "row 0"));
      }
    }
  }
}
