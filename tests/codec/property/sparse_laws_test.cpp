// SPDX-License-Identifier: Apache-2.0
// Laws of every sparse compressor, with values of 32, 16 and fewer bits: top-k, DGC's codec,
// threshold, random-k.

#include <algorithm>
#include <limits>

#include "codec/catalogue.hpp"
#include "codec/sparse/sparse.hpp"
#include "codec/unit/codec_laws.hpp"
#include "codec/unit/sparse_case.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

Codecs all_codecs() {
  Codecs codecs;
  for (const int bits : {32, 16, 8, 4, 2, 1}) {
    for (const double density : {0.01, 0.4, 0.9, 1.0}) {
      codecs.push_back(make_compressor("topk", {.density = density, .value_bits = bits}));
      codecs.push_back(make_compressor("threshold", {.density = density, .value_bits = bits}));
      codecs.push_back(make_compressor("randomk", {.density = density, .value_bits = bits}));
    }
    codecs.push_back(make_compressor("dgc", {.density = 0.25, .value_bits = bits}));
    codecs.push_back(make_compressor("threshold", {.threshold = 1.5, .value_bits = bits}));
    if (bits < 16) continue;
    codecs.push_back(
        make_compressor("randomk", {.density = 0.1, .value_bits = bits, .unbiased = true}));
  }
  return codecs;
}

EncodeContext of(StepId step, std::uint32_t rank) {
  EncodeContext context;
  context.key = {11, step, rank, 5};
  return context;
}

EncodeContext context_of(std::size_t, std::uint32_t rank) { return of(3, rank); }

std::size_t sent(const Bytes& payload) { return head_of(payload).k; }

/// zeros, -0, one value, all equal, denormals, far apart.
std::vector<std::vector<float>> special_inputs(std::size_t count) {
  std::vector<std::vector<float>> inputs;
  for (const float v : {0.0f, -0.0f, -1e-20f, std::numeric_limits<float>::denorm_min(), 1e30f}) {
    inputs.emplace_back(count, v);
  }
  for (const double deviation : {1e-38, 1e-6, 1e-2, 100.0}) {
    inputs.push_back(gaussian(count, deviation, count));
  }
  if (count > 0) inputs.back()[count / 2] = 1e25f;
  if (count > 0) inputs.front()[count - 1] = -3.0f;
  return inputs;
}

/// Bits of a value in the codec's payload of these values.
int value_bits(const Compressor& codec, std::span<const float> values) {
  return head_of(encode(codec, values)).value_bits;
}

}  // namespace

TEST_CASE("size and finite values for every input", "[law]") {
  for (const auto& codec : all_codecs()) {
    INFO(codec_name(codec->id()));
    for (const std::size_t count : kCounts) {
      for (const auto& input : special_inputs(count)) {
        const Bytes payload = encode(*codec, input, of(3, 0));
        REQUIRE(payload.size() <= codec->max_payload_bytes(count));
        REQUIRE(payload.empty() == (count == 0));
        const auto out = decode(*codec, payload, count);
        for (const float v : out) REQUIRE(std::isfinite(v));
      }
    }
  }
}

TEST_CASE("decoding adds scale times the value, on every target alike", "[law]") {
  check_scaled_addition(all_codecs(), kCounts, context_of);
}

