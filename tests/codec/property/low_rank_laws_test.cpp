// SPDX-License-Identifier: Apache-2.0
// Laws of powersgd and atomo, exact or in expectation, and refusals.

#include <limits>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

EncodeContext context_of(std::size_t rows, std::uint64_t step = 1, std::uint32_t rank = 0) {
  EncodeContext context;
  context.key = {11, step, rank, 5};
  context.rows = rows;
  return context;
}

/// A matrix of the given rank: the sum of that many outer products.
std::vector<float> matrix_of_rank(std::size_t rows, std::size_t columns, std::size_t rank) {
  const auto p = gaussian(rows * rank, 1, 5), q = gaussian(columns * rank, 1, 6);
  std::vector<float> m(rows * columns);
  expand(p, q, {rows, columns, rank}, m);
  return m;
}

std::vector<std::pair<std::string, std::unique_ptr<Compressor>>> all_codecs() {
  std::vector<std::pair<std::string, std::unique_ptr<Compressor>>> codecs;
  codecs.emplace_back("powersgd 1", make_compressor("powersgd", {.rank = 1}));
  codecs.emplace_back("powersgd 4", make_compressor("powersgd", {.rank = 4}));
  codecs.emplace_back("spectral 1",
                      make_compressor("atomo", {.atoms = Atoms::spectral, .rank = 1}));
  codecs.emplace_back("spectral 32",
                      make_compressor("atomo", {.atoms = Atoms::spectral, .rank = 32}));
  codecs.emplace_back("entrywise",
                      make_compressor("atomo", {.atoms = Atoms::entrywise, .density = 0.05}));
  codecs.emplace_back("all entries",
                      make_compressor("atomo", {.atoms = Atoms::entrywise, .density = 1}));
  return codecs;
}

struct Moments {
  std::vector<double> mean;
  double squared_error = 0;         // mean over draws of |out - in|^2
  double squared_error_square = 0;  // mean of its square
};

Moments over_draws(const Compressor& codec, std::span<const float> values, std::size_t rows,
                   int draws) {
  Moments m{std::vector<double>(values.size())};
  for (int draw = 0; draw < draws; ++draw) {
    const auto context = context_of(rows, static_cast<std::uint64_t>(draw));
    const auto out = decode(codec, encode(codec, values, context), values.size());
    const double error = squared_distance(out, values);
    for (std::size_t i = 0; i < values.size(); ++i) m.mean[i] += double{out[i]} / draws;
    m.squared_error += error / draws;
    m.squared_error_square += error * error / draws;
  }
  return m;
}

void require_variance(const Moments& m, double exact, int draws) {
  const double spread = m.squared_error_square - m.squared_error * m.squared_error;
  INFO("variance " << exact << ", measured " << m.squared_error);
  REQUIRE(exact > 0);
  REQUIRE(std::abs(m.squared_error - exact) < 5 * std::sqrt(spread / draws));
}

/// The mean's distance from the truth has expectation variance / draws; a factor of 5 is far out.
void require_unbiased(const Moments& m, std::span<const float> values, double variance, int draws) {
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    distance += (m.mean[i] - values[i]) * (m.mean[i] - values[i]);
  }
  REQUIRE(distance < 5 * variance / draws);
}

template <typename T>
Bytes with(Bytes payload, std::size_t at, T value) {
  store(payload.data() + at, value);
  return payload;
}

void require_refused(const Compressor& codec, std::span<const std::byte> payload,
                     std::size_t count) {
  INFO(payload.size() << " bytes");
  REQUIRE_FALSE(refusal(Kind::wire, [&] { (void)decode(codec, payload, count); }).empty());
}

}  // namespace

TEST_CASE("powersgd recovers matrices of its rank", "[powersgd]") {
  for (const std::size_t rank : {1u, 2u, 3u, 8u}) {
    const auto codec = make_compressor("powersgd", {.rank = static_cast<int>(rank)});
    for (const auto& [rows, columns] : {std::pair{40u, 50u}, {64u, 577u}, {300u, 33u}}) {
      const auto m = matrix_of_rank(rows, columns, rank);
      const auto out = decode(*codec, encode(*codec, m, context_of(rows)), m.size());
      REQUIRE(squared_distance(out, m) < 1e-9 * squared_norm(m));
    }
  }
}

