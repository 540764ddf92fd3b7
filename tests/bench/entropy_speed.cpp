// SPDX-License-Identifier: Apache-2.0
// Entropy codings of level codes: bits per value against the entropy, and values per second of one
// thread, best of many repeats; then E-ElastiQuant as a whole, floats in and floats out.
//
// entropy_speed [values [bucket_size]]; prints one JSON line per case. Gaussian values, 4 bits.
// EQT_SIMD holds.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/entropy/entropy_coding.hpp"
#include "codec/simd.hpp"
#include "core/clock.hpp"
#include "support/gaussian.hpp"

namespace {

using namespace eqt;
using namespace eqt::codec;

struct NamedCoding {
  const char* name;
  Coding coding;
};
constexpr NamedCoding kCodings[] = {{"elias", Coding::elias},
                                    {"huffman", Coding::huffman},
                                    {"rans", Coding::rans},
                                    {"auto", Coding::automatic}};

double best_seconds(const std::function<void()>& run) {
  double best = 1e9;
  const Stopwatch all;
  for (int repeat = 0; repeat < 5 || all.seconds() < 0.5; ++repeat) {
    const Stopwatch one;
    run();
    best = std::min(best, one.seconds());
  }
  return best;
}

// Codes of Gaussian values with seven levels sinh(j theta) / sinh(7 theta) of the L2 norm.
std::vector<LevelCode> gaussian_codes(std::size_t count, std::size_t bucket, double theta) {
  const auto values = test::gaussian(count, {1, 2, 3, 4});
  const RandomStream random({5, 6, 7, 8});
  const double norm = std::sqrt(static_cast<double>(bucket));
  std::vector<LevelCode> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double r = std::fabs(static_cast<double>(values[i])) / norm;
    const auto level = [&](int j) { return std::sinh(j * theta) / std::sinh(7 * theta); };
    int j = 0;
    while (j < 6 && level(j + 1) <= r) ++j;
    const double up = (r - level(j)) / (level(j + 1) - level(j));
    const bool rounds_up = static_cast<double>(random.uniform(static_cast<std::uint32_t>(i))) < up;
    codes[i] = static_cast<LevelCode>(j + (rounds_up ? 1 : 0));
    if (codes[i] != 0 && std::signbit(values[i])) codes[i] |= kSignCode;
  }
  return codes;
}

double entropy_bits(std::span<const LevelCode> codes) {
  double counts[128] = {};
  for (const LevelCode code : codes) ++counts[code & 0x7F];
  const auto total = static_cast<double>(codes.size());
  double bits = total - counts[0];
  for (const double count : counts) {
    if (count > 0) bits += count * std::log2(total / count);
  }
  return bits;
}

void time_coding(const NamedCoding& named, std::span<const LevelCode> codes, std::size_t bucket,
                 double theta) {
  const EntropyCoding coding(named.coding, 7);
  std::vector<std::byte> bytes(coding.max_bytes(bucket) * (codes.size() / bucket));
  std::vector<LevelCode> decoded(codes.size());
  std::size_t used = 0;
  double entropy = 0;
  for (std::size_t i = 0; i < codes.size(); i += bucket) {
    entropy += entropy_bits(codes.subspan(i, bucket));
  }
  const double encode = best_seconds([&] {
    used = 0;
    for (std::size_t i = 0; i < codes.size(); i += bucket) {
      used += coding.encode(codes.subspan(i, bucket), std::span(bytes).subspan(used));
    }
  });
  const double decode = best_seconds([&] {
    std::size_t at = 0;
    for (std::size_t i = 0; i < codes.size(); i += bucket) {
      at += coding.decode(std::span(bytes).subspan(at, used - at),
                          std::span(decoded).subspan(i, bucket));
    }
  });
  if (!std::equal(codes.begin(), codes.end(), decoded.begin())) std::abort();
  const auto count = static_cast<double>(codes.size());
  fmt::print(
      "{{\"coding\":\"{}\",\"theta\":{},\"values\":{},\"bucket\":{},\"bits_per_value\":{:.4f},"
      "\"of_entropy\":{:.4f},\"encode_gsym_s\":{:.3f},\"decode_gsym_s\":{:.3f}}}\n",
      named.name, theta, codes.size(), bucket, 8 * static_cast<double>(used) / count,
      8 * static_cast<double>(used) / entropy, count / encode * 1e-9, count / decode * 1e-9);
}

void time_codec(const NamedCoding& named, std::size_t count, std::size_t bucket) {
  const auto codec =
      make_compressor("e-elastiquant", {.bits = 4, .bucket_size = bucket, .coding = named.coding});
  const auto values = test::gaussian(count, {1, 2, 3, 4});
  std::vector<float> sum(count);
  std::vector<std::byte> payload(codec->max_payload_bytes(count));
  Workspace workspace;
  std::size_t used = 0;
  const double encode = best_seconds([&] { used = codec->encode(values, {}, workspace, payload); });
  const double decode = best_seconds(
      [&] { codec->decode_add(std::span(payload).first(used), 0.5f, workspace, sum); });
  const auto n = static_cast<double>(count);
  fmt::print(
      "{{\"codec\":\"e-elastiquant\",\"coding\":\"{}\",\"values\":{},\"bucket\":{},"
      "\"bits_per_value\":{:.4f},\"encode_gsym_s\":{:.3f},\"decode_gsym_s\":{:.3f}}}\n",
      named.name, count, bucket, 8 * static_cast<double>(used) / n, n / encode * 1e-9,
      n / decode * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  restrict_simd();
  const std::size_t bucket = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 8192;
  const std::size_t values = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 16 * bucket;
  for (const double theta : {0.25, 0.64, 0.85}) {
    const auto codes = gaussian_codes(values / bucket * bucket, bucket, theta);
    for (const NamedCoding& named : kCodings) time_coding(named, codes, bucket, theta);
  }
  for (const NamedCoding& named : kCodings) time_codec(named, values, bucket);
}