TEST_CASE("the rank changes no byte", "[law]") {
  const auto values = gaussian(10'007);
  for (const auto& codec : all_codecs()) {
    REQUIRE(encode(*codec, values, of(3, 0)) == encode(*codec, values, of(3, 1)));
  }
}

TEST_CASE("payloads may stand at any address", "[law]") {
  check_addresses(all_codecs(), context_of);
}

TEST_CASE("values that are not finite become an error with their index", "[law]") {
  check_values_not_finite(all_codecs(), kCounts, context_of);
}

TEST_CASE("contraction of the largest: |v - C(v)|^2 <= (1 - k/d) |v|^2, and the rounding",
          "[law]") {
  for (const auto& codec : all_codecs()) {
    if (codec->id() == CodecId::randomk) continue;
    INFO(codec_name(codec->id()));
    for (const std::size_t count : kCounts) {
      if (count == 0) continue;
      for (const auto& values : {gaussian(count), std::vector<float>(count, 2.0f)}) {
        const Bytes payload = encode(*codec, values);
        const double kept = static_cast<double>(sent(payload)) / static_cast<double>(count);
        const int bits = value_bits(*codec, values);
        if (bits < 16) continue;  // have a law of their own, below
        const double bound = (1 - kept) * (1 + 1e-12) + (bits == 16 ? 0x1p-22 : 0);
        REQUIRE(squared_distance(values, decode(*codec, payload, count)) <=
                bound * squared_norm(values));
      }
    }
  }
}

TEST_CASE("contraction is reached by values that are all equal", "[law]") {
  const std::vector<float> equal(1000, -1.0f);
  const auto codec = make_compressor("topk", {.density = 0.03});
  REQUIRE(squared_distance(equal, decode(*codec, encode(*codec, equal), 1000)) == 970);
}

TEST_CASE("random-k, unscaled: E|v - C(v)|^2 = (1 - k/d) |v|^2", "[law]") {
  const auto values = gaussian(64);
  const auto codec = make_compressor("randomk", {.density = 0.25});
  constexpr int kDraws = 20'000;
  double sum = 0, squares = 0;
  for (StepId step = 0; step < kDraws; ++step) {
    const auto out = decode(*codec, encode(*codec, values, of(step, 0)), values.size());
    const double ratio = squared_distance(values, out) / squared_norm(values);
    sum += ratio;
    squares += ratio * ratio;
  }
  const double mean = sum / kDraws;
  const double deviation = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  REQUIRE(std::abs(mean - 0.75) < 5 * deviation);
  REQUIRE(deviation < 0.002);
}

TEST_CASE("random-k, scaled: unbiased in each value, with variance (d/k - 1) |v|^2", "[law]") {
  const auto values = gaussian(60);
  const auto codec = make_compressor("randomk", {.density = 0.2, .unbiased = true});
  constexpr int kDraws = 40'000;
  std::vector<double> mean(values.size());
  double variance = 0, squares = 0;
  for (StepId step = 0; step < kDraws; ++step) {
    const auto out = decode(*codec, encode(*codec, values, of(step, 0)), values.size());
    for (std::size_t i = 0; i < out.size(); ++i) mean[i] += out[i] / double{kDraws};
    const double distance = squared_distance(values, out) / squared_norm(values);
    variance += distance / kDraws;
    squares += distance * distance / kDraws;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Each value is 5 times itself with probability 1/5: its deviation is twice its size.
    const double deviation = 2 * std::abs(double{values[i]}) / std::sqrt(double{kDraws});
    REQUIRE(std::abs(mean[i] - values[i]) < 5 * deviation);
  }
  const double deviation = std::sqrt((squares - variance * variance) / kDraws);
  REQUIRE(std::abs(variance - 4) < 5 * deviation);
  REQUIRE(deviation < 0.02);
}

TEST_CASE("error feedback telescopes: sent values and the residual add up to the gradients",
          "[law]") {
  for (const auto& codec : all_codecs()) {
    if (!codec->properties().needs_feedback) continue;
    // With 1 to 8 bits 60 additions of values below 32 round, each by at most 2^-20.
    const double rounding = codec->max_payload_bytes(500) < 1000 ? 60 * 0x1p-20 : 0;
    INFO(codec_name(codec->id()));
    const std::size_t count = 500;
    std::vector<float> residual(count), gradients(count);
    std::vector<double> sent_in_all(count);
    Workspace workspace;
    for (StepId step = 0; step < 30; ++step) {
      // Multiples of 2^-10: no sum of them rounds, so that equality is exact.
      auto gradient = gaussian(count, 1, step + 1);
      for (std::size_t i = 0; i < count; ++i) {
        gradient[i] = std::round(gradient[i] * 1024) / 1024;
        gradients[i] += gradient[i];
        residual[i] += gradient[i];
      }
      const Bytes payload = encode(*codec, residual, of(step, 0));
      const auto out = decode(*codec, payload, count);
      codec->decode_add(payload, -1.0f, workspace, residual);
      for (std::size_t i = 0; i < count; ++i) sent_in_all[i] += out[i];
    }
    for (std::size_t i = 0; i < count; ++i)
      REQUIRE(std::abs(sent_in_all[i] + residual[i] - gradients[i]) <= rounding);
  }
}

TEST_CASE("sent values and kept values are all values: zero_sent", "[law]") {
  for (const auto& codec : all_codecs()) {
    if (codec->id() == CodecId::randomk) continue;
    for (const std::size_t count : kCounts) {
      const auto values = gaussian(count);
      if (count > 0 && value_bits(*codec, values) < 32) continue;
      const Bytes payload = encode(*codec, values);
      auto whole = decode(*codec, payload, count);
      auto rest = values;
      zero_sent(payload, rest);
      for (std::size_t i = 0; i < count; ++i) whole[i] += rest[i];
      REQUIRE(same_bits(whole, values));
    }
  }
}

TEST_CASE("a million Gaussian values: indices within 4 % of their entropy", "[law]") {
  const auto values = gaussian(1'000'000);
  const auto log_factorial = [](double x) { return std::lgamma(x + 1); };
  for (const double density : {0.001, 0.01, 0.1, 0.5, 0.9}) {
    const Bytes payload = encode(*make_compressor("topk", {.density = density}), values);
    const auto k = static_cast<double>(sent(payload));
    const double head = static_cast<double>(head_of(payload).bytes);
    const double bits = 8 * (static_cast<double>(payload.size()) - head - 4 * k);
    const double entropy =
        (log_factorial(1e6) - log_factorial(k) - log_factorial(1e6 - k)) / std::log(2.0);
    INFO("density " << density << ": " << bits / entropy);
    REQUIRE(bits < 1.04 * entropy);
  }
}

TEST_CASE("1 to 8 bits: the error is at most |v|^2 - L^2 / d, whatever the values are", "[law]") {
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const std::string name : {"topk", "threshold", "randomk"}) {
      for (const double density : {0.01, 0.4, 1.0}) {
        const auto codec = make_compressor(name, {.density = density, .value_bits = bits});
        INFO(name << " " << bits << " " << density);
        for (const std::size_t count : kCounts) {
          if (count == 0) continue;
          auto inputs = special_inputs(count);
          inputs.push_back(std::vector<float>(count, 0.0f));
          inputs.back()[count / 2] = -3.0f;  // one that is above all others
          for (const auto& values : inputs) {
            const auto out = decode(*codec, encode(*codec, values, of(3, 0)), count);
            // Denormal halves are rounded to multiples of 2^-149.
            const double smallest = static_cast<double>(count) * 0x1p-298;
            const double bound =
                name == "randomk" ? 1 + 0x1p-20 : codec->variance_bound(count).value();
            REQUIRE(squared_distance(values, out) <= bound * squared_norm(values) + smallest);
          }
        }
      }
    }
  }
}

