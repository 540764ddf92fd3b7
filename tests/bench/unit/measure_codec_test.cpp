// SPDX-License-Identifier: Apache-2.0
// The checks before a measurement detect a compressor without its properties, and the figures are
// those of the codec.

#include "bench/measure_codec.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "codec/catalogue.hpp"
#include "codec/levels/levels.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

constexpr std::uint32_t kRare = 1 << 17;

enum class Fault {
  none,
  shrinks,
  infinite,
  nonlinear,
  forgetful,
  lossy,
  noisy,
  coarse,
  zeros,
  blank,
  turned,
  rare
};

/// Sends float32, and lacks one property.
class Faulty final : public codec::Compressor {
 public:
  explicit Faulty(Fault fault) : fault_(fault) {}
  codec::CodecId id() const noexcept override { return codec::CodecId::none; }
  std::uint8_t format_version() const noexcept override { return 1; }
  codec::Properties properties() const noexcept override {
    codec::Properties properties;
    properties.lossless = fault_ == Fault::lossy;
    properties.unbiased = fault_ != Fault::turned;
    properties.random = fault_ == Fault::noisy || fault_ >= Fault::blank;
    return properties;
  }
  std::size_t max_payload_bytes(std::size_t count) const override { return 4 * count; }
  std::optional<double> variance_bound(std::size_t) const override {
    if (fault_ == Fault::rare) return kRare - 1;
    return fault_ == Fault::zeros || fault_ == Fault::blank ? 1.0 : 0.5;
  }

  std::size_t encode(std::span<const float> values, const codec::EncodeContext& context, Workspace&,
                     std::span<std::byte> payload) const override {
    const RandomStream stream(context.key);
    for (std::size_t i = 0; i < values.size(); ++i) {
      float v = values[i];
      if (fault_ == Fault::shrinks) v *= 0.999f;
      if (fault_ == Fault::coarse) v *= 0.25f;  // an error of 9/16
      if (fault_ == Fault::zeros || fault_ == Fault::blank) v = 0;
      if (fault_ == Fault::turned) v = -v;
      if (fault_ == Fault::rare)  // no fault: most messages are zeros, and their mean is right
        v *= stream.bits(static_cast<std::uint32_t>(i)) % kRare == 0 ? float{kRare} : 0.0f;
      if (fault_ == Fault::lossy) v += 1e-6f;
      if (fault_ == Fault::noisy)  // variance 1
        v *= stream.bits(static_cast<std::uint32_t>(i)) % 2 == 0 ? 2.0f : 0.0f;
      std::memcpy(payload.data() + 4 * i, &v, 4);
    }
    if (fault_ == Fault::forgetful && calls_++ % 2 == 1) payload[0] ^= std::byte{1};
    return 4 * values.size();
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace&,
                  std::span<float> sum) const override {
    if (fault_ == Fault::infinite) sum[0] = std::numeric_limits<float>::infinity();
    if (fault_ == Fault::nonlinear) scale = std::abs(scale);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      float v;
      std::memcpy(&v, payload.data() + 4 * i, 4);
      sum[i] += scale * v;
    }
  }

 private:
  Fault fault_;
  mutable int calls_ = 0;
};

std::string refusal(Fault fault) {
  const auto values_room = bench::bench_gradient(5000);
  const auto values = values_room.span();
  try {
    bench::verify_codec("faulty", Faulty(fault), values);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::bug);
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a compressor without its declared properties is not measured", "[bench]") {
  CHECK(refusal(Fault::none).empty());
  CHECK(contains(refusal(Fault::shrinks), "bias"));
  CHECK(contains(refusal(Fault::infinite), "finite"));
  CHECK(contains(refusal(Fault::nonlinear), "scales 1 and -0.5"));
  CHECK(contains(refusal(Fault::forgetful), "equal bytes"));
  CHECK(contains(refusal(Fault::lossy), "every value back"));
  CHECK(contains(refusal(Fault::noisy), "0.5 over 96 seeds"));
  CHECK(contains(refusal(Fault::coarse), "at most 0.5, found 0.5625"));
  CHECK(contains(refusal(Fault::zeros), "in the direction of the given ones"));
  CHECK(contains(refusal(Fault::blank), "bias of -1"));
  CHECK(contains(refusal(Fault::turned), "found -1 times these"));
}

