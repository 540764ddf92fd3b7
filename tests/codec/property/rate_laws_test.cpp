// SPDX-License-Identifier: Apache-2.0
// Laws of the elastiquant families with compressor.rate, and of elastiquant with whole bits that
// are rounded to nearest: bits as asked, errors near the best ones, contraction, cutting, error
// feedback, malformed payloads.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "codec/catalogue.hpp"
#include "codec/rate/rate_codec.hpp"
#include "codec/unit/codec_laws.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

constexpr std::size_t kBlock = 32768;
constexpr std::uint8_t kRateVersion = 37;  // whole bits have another
const std::vector<double> kRates = {0.02, 0.1, 0.25, 0.5, 1.1, 2, 3.5, 5, 6.5, 8};

std::unique_ptr<Compressor> codec_of(double rate, std::size_t block = kBlock) {
  return make_compressor("e-elastiquant", {.bucket_size = block,
                                           .coding = Coding::automatic,
                                           .rate = rate,
                                           .rounding = Rounding::nearest});
}

std::unique_ptr<Compressor> whole(int bits, std::size_t block = kBlock) {
  return make_compressor(
      "elastiquant",
      {.bits = bits, .bucket_size = block, .coding = Coding::fixed, .rounding = Rounding::nearest});
}

Codecs codecs(std::size_t block) {
  Codecs all;
  for (const double rate : kRates) all.push_back(codec_of(rate, block));
  for (int bits = 2; bits <= 8; ++bits) all.push_back(whole(bits, block));
  return all;
}

EncodeContext of_rank(std::size_t, std::uint32_t rank) {
  EncodeContext context;
  context.key = {5, 7, rank, 3};
  return context;
}

/// Laplace values of unit variance.
std::vector<float> laplace(std::size_t count, std::uint64_t seed) {
  const RandomStream stream({seed, 1, 0, 0});
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint32_t>(2 * i);
    const double magnitude = -std::log(1 - double{stream.uniform(at)}) / std::numbers::sqrt2;
    values[i] = static_cast<float>(stream.uniform(at + 1) < 0.5f ? magnitude : -magnitude);
  }
  return values;
}

/// Values whose deviation changes from row to row, as those of gradients do.
std::vector<float> uneven(std::size_t count, std::uint64_t seed) {
  auto values = gaussian(count, 1, seed);
  const auto deviations = gaussian(count / 64 + 1, 1.2, seed + 1000);
  for (std::size_t i = 0; i < count; ++i) values[i] *= std::exp(deviations[i / 64]);
  return values;
}

std::vector<float> values_of(int kind, std::size_t count, std::uint64_t seed) {
  if (kind == 0) return gaussian(count, 3e-4, seed);
  return kind == 1 ? laplace(count, seed) : uneven(count, seed);
}

}  // namespace

TEST_CASE("rate codecs keep the laws of all codecs", "[rate]") {
  const Codecs all = codecs(512);
  check_draws_of_ranks(all, of_rank);
  check_scaled_addition(all, kCounts, of_rank);
  check_addresses(all, of_rank);
  check_values_not_finite(all, {1, 513, 10007}, of_rank);
}

TEST_CASE("malformed payloads of a rate are refused or finite", "[rate][fuzz]") {
  check_malformed(codecs(512), 21, of_rank);
}

TEST_CASE("a rate is held within 3 % over many blocks", "[rate]") {
  for (const int kind : {0, 1, 2}) {
    for (const double rate : kRates) {
      const auto codec = codec_of(rate);
      double bits = 0, values = 0;
      for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        const std::size_t count = kBlock + 4096 * seed;  // a whole block and another
        bits += 32 + 8 * static_cast<double>(encode(*codec, values_of(kind, count, seed)).size());
        values += static_cast<double>(count);
      }
      INFO("values " << kind << ", rate " << rate << ", found " << bits / values);
      CHECK(std::abs(bits / values / rate - 1) < 0.03);
    }
  }
}