TEST_CASE("a payload with fewer bits of a value is never longer", "[law]") {
  for (const std::string name : {"topk", "dgc", "threshold", "randomk"}) {
    for (const std::size_t count : kCounts) {
      const auto values = gaussian(count);
      for (const double density : {1e-5, 0.001, 0.01, 0.3, 1.0}) {
        std::size_t longer = SIZE_MAX;
        for (const int bits : {32, 16}) {
          const auto codec = make_compressor(name, {.density = density, .value_bits = bits});
          longer = std::min(longer, encode(*codec, values, of(3, 0)).size());
        }
        for (const int bits : {8, 7, 6, 5, 4, 3, 2, 1}) {
          INFO(name << " " << count << " " << density << " " << bits);
          const auto codec = make_compressor(name, {.density = density, .value_bits = bits});
          REQUIRE(encode(*codec, values, of(3, 0)).size() <= longer);
        }
      }
    }
  }
}

TEST_CASE("densities down to 10^-5 send as many values, at 18 bits for a place", "[law]") {
  // log2(10^5) + 1.5 bits of a place: 18.1; heads and the last bytes are less than 12 bytes.
  constexpr std::size_t kCount = 3'000'000;
  const auto values = gaussian(kCount);
  for (const int bits : {32, 1}) {
    const auto codec = make_compressor("topk", {.density = 1e-5, .value_bits = bits});
    const Bytes payload = encode(*codec, values);
    REQUIRE(sent(payload) == 30);
    REQUIRE(static_cast<double>(payload.size()) < 30 * (18.2 + bits) / 8 + 12);
    const auto out = decode(*codec, payload, kCount);
    REQUIRE(std::count_if(out.begin(), out.end(), [](float v) { return v != 0; }) == 30);
  }
}