TEST_CASE("an unbiased compressor may draw nothing but zeros", "[bench]") {
  CHECK(refusal(Fault::rare).empty());
}

TEST_CASE("the gradient is normal with the stated deviation, whatever its length", "[bench]") {
  const auto values_room = bench::bench_gradient(100001);
  const auto values = values_room.span();
  REQUIRE(values.size() == 100001);
  double sum = 0, squares = 0, fourths = 0;
  for (const float v : values) {
    const double x = v / bench::kBenchDeviation;
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  const auto n = static_cast<double>(values.size());  // 5 standard errors each
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(fourths / n - 3) < 5 * std::sqrt(96 / n));
  const auto shorter_room = bench::bench_gradient(77);
  const auto shorter = shorter_room.span();
  CHECK(std::equal(shorter.begin(), shorter.end(), values.begin()));
}

TEST_CASE("figures of codecs with a known answer", "[bench]") {
  const auto values_room = bench::bench_gradient(4096);
  const auto values = values_room.span();
  const auto none = bench::measure_codec(*codec::make_compressor("none"), values);
  CHECK(none.bits_per_value == 32);
  CHECK(none.variance == 0);
  CHECK(none.variance_bound == 0.0);
  CHECK_FALSE(none.break_even_gbit.has_value());
  CHECK_FALSE(none.feedback_gb_s.has_value());

  // 4 bits a value and a norm per 512; the error of one message is its expectation within a few per
  // cent: 4096 values, whose squared errors have a deviation of about their own size.
  const auto qsgd = bench::measure_codec(
      *codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 512}), values);
  CHECK(qsgd.bits_per_value == 4 + 32.0 / 512);
  double expected = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); i += 512) {
    const auto bucket = std::span(values).subspan(i, 512);
    const double l2 = codec::vector_norm(bucket, codec::Norm::l2);
    const auto levels = codec::uniform_levels(7);
    expected += codec::exact_variance(levels, bucket, codec::Norm::l2) * l2 * l2;
    norm += l2 * l2;
  }
  CHECK(qsgd.variance == Approx(expected / norm).epsilon(0.15));
  // phi(sqrt(512) / 7), Alistarh et al. with the constant of docs/compressors.md.
  CHECK(qsgd.variance_bound.value() == Approx(std::sqrt(512.0) / 7 - 1).epsilon(1e-3));
  REQUIRE(qsgd.break_even_gbit.has_value());
  const double seconds = 4e-9 * (1 / qsgd.encode_gb_s + 1 / qsgd.decode_add_gb_s);  // a value
  CHECK(*qsgd.break_even_gbit == Approx(1e-9 * (32 - qsgd.bits_per_value) / seconds));
  CHECK(qsgd.sum8_gb_s > 0);
  CHECK(qsgd.feedback_gb_s.value() > 0);
}

TEST_CASE("bounds of papers", "[bench]") {
  CHECK(codec::make_compressor("topk", {.density = 0.01})->variance_bound(1000) == 0.99);
  CHECK(codec::make_compressor("topk", {.density = 0.001})->variance_bound(10) ==
        0.9);  // one value at least
  CHECK(codec::make_compressor("terngrad", {.clip = 0})->variance_bound(10000) == 49.5);
  CHECK_FALSE(codec::make_compressor("terngrad", {.clip = 2.5})->variance_bound(10000).has_value());
  // A single value is its own norm, so it is exact.
  CHECK(codec::make_compressor("qsgd-v", {.bucket_size = 512})->variance_bound(1).value() ==
        Approx(0).margin(1e-9));
}