TEST_CASE("a rate is held where most rows are zero", "[rate]") {
  // Rows of 128, of which one in 64 is not zero, with deviations over many octaves, as those of a
  // word embedding: a sample misses most of them, and a few are far larger than the others.
  std::vector<float> values(8 * kBlock);
  const auto dense = gaussian(values.size(), 1, 9);
  const auto deviations = gaussian(values.size() / 128, 3, 10);
  for (std::size_t row = 0; row < values.size() / 128; row += 64)
    for (std::size_t i = 128 * row; i < 128 * (row + 1); ++i)
      values[i] = dense[i] * std::exp(deviations[row]);
  // Beyond about 0.12 bits of each value even the finest levels of these few take fewer.
  for (const double rate : {0.02, 0.05, 0.1}) {
    const Bytes payload = encode(*codec_of(rate), values);
    const double bits =
        8 * static_cast<double>(payload.size()) / static_cast<double>(values.size());
    INFO("rate " << rate << ", found " << bits);
    CHECK(std::abs(bits / rate - 1) < 0.05);
  }
}

// The levels of few values end, and then each value more is sent as it is: bits change in jumps.
TEST_CASE("values among many zeros take a quarter more than the rate at most", "[rate]") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    for (const std::size_t rows : {300u, 400u, 450u})
      for (const double rate : {0.4, 0.6, 0.7, 0.8, 0.9, 1.2, 2.0}) {
        std::vector<float> values(16 * rows);
        const auto dense = gaussian(16 * 28, 1, seed);
        const auto deviations = gaussian(28, 1.5, seed + 100);
        for (std::size_t i = 0; i < dense.size(); ++i)
          values[i] = dense[i] * std::exp(deviations[i / 16]);
        const double bits = 8 * static_cast<double>(encode(*codec_of(rate), values).size() + 4) /
                            static_cast<double>(values.size());
        INFO("rate " << rate << ", " << rows << " rows, found " << bits);
        CHECK(bits < 1.25 * rate);
        CHECK(bits > 0.5 * rate);
      }
}

TEST_CASE("a rate is held in small tensors", "[rate]") {
  for (const double rate : {0.25, 1.1, 4.0}) {
    const auto codec = codec_of(rate);
    double bits = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed)
      bits += 32 + 8 * static_cast<double>(encode(*codec, laplace(2304, seed)).size());
    INFO("rate " << rate << ", found " << bits / 230400);
    CHECK(std::abs(bits / 230400 / rate - 1) < 0.05);
  }
}

// The distortion of Gaussian values of unit variance is at least 2^(-2R) at R bits (Shannon).
// Scalar quantizers with entropy coding need up to log2(2 pi e / 12) / 2 = 0.255 bits more.
TEST_CASE("errors are within 0.3 bits of the rate distortion bound", "[rate]") {
  const auto values = gaussian(8 * kBlock);
  for (const double rate : {0.25, 0.5, 1.1, 2.0, 3.5, 5.0, 6.5, 8.0}) {
    const auto codec = codec_of(rate);
    const Bytes payload = encode(*codec, values);
    const double bits =
        8 * static_cast<double>(payload.size()) / static_cast<double>(values.size());
    const double error =
        squared_distance(values, decode(*codec, payload, values.size())) / squared_norm(values);
    INFO("rate " << rate << ", bits " << bits << ", error " << error);
    CHECK(error >= std::exp2(-2 * bits) * 0.98);
    CHECK(error <= std::exp2(-2 * (bits - 0.3)));
  }
}

// A code of one magnitude is the best sparse code at low rates, and among those of a rate. What may
// be missing is that the bits are met from below, and that topk has one threshold for all blocks.
TEST_CASE("a rate has the error of topk of 1 bit with as many bits, within 1 %", "[rate]") {
  for (const std::size_t count : {9216u, 36864u, 262144u})
    for (const int kind : {0, 1})
      for (const double rate : {0.05, 0.1, 0.25, 0.5}) {
        const auto values = values_of(kind, count, 4);
        const auto error_of = [&](const Compressor& codec, const Bytes& payload) {
          return squared_distance(values, decode(codec, payload, count)) / squared_norm(values);
        };
        const auto codec = codec_of(rate);
        const Bytes payload = encode(*codec, values);
        // The largest density whose payload is no longer.
        double low = 0, high = 1, least = 1;
        for (int i = 0; i < 20; ++i) {
          const double density = (low + high) / 2;
          const auto topk = make_compressor("topk", {.density = density, .value_bits = 1});
          const Bytes sparse = encode(*topk, values);
          if (sparse.size() <= payload.size()) {
            low = density;
            least = error_of(*topk, sparse);
          } else {
            high = density;
          }
        }
        const double error = error_of(*codec, payload);
        INFO("kind " << kind << ", " << count << " values, rate " << rate << ": " << error << ", "
                     << least);
        CHECK(error <= 1.01 * least);
      }
}

