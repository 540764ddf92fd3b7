// SPDX-License-Identifier: Apache-2.0
// Laws of the level codecs, over all widths, norms, families and codings.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

constexpr std::size_t kBucket = 64;

EncodeContext context_of(std::uint32_t rank, std::uint64_t first_index = 0) {
  EncodeContext context;
  context.key = {17, 3, rank, 9};
  context.first_index = first_index;
  return context;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Each decoded value is an end of the cell of its value, so the error is at most the cell's length.
void check_within_cells(const LevelCase& c, const std::vector<float>& values,
                        const std::vector<float>& decoded) {
  for (std::size_t start = 0; start < values.size(); start += c.oracle.bucket_size) {
    const std::size_t count = std::min(c.oracle.bucket_size, values.size() - start);
    const float norm = oracle_norm(std::span(values).subspan(start, count), c.oracle.norm);
    for (std::size_t i = start; i < start + count; ++i) {
      const double v = static_cast<double>(values[i]), out = static_cast<double>(decoded[i]);
      if (norm == kInfinity) {
        REQUIRE(decoded[i] == values[i]);
        continue;
      }
      if (norm == 0) {
        REQUIRE(decoded[i] == 0);
        continue;
      }
      const double scale = static_cast<double>(norm);
      const std::size_t j = find_cell(c.oracle.levels, std::abs(v) / scale).lower;
      const double slack = 1e-5 * scale + 0x1p-149;  // fp32 rounding of r
      REQUIRE(std::abs(out) >= scale * c.oracle.levels[j] - slack - scale * 1e-5);
      REQUIRE(std::abs(out) <= scale * c.oracle.levels[j + 1] + slack);
      REQUIRE((out == 0 || (out < 0) == (v < 0)));
    }
  }
}

// One call leaves the payload and the residual that addition, encode() and decode_add() leave.
void check_feedback(const LevelCase& c, const std::vector<float>& gradient,
                    std::vector<float> residual, const EncodeContext& context) {
  auto expected = residual;
  for (std::size_t i = 0; i < gradient.size(); ++i) expected[i] += gradient[i];
  Workspace workspace;
  std::vector<std::byte> payload(c.compressor->max_payload_bytes(gradient.size()));
  payload.resize(
      c.compressor->encode_with_feedback(gradient, context, workspace, residual, payload));
  REQUIRE(payload == encode_to_vector(*c.compressor, expected, context));
  c.compressor->decode_add(payload, -1.0f, workspace, expected);
  REQUIRE(same_bits(residual, expected));
}

}  // namespace

TEST_CASE("fixed payloads equal the oracle's on every target", "[level_laws]") {
  for (const Strata* const strata : {strata_of(0, 1), strata_of(1, 3)}) {
    const auto cases = level_cases(Coding::fixed, kBucket, Rounding::correlated);
    for_each_simd_target([&] {
      for (const LevelCase& c : cases) {
        for (const std::size_t count : {0u, 1u, 2u, 7u, 33u, 64u, 65u, 513u}) {
          for (const auto& [name, values] : special_values(count)) {
            INFO(c.name << ", " << name << ", " << count << " values");
            auto context = context_of(1, 1000);
            context.strata = strata;
            REQUIRE(
                encode_to_vector(*c.compressor, values, context) ==
                oracle_fixed_payload(c.oracle, values, context.key, context.first_index, strata));
          }
        }
      }
    });
  }
}

TEST_CASE("the random counter continues through blocks of 2^32", "[level_laws]") {
  const auto values = gaussian_values(200, 8);
  for (const LevelCase& c : level_cases(Coding::fixed, kBucket, Rounding::correlated)) {
    for (const std::uint64_t start : {(1ull << 32) - 101, (1ull << 32) - 64, (7ull << 32) - 1}) {
      for (const Strata* const strata : {strata_of(0, 1), strata_of(1, 2)}) {
        auto context = context_of(1, start);
        context.strata = strata;
        REQUIRE(encode_to_vector(*c.compressor, values, context) ==
                oracle_fixed_payload(c.oracle, values, context.key, start, strata));
      }
    }
  }
}