TEST_CASE("powersgd's error is that of the projection", "[powersgd]") {
  const std::size_t rows = 48, columns = 100;
  const auto m = gaussian(rows * columns);
  const FactorShape shape{rows, columns, 3};
  const auto codec = make_compressor("powersgd", {.rank = 3});
  const Bytes payload = encode(*codec, m, context_of(rows));
  REQUIRE(payload.size() == 8 + 4 * 3 * (rows + columns));
  std::vector<float> q(shape.right());
  std::memcpy(q.data(), payload.data() + 8 + 4 * shape.left(), 4 * shape.right());
  const auto out = decode(*codec, payload, m.size());
  // |M - P P^T M|^2 = |M|^2 - |P^T M|^2, and at least the projection on the start is captured.
  const double left = squared_norm(m) - squared_norm(q);
  REQUIRE(squared_distance(out, m) == Approx(left).epsilon(1e-5));
  REQUIRE(left < 0.97 * squared_norm(m));
}

TEST_CASE("powersgd does not depend on step and rank", "[powersgd]") {
  const auto codec = make_compressor("powersgd", {.rank = 2});
  REQUIRE(codec->properties().same_draw);
  const auto m = gaussian(4000);
  const Bytes first = encode(*codec, m, context_of(40, 1, 0));
  REQUIRE(encode(*codec, m, context_of(40, 9, 3)) == first);
  auto other = context_of(40);
  other.key.slice = 6;
  REQUIRE(encode(*codec, m, other) != first);
}

TEST_CASE("values whose factors would not be smaller are sent as they are", "[powersgd]") {
  const auto codec = make_compressor("powersgd", {.rank = 2});
  for (const auto& [count, rows] :
       {std::pair{1u, 0u}, {1u, 1u}, {1000u, 0u}, {1000u, 1u}, {1000u, 1000u}, {9u, 3u}}) {
    const auto m = gaussian(count);
    const Bytes payload = encode(*codec, m, context_of(rows));
    REQUIRE(payload.size() == 8 + 4 * m.size());
    REQUIRE(same_bits(decode(*codec, payload, count), m));
  }
}