TEST_CASE("bits are divided so that small slices have more of each value", "[rate]") {
  const auto slice = [](std::size_t count, std::uint64_t first = 0) {
    return Segment{.first_index = first, .count = count};
  };
  const auto total = [](const RateDivision& division, double values, double slices) {
    return division.rate * values + division.slice_bits * slices;
  };
  // A quarter of the bits, while that is at most 256 a slice.
  const std::vector<Segment> two = {slice(2000), slice(8000)};
  const RateDivision quarter = divide_bits(1000, two);
  CHECK(quarter.slice_bits == 125);
  CHECK(total(quarter, 10000, 2) == Approx(1000));
  CHECK(divide_bits(40000, two).slice_bits == 256);
  // No rate below the least.
  const RateDivision least = divide_bits(kLeastRate * 10000, two);
  CHECK(least.rate == Approx(kLeastRate));
  CHECK(least.slice_bits == Approx(0));
  // The later parts of a slice are no slices.
  const std::vector<Segment> parts = {slice(5000), slice(5000, 5000)};
  CHECK(divide_bits(1000, parts).slice_bits == 250);
}

TEST_CASE("whole bits are exactly these bits, and 4 bytes a block", "[rate]") {
  for (int bits = 2; bits <= 8; ++bits) {
    const auto codec = whole(bits, 512);
    for (const std::size_t count : {1u, 511u, 512u, 513u, 5000u}) {
      const std::size_t last = count % 512;
      const std::size_t expected =
          count / 512 * (4 + 64 * static_cast<std::size_t>(bits)) +
          (last > 0 ? 4 + (last * static_cast<std::size_t>(bits) + 7) / 8 : 0);
      CHECK(encode(*codec, laplace(count, count)).size() == expected);
    }
  }
}

// The uniform quantizer of least error (Max 1960), here with 2^b - 1 levels around 0, and its error
// for a density by numerical integration over the positive half.
TEST_CASE("whole bits have the error of the best uniform quantizer at most", "[rate]") {
  const auto gauss = [](double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  };
  const auto exponential = [](double x) {
    return std::exp(-std::numbers::sqrt2 * x) / std::numbers::sqrt2;
  };
  const auto least_error = [](const auto& density, int levels) {
    double least = 1;
    for (double step = 4; step > 0.005; step /= 1.01) {
      double error = 0;
      constexpr double kDx = 0.002;
      for (double x = kDx / 2; x < 20; x += kDx) {
        const double q = step * std::min(std::floor(x / step + 0.5), double(levels));
        error += 2 * density(x) * (x - q) * (x - q) * kDx;
      }
      least = std::min(least, error);
    }
    return least;
  };
  const auto normal = gaussian(8 * kBlock);
  const auto twosided = laplace(8 * kBlock, 3);
  for (int bits = 2; bits <= 8; ++bits) {
    const auto codec = whole(bits);
    const int levels = (1 << (bits - 1)) - 1;
    const auto error_of = [&](const std::vector<float>& values) {
      return squared_distance(values, decode(*codec, encode(*codec, values), values.size())) /
             squared_norm(values);
    };
    INFO(bits << " bits");
    CHECK(error_of(normal) <= 1.03 * least_error(gauss, levels));
    CHECK(error_of(twosided) <= 1.05 * least_error(exponential, levels));
  }
}

TEST_CASE("no magnitude grows, and the largest value is always sent", "[rate]") {
  for (const auto& codec : codecs(512)) {
    for (const std::size_t count : {1u, 2u, 9u, 300u, 512u, 5000u}) {
      for (const auto& values : {gaussian(count, 1e-3, count), laplace(count, count),
                                 std::vector<float>(count, -0.25f)}) {
        INFO(codec->max_payload_bytes(512) << " bytes at most, " << count << " values");
        auto left = values;
        Workspace workspace;
        codec->decode_add(encode(*codec, values), -1.0f, workspace, left);
        for (std::size_t i = 0; i < count; ++i)
          REQUIRE(std::abs(left[i]) <= std::abs(values[i]) * (1 + 0x1p-6f));
        const auto largest =
            std::ranges::max_element(values, {}, [](float v) { return std::abs(v); });
        const auto at = static_cast<std::size_t>(largest - values.begin());
        const float most = codec->format_version() == kRateVersion ? 0.75f : 1.0f;
        REQUIRE(std::abs(left[at]) < most * std::abs(values[at]));
      }
    }
  }
}