TEST_CASE("Elias payloads are the cheaper of the sparse and the dense container", "[level_laws]") {
  for (const LevelCase& c : level_cases(Coding::elias, kBucket)) {
    for (const std::size_t count : {1u, 5u, 64u}) {
      for (const auto& [name, values] : special_values(count)) {
        const float norm = oracle_norm(values, c.oracle.norm);
        if (norm == 0 || norm == kInfinity) continue;
        INFO(c.name << ", " << name << ", " << count << " values");
        const auto context = context_of(2);
        const auto indices = oracle_indices(values, norm, c.oracle.levels, c.oracle.uniform,
                                            context.key, context.first_index);
        const std::string sparse = "01" + oracle_sparse(indices, values);
        const std::string dense = "10" + oracle_dense(indices, values);
        std::string expected = sparse.size() <= dense.size() ? sparse : dense;
        while (expected.size() % 8 != 0) expected += '0';
        const auto payload = encode_to_vector(*c.compressor, values, context);
        std::string found;
        for (std::size_t i = 4; i < payload.size(); ++i) {
          for (int k = 7; k >= 0; --k) {
            found += (std::to_integer<unsigned>(payload[i]) >> k & 1u) != 0 ? '1' : '0';
          }
        }
        REQUIRE(found == expected);
      }
    }
  }
}