TEST_CASE("telescoping: applied values and the residual of error feedback add up", "[powersgd]") {
  const std::size_t rows = 32, count = rows * 40;
  const auto codec = make_compressor("powersgd", {.rank = 1});
  std::vector<float> residual(count);
  std::vector<double> sent(count), gradients(count);
  for (std::uint64_t step = 0; step < 30; ++step) {
    const auto g = gaussian(count, 1, step + 1);
    for (std::size_t i = 0; i < count; ++i) {
      residual[i] += g[i];
      gradients[i] += g[i];
    }
    const auto out = decode(*codec, encode(*codec, residual, context_of(rows, step)), count);
    for (std::size_t i = 0; i < count; ++i) {
      residual[i] -= out[i];
      sent[i] += out[i];
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(std::abs(gradients[i] - sent[i] - residual[i]) < 1e-4);
  }
}

TEST_CASE("entrywise atoms: unbiased, with the variance of the probabilities", "[atomo]") {
  const int draws = 4000;
  for (const double density : {0.02, 0.1, 0.5}) {
    auto values = gaussian(300, 1, 3);
    for (float& v : values) v = v * v * v;  // some reach probability 1
    const auto codec = make_compressor("atomo", {.atoms = Atoms::entrywise, .density = density});
    std::vector<double> magnitudes;
    for (const float v : values) magnitudes.push_back(std::abs(double{v}));
    std::sort(magnitudes.rbegin(), magnitudes.rend());
    double sum = 0, budget = density * 300, variance = 0;
    for (const double g : magnitudes) sum += g;
    std::size_t next = 0;
    for (; budget * magnitudes[next] > sum; ++next, budget -= 1) sum -= magnitudes[next];
    for (; next < 300; ++next) {
      const double p = budget * magnitudes[next] / sum;
      variance += magnitudes[next] * magnitudes[next] * (1 / p - 1);
    }
    const Moments m = over_draws(*codec, values, 0, draws);
    require_variance(m, variance, draws);
    require_unbiased(m, values, variance, draws);
  }
}

TEST_CASE("entrywise atoms on the reference vector", "[atomo][vectors]") {
  const auto vectors = read_json(EQT_SOURCE_DIR "/tests/codec/golden/vectors_low_rank.json");
  const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
  const auto& row = vectors.at("atomo").at("entrywise_v8_s2");
  const auto codec = make_compressor("atomo", {.atoms = Atoms::entrywise, .density = 0.25});
  const int draws = 40000;
  const Moments m = over_draws(*codec, v8, 0, draws);
  require_variance(m, row.at("variance_total").get<double>(), draws);
  std::vector<double> kept(8);
  for (int draw = 0; draw < draws; ++draw) {
    const auto context = context_of(0, static_cast<std::uint64_t>(draw));
    const auto out = decode(*codec, encode(*codec, v8, context), 8);
    for (std::size_t i = 0; i < 8; ++i) kept[i] += out[i] != 0;
  }
  for (std::size_t i = 0; i < 8; ++i) {
    const double p = row.at("p").at(i).get<double>();
    REQUIRE(std::abs(kept[i] / draws - p) <= 5 * std::sqrt(p * (1 - p) / draws));
  }
}

TEST_CASE("with the budget |g|_1 / max|g| entrywise atoms are TernGrad's", "[atomo]") {
  const auto values = gaussian(1000);
  double sum = 0, largest = 0;
  for (const float v : values) {
    sum += std::abs(double{v});
    largest = std::max(largest, std::abs(double{v}));
  }
  const auto codec =
      make_compressor("atomo", {.atoms = Atoms::entrywise, .density = sum / largest / 1000});
  const auto out = decode(*codec, encode(*codec, values, context_of(0)), 1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    if (out[i] != 0) REQUIRE(out[i] == Approx(std::copysign(largest, values[i])).epsilon(1e-6));
  }
}

TEST_CASE("spectral atoms: unbiased, with the variance of the probabilities", "[atomo]") {
  // Singular values 8, 4, 2, 1 on unit vectors: rows 0 ... 3 of a 16 x 16 view, mixed by a rotation
  // of columns.
  std::vector<float> m(256);
  const double sigma[4] = {8, 4, 2, 1};
  for (std::size_t k = 0; k < 4; ++k) {
    const double c = std::cos(0.3), s = std::sin(0.3);
    m[k * 16 + k] = static_cast<float>(sigma[k] * c);
    m[k * 16 + k + 8] = static_cast<float>(sigma[k] * s);
  }
  const int draws = 4000;
  for (const int budget : {1, 2, 3}) {
    const double p[3][4] = {
        {8. / 15, 4. / 15, 2. / 15, 1. / 15}, {1, 4. / 7, 2. / 7, 1. / 7}, {1, 1, 2. / 3, 1. / 3}};
    double variance = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      variance += sigma[k] * sigma[k] * (1 / p[budget - 1][k] - 1);
    }
    const auto codec = make_compressor("atomo", {.atoms = Atoms::spectral, .rank = budget});
    const Moments moments = over_draws(*codec, m, 16, draws);
    require_variance(moments, variance, draws);
    require_unbiased(moments, m, variance, draws);
  }
}

TEST_CASE("spectral atoms of any matrix are unbiased, also in padded views", "[atomo]") {
  const int draws = 3000;
  for (const auto& [count, rows] : {std::pair{30u * 24u, 30u}, {7u * 97u, 7u}, {500u, 0u}}) {
    const auto values = gaussian(count);
    const auto codec = make_compressor("atomo", {.atoms = Atoms::spectral, .rank = 4});
    const Moments m = over_draws(*codec, values, rows, draws);
    require_unbiased(m, values, m.squared_error, draws);
    REQUIRE(m.squared_error > squared_norm(values));  // 4 of some 24 atoms
  }
}