TEST_CASE("a slice that is cut has the bytes of its parts", "[rate]") {
  for (const auto& codec : codecs(512)) {
    const auto values = laplace(5000, 9);
    const Bytes whole = encode(*codec, values);
    const auto part = std::span(values);
    Bytes parts = encode(*codec, part.first(1536));
    EncodeContext later;
    later.first_index = 1536;
    const Bytes second = encode(*codec, part.subspan(1536), later);
    parts.insert(parts.end(), second.begin(), second.end());
    CHECK(parts == whole);
  }
}

TEST_CASE("values that are 0 or too small cost two bytes a block", "[rate]") {
  for (const auto& codec : {codec_of(1.1, 512), whole(4, 512)}) {
    for (const float value : {0.0f, -0.0f, 1e-38f}) {
      const std::vector<float> values(1200, value);
      CHECK(encode(*codec, values) == Bytes(6, std::byte{0}));
    }
    std::vector<float> huge(10, 1.0f);
    huge[3] = 0x1p101f;
    const auto message = refusal(Kind::diverged, [&] { encode(*codec, huge); });
    CHECK(contains(message, "at most 2^100"));
    CHECK(contains(message, "index 3"));
  }
}

TEST_CASE("error feedback holds the rate while residuals grow, and loses nothing", "[rate]") {
  // The same gradient in every step makes residuals with a gap behind the dead zone.
  const auto check = [](const Compressor& codec, double rate, bool repeats) {
    constexpr std::size_t kCount = 20000;
    constexpr int kSteps = 150;
    std::vector<float> residual(kCount, 0.0f), sent(kCount, 0.0f);
    std::vector<double> given(kCount, 0.0);
    Bytes payload(codec.max_payload_bytes(kCount));
    Workspace workspace;
    double bits = 0, energy = 0;
    for (int step = 0; step < kSteps; ++step) {
      const auto seed = static_cast<std::uint64_t>(repeats ? 0 : step);
      const auto gradient = laplace(kCount, 100 + seed);
      const std::size_t bytes =
          codec.encode_with_feedback(gradient, {}, workspace, residual, payload);
      codec.decode_add(std::span(payload).first(bytes), 1.0f, workspace, sent);
      for (std::size_t i = 0; i < kCount; ++i) given[i] += double{gradient[i]};
      bits += 32 + 8 * static_cast<double>(bytes);
      energy += squared_norm(gradient);
    }
    INFO("rate " << rate << ", found " << bits / kCount / kSteps);
    CHECK(std::abs(bits / kCount / kSteps / rate - 1) < 0.03);
    for (std::size_t i = 0; i < kCount; ++i)
      REQUIRE(std::abs(given[i] - (double{sent[i]} + residual[i])) < 1e-3);
    // A contraction by 1 - d keeps a residual of at most 4 (1 - d) / d^2 gradients' squares. Of
    // values that come again it may be that much.
    if (!repeats) CHECK(squared_norm(residual) < energy);
  };
  for (const bool repeats : {false, true}) {
    for (const double rate : {0.1, 0.5, 1.1, 4.0}) check(*codec_of(rate), rate, repeats);
    for (const int bits : {2, 3, 8}) check(*whole(bits), bits, repeats);
  }
}

TEST_CASE("rates and roundings that do not fit are refused", "[rate]") {
  const auto why = [](std::string_view name, const CompressorOptions& options) {
    return why_not(*CompressorRow::all().at(name), options);
  };
  const CompressorOptions good = {
      .coding = Coding::automatic, .rate = 1.2, .rounding = Rounding::nearest};
  CHECK(why("e-elastiquant", good).empty());
  CHECK(why("elastiquant", good).empty());
  CHECK(contains(why("qsgd", good), "elastiquant or e-elastiquant"));
  for (const int bits : {2, 8})
    CHECK(why("elastiquant", {.bits = bits, .rounding = Rounding::nearest}).empty());
  CHECK(contains(why("qsgd", {.rounding = Rounding::nearest}), "elastiquant or e-elastiquant"));
  CompressorOptions bad = good;
  bad.rate = {};
  CHECK(contains(why("e-elastiquant", bad), "expected a compressor.rate"));
  bad = good;
  bad.rounding = Rounding::correlated;
  CHECK(contains(why("e-elastiquant", bad), "found \"correlated\""));
  bad = good;
  bad.coding = Coding::huffman;
  CHECK(contains(why("e-elastiquant", bad), "found \"huffman\""));
  bad = good;
  bad.rate = 0.01;
  CHECK(contains(why("e-elastiquant", bad), "[0.02, 8]"));
}