TEST_CASE("entropy codings decode to what fixed coding decodes to", "[level_laws]") {
  for (const Coding coding : {Coding::elias, Coding::huffman, Coding::rans, Coding::automatic}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      // The same levels under fixed coding.
      const OracleCodec& o = c.oracle;
      for (const std::size_t count : law_counts()) {
        if (count > 600) continue;
        for (const auto& [name, values] : special_values(count)) {
          INFO(c.name << ", " << name << ", " << count << " values, coding "
                      << static_cast<int>(coding));
          const auto context = context_of(3);
          const auto payload = encode_to_vector(*c.compressor, values, context);
          const auto decoded = decode_to_vector(*c.compressor, payload, count);
          for (std::size_t start = 0; start < count; start += kBucket) {
            const auto bucket = std::span(values).subspan(start, std::min(kBucket, count - start));
            const float norm = oracle_norm(bucket, o.norm);
            if (norm == 0 || norm == kInfinity) continue;
            const auto indices =
                oracle_indices(bucket, norm, o.levels, o.uniform, context.key, start);
            for (std::size_t i = 0; i < bucket.size(); ++i) {
              const float magnitude = norm * static_cast<float>(o.levels[indices[i]]);
              REQUIRE(decoded[start + i] == std::copysign(magnitude, bucket[i]));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("automatic coding is never longer than the others", "[level_laws]") {
  const auto automatic = level_cases(Coding::automatic, kBucket);
  const auto elias = level_cases(Coding::elias, kBucket);
  const auto huffman = level_cases(Coding::huffman, kBucket);
  const auto rans = level_cases(Coding::rans, kBucket);
  for (const auto& [name, values] : special_values(513)) {
    for (std::size_t k = 0; k < automatic.size(); ++k) {
      INFO(automatic[k].name << ", " << name);
      const auto size = [&](const LevelCase& c) {
        return encode_to_vector(*c.compressor, values, context_of(1)).size();
      };
      REQUIRE(size(automatic[k]) <= std::min({size(elias[k]), size(huffman[k]), size(rans[k])}));
    }
  }
}

TEST_CASE("sizes, bounds, keys and decoding of every codec", "[level_laws]") {
  for (const Coding coding :
       {Coding::fixed, Coding::elias, Coding::huffman, Coding::rans, Coding::automatic}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      const Properties properties = c.compressor->properties();
      REQUIRE(properties.unbiased);
      REQUIRE(properties.random);
      REQUIRE(properties.granule == kBucket);
      for (const std::size_t count : law_counts()) {
        if (count == 10007 && c.oracle.bits % 4 != 0) continue;
        for (const auto& [name, values] : special_values(count)) {
          INFO(c.name << ", " << name << ", " << count << " values");
          const auto payload = encode_to_vector(*c.compressor, values, context_of(1));
          REQUIRE(payload.size() <= c.compressor->max_payload_bytes(count));
          REQUIRE(payload.empty() == (count == 0));
          REQUIRE(payload == encode_to_vector(*c.compressor, values, context_of(1)));
          check_within_cells(c, values, decode_to_vector(*c.compressor, payload, count));
        }
      }
    }
  }
}

TEST_CASE("ranks draw differently", "[level_laws]") {
  const auto values = gaussian_values(513, 4);
  for (const LevelCase& c : level_cases(Coding::fixed, kBucket)) {
    REQUIRE(encode_to_vector(*c.compressor, values, context_of(1)) !=
            encode_to_vector(*c.compressor, values, context_of(2)));
  }
}

TEST_CASE("decode_add scales and adds", "[level_laws]") {
  const auto values = gaussian_values(513, 4), before = gaussian_values(513, 6);
  Workspace workspace;
  for (const Coding coding : {Coding::fixed, Coding::automatic}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      const auto payload = encode_to_vector(*c.compressor, values, context_of(1));
      const auto decoded = decode_to_vector(*c.compressor, payload, values.size());
      auto sum = before;
      c.compressor->decode_add(payload, 0.25f, workspace, sum);
      for (std::size_t i = 0; i < sum.size(); ++i)
        REQUIRE(sum[i] == before[i] + 0.25f * decoded[i]);
    }
  }
}

TEST_CASE("decoded values do not depend on the target", "[level_laws]") {
  const auto values = gaussian_values(1000, 12);
  for (const Coding coding : {Coding::fixed, Coding::automatic}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      const auto payload = encode_to_vector(*c.compressor, values, context_of(1));
      const auto expected = decode_to_vector(*c.compressor, payload, values.size());
      for_each_simd_target([&] {
        REQUIRE(encode_to_vector(*c.compressor, values, context_of(1)) == payload);
        REQUIRE(same_bits(decode_to_vector(*c.compressor, payload, values.size()), expected));
      });
    }
  }
}

TEST_CASE("cuts at multiples of the granule change no decoded value", "[level_laws]") {
  const auto values = gaussian_values(1000, 13);
  for (const Coding coding : {Coding::fixed, Coding::elias, Coding::huffman}) {
    for (const LevelCase& c : level_cases(coding, kBucket)) {
      const auto whole = decode_to_vector(
          *c.compressor, encode_to_vector(*c.compressor, values, context_of(1)), values.size());
      for (const std::size_t cut : {kBucket, 3 * kBucket, 15 * kBucket}) {
        std::vector<float> joined;
        for (const auto& [from, to] :
             {std::pair(std::size_t{0}, cut), std::pair(cut, values.size())}) {
          const auto part = std::span(values).subspan(from, to - from);
          const auto payload = encode_to_vector(*c.compressor, part, context_of(1, from));
          const auto decoded = decode_to_vector(*c.compressor, payload, part.size());
          joined.insert(joined.end(), decoded.begin(), decoded.end());
        }
        REQUIRE(same_bits(joined, whole));
      }
    }
  }
}

TEST_CASE("NaN and infinity are diverged errors that name the index", "[level_laws]") {
  for (const LevelCase& c : level_cases(Coding::fixed, kBucket)) {
    for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
      auto values = gaussian_values(200, 1);
      values[137] = bad;
      try {
        static_cast<void>(encode_to_vector(*c.compressor, values, context_of(1, 1000)));
        FAIL(c.name << " encoded " << bad);
      } catch (const Error& error) {
        REQUIRE(error.kind() == Kind::diverged);
        REQUIRE(std::string(error.what()).find("index 1137 ") != std::string::npos);
      }
    }
  }
}

// Mean of K quantisations within five standard errors of the values; squared error within five of
// the exact variance, which is below the worst case.
TEST_CASE("level codecs are unbiased with exactly the stated variance", "[level_laws]") {
  constexpr std::size_t kCount = 128;
  constexpr int kDraws = 2000;
  auto values = gaussian_values(kCount, 21);
  values[3] = 0;
  values[5] *= 20;
  for (const LevelCase& c : level_cases(Coding::fixed, kCount)) {
    INFO(c.name);
    const OracleCodec& o = c.oracle;
    const double norm = vector_norm(values, o.norm);
    std::vector<double> mean(kCount, 0.0);
    double squares = 0, error_sum = 0, error_squares = 0;
    for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
    for (int draw = 0; draw < kDraws; ++draw) {
      EncodeContext context = context_of(0);
      context.key.step = static_cast<StepId>(draw);
      const auto decoded =
          decode_to_vector(*c.compressor, encode_to_vector(*c.compressor, values, context), kCount);
      double error = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const double difference = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
        mean[i] += difference / kDraws;
        error += difference * difference / squares;
      }
      error_sum += error;
      error_squares += error * error;
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const double r = std::min(1.0, std::abs(static_cast<double>(values[i])) / norm);
      const std::size_t j = find_cell(o.levels, r).lower;
      const double variance = norm * norm * (o.levels[j + 1] - r) * (r - o.levels[j]);
      REQUIRE(std::abs(mean[i]) <= 5 * std::sqrt(variance / kDraws) + 1e-6 * norm);
    }
    const double exact = exact_variance(o.levels, values, o.norm);
    const double average = error_sum / kDraws;
    const double spread = std::sqrt(std::max(0.0, error_squares / kDraws - average * average));
    REQUIRE(std::abs(average - exact) <= 5 * spread / std::sqrt(kDraws) + 1e-9);
    REQUIRE(exact <= worst_case_variance(o.levels, kCount, o.norm) + 1e-9);
  }
}

TEST_CASE("zero buckets send their norm only", "[level_laws]") {
  const std::vector<float> zeros(1000, -0.0f);
  for (const LevelCase& c : level_cases(Coding::fixed, kBucket)) {
    const auto payload = encode_to_vector(*c.compressor, zeros, context_of(1));
    REQUIRE(payload.size() == (zeros.size() + kBucket - 1) / kBucket * 4);
  }
}

TEST_CASE("several payloads decode in one pass to the same values as one by one", "[level_codec]") {
  for_each_simd_target([] {
    for (const Coding coding : {Coding::fixed, Coding::huffman})
      for (const auto& c : level_cases(coding, 512)) {
        INFO(c.name);
        const auto values = gaussian_values(1100, 21);
        Workspace workspace;
        std::vector<std::vector<std::byte>> payloads;
        for (std::uint32_t k = 0; k < 11; ++k) {
          // Zero and huge buckets among the others.
          auto some = values;
          if (k == 3) std::fill_n(some.begin(), 700, 0.0f);
          if (k == 5) std::fill_n(some.begin(), 700, 3e38f);
          payloads.push_back(encode_to_vector(*c.compressor, some, context_of(k)));
        }
        const std::vector<std::span<const std::byte>> all(payloads.begin(), payloads.end());
        auto sum = gaussian_values(values.size(), 5), expected = sum;
        for (const auto payload : all)
          c.compressor->decode_add(payload, 0.25f, workspace, expected);
        c.compressor->decode_add_all(all, 0.25f, workspace, sum);
        REQUIRE(sum == expected);
      }
  });
}

TEST_CASE("encoding with feedback equals its three steps", "[level_codec]") {
  for_each_simd_target([] {
    for (const Coding coding : {Coding::fixed, Coding::huffman})
      for (const auto& c : level_cases(coding, 512)) {
        INFO(c.name);
        const auto gradient = gaussian_values(1100, 22);
        check_feedback(c, gradient, gaussian_values(gradient.size(), 6), context_of(1));
      }
  });
}

TEST_CASE("buckets of every kind of norm, with feedback", "[level_codec]") {
  constexpr std::size_t kSize = 512;
  const auto fill = [](std::vector<float>& values, std::size_t bucket, float factor) {
    for (std::size_t i = bucket * kSize; i < (bucket + 1) * kSize; ++i) values[i] *= factor;
  };
  auto gradient = gaussian_values(13 * kSize + 100, 22);
  auto residual = gaussian_values(gradient.size(), 6);
  // Norms above the largest float, out of range and zero: alone and side by side.
  for (const std::size_t infinite : {0u, 6u}) fill(gradient, infinite, 4e37f);
  for (const std::size_t large : {5u, 12u}) fill(gradient, large, 1e30f);
  for (const std::size_t tiny : {1u, 8u}) {
    fill(gradient, tiny, 1e-25f);
    fill(residual, tiny, 1e-25f);
  }
  for (const std::size_t zero : {3u, 7u}) {
    fill(gradient, zero, 0.0f);
    fill(residual, zero, 0.0f);
  }
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 32;
  for_each_simd_target([&] {
    for (const auto& c : level_cases(Coding::fixed, kSize)) {
      for (const std::uint64_t first : {std::uint64_t{0}, kBlock - 3 * kSize, kBlock - 2000}) {
        INFO(c.name << " from index " << first);
        check_feedback(c, gradient, residual, context_of(1, first));
      }
    }
  });
}