TEST_CASE("spectral atoms are exact where the budget covers them", "[atomo]") {
  const auto codec = make_compressor("atomo", {.atoms = Atoms::spectral, .rank = 32});
  for (const auto& [count, rows] :
       {std::pair{1u, 0u}, {2u, 1u}, {5u, 1u}, {30u, 5u}, {32u * 32u, 32u}, {1000u, 0u}}) {
    const auto m = gaussian(count);
    const auto out = decode(*codec, encode(*codec, m, context_of(rows)), count);
    REQUIRE(squared_distance(out, m) < 1e-11 * squared_norm(m));
  }
}

TEST_CASE("an empty draw is sent as nothing", "[atomo]") {
  const auto codec = make_compressor("atomo", {.atoms = Atoms::entrywise, .density = 0.001});
  const auto values = gaussian(100);  // 0.1 atoms on average
  int empty = 0;
  for (std::uint64_t step = 0; step < 100; ++step) {
    empty += encode(*codec, values, context_of(0, step)).size() == 12;
  }
  REQUIRE(empty > 75);
  REQUIRE(empty < 100);
}

TEST_CASE("low-rank payloads are the same on every target, and decode adds", "[low_rank]") {
  for (const auto& [name, codec] : all_codecs()) {
    for (const std::size_t count : kCounts) {
      for (const std::size_t rows : {0u, 1u, 3u, 32u}) {
        if (rows > 0 && count % rows != 0) continue;
        INFO(name << " " << count << " rows " << rows);
        const auto values = gaussian(count, 1e-3, count + 1);
        const Bytes expected = encode(*codec, values, context_of(rows));
        REQUIRE(expected.size() <= codec->max_payload_bytes(count));
        REQUIRE((count > 0 || expected.empty()));
        const auto once = decode(*codec, expected, count);
        on_every_target([&] {
          REQUIRE(encode(*codec, values, context_of(rows)) == expected);
          REQUIRE(same_bits(decode(*codec, expected, count), once));
          std::vector<float> sum(count, 1.0f);
          Workspace workspace;
          codec->decode_add(expected, -0.5f, workspace, sum);
          for (std::size_t i = 0; i < count; ++i) {
            REQUIRE(sum[i] == Approx(1 - 0.5 * double{once[i]}));
          }
        });
      }
    }
  }
}

TEST_CASE("zeros decode to zeros; denormals and large values pass", "[low_rank]") {
  const std::size_t rows = 20, count = 600;
  for (const auto& [name, codec] : all_codecs()) {
    for (const float v : {0.0f, -0.0f, kTiny, -kTiny, 1e-30f, 1e30f}) {
      INFO(name << " " << v);
      const std::vector<float> values(count, v);
      const auto out = decode(*codec, encode(*codec, values, context_of(rows)), count);
      for (const float x : out) {
        REQUIRE(std::isfinite(x));
        if (v == 0) REQUIRE(x == 0);
      }
    }
  }
}

TEST_CASE("values that are not finite are named", "[low_rank]") {
  for (const auto& [name, codec] : all_codecs()) {
    for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      for (const std::size_t rows : {0u, 20u}) {
        auto values = gaussian(600);
        values[431] = bad;
        INFO(name << " rows " << rows);
        const auto what =
            refusal(Kind::diverged, [&] { (void)encode(*codec, values, context_of(rows)); });
        REQUIRE(contains(what, "431"));
      }
    }
  }
}

TEST_CASE("factors beyond float32 are refused, never sent", "[low_rank]") {
  const std::vector<float> values(600, kMax);
  for (const auto& codec :
       {make_compressor("powersgd", {.rank = 2}), make_compressor("atomo", {.rank = 2})}) {
    refusal(Kind::diverged, [&] { (void)encode(*codec, values, context_of(20)); });
  }
}

TEST_CASE("powersgd refuses malformed payloads", "[powersgd]") {
  const auto codec = make_compressor("powersgd", {.rank = 2});
  const std::size_t count = 600;
  const Bytes good = encode(*codec, gaussian(count), context_of(20));
  const Bytes raw = encode(*codec, gaussian(count), context_of(0));
  for (const Bytes& payload : {good, raw}) {
    for (std::size_t size = 0; size < payload.size(); ++size) {
      require_refused(*codec, std::span(payload).first(size), count);
    }
    Bytes longer = payload;
    longer.push_back(std::byte{0});
    require_refused(*codec, longer, count);
    require_refused(*codec, payload, count + 1);
    require_refused(*codec, payload, 0);
    require_refused(*codec, with(payload, payload.size() - 4, HUGE_VALF), count);
    require_refused(*codec, with(payload, 8, std::nanf("")), count);
  }
  for (const std::uint32_t rows : {0u, 1u, 7u, 10u, 601u, 0x80000000u, UINT32_MAX}) {
    require_refused(*codec, with(good, 0, rows), count);
  }
  for (const std::uint32_t rank : {0u, 1u, 3u, 20u, 21u, 33u, 0x20000000u, UINT32_MAX}) {
    require_refused(*codec, with(good, 4, rank), count);
    if (rank > 0) require_refused(*codec, with(raw, 4, rank), count);
  }
}

TEST_CASE("atomo refuses malformed payloads of either kind", "[atomo]") {
  const std::size_t count = 600;
  const auto spectral = make_compressor("atomo", {.rank = 8});
  const auto entrywise = make_compressor("atomo", {.atoms = Atoms::entrywise, .density = 0.1});
  auto values = gaussian(count);
  values[5] = 100;  // exact
  for (const Compressor* codec : {spectral.get(), entrywise.get()}) {
    const Bytes good = encode(*codec, values, context_of(20));
    for (std::size_t size = 0; size < good.size(); ++size) {
      require_refused(*codec, std::span(good).first(size), count);
    }
    Bytes longer = good;
    longer.resize(good.size() + 4);
    require_refused(*codec, longer, count);
    for (const std::uint32_t wrong : {0u, 65u, 0x10000000u, 0x40000000u, UINT32_MAX}) {
      require_refused(*codec, with(good, 0, wrong), count);
      require_refused(*codec, with(good, 4, wrong), count);
    }
  }
  const Bytes s = encode(*spectral, values, context_of(20));
  require_refused(*spectral, s, count + 30);
  require_refused(*spectral, with(s, s.size() - 4, HUGE_VALF), count);
  const Bytes e = encode(*entrywise, values, context_of(20));
  REQUIRE(load<std::uint32_t>(e.data()) == 1);
  REQUIRE(load<std::uint32_t>(e.data() + 4) > 10);
  require_refused(*entrywise, with(e, 8, -1.0f), count);
  require_refused(*entrywise, with(e, 8, std::nanf("")), count);
  require_refused(*entrywise, with(e, 12, 600u), count);
  require_refused(*entrywise, with(e, 16, HUGE_VALF), count);
  require_refused(*entrywise, with(e, e.size() - 4, 600u), count);
  require_refused(*entrywise, with(e, e.size() - 4, load<std::uint32_t>(&e[e.size() - 8])), count);
}

TEST_CASE("random bytes cause no access outside the buffer", "[low_rank]") {
  // For the sanitizers: the result is an error of kind wire, or decoded into our own buffer.
  const RandomStream random({3, 0, 0, 0});
  std::uint32_t next = 0;
  for (const auto& [name, codec] : all_codecs()) {
    for (int round = 0; round < 2000; ++round) {
      Bytes payload(random.bits(next++) % 80);
      for (std::byte& b : payload) b = static_cast<std::byte>(random.bits(next++) % 5);
      const std::size_t count = random.bits(next++) % 40;
      try {
        (void)decode(*codec, payload, count);
      } catch (const Error& error) {
        REQUIRE(error.kind() == Kind::wire);
      }
    }
  }
}
