// SPDX-License-Identifier: Apache-2.0
// The codecs through the C header, as programs in other languages see them.

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "equant/codec.h"
#include "support/catch.hpp"

extern "C" int abi_seen_from_c(void);  // header.c

namespace {

std::vector<float> sample(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i)) * (i % 7 == 0 ? 3.0f : 0.1f);
  return values;
}

/// A codec that is destroyed in the end.
class Codec {
 public:
  Codec(const char* name, const char* options) : codec_(equant_codec_create(name, options)) {
    INFO(equant_codec_error());
    REQUIRE(codec_ != nullptr);
  }
  ~Codec() { equant_codec_destroy(codec_); }
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  operator equant_codec*() const { return codec_; }

 private:
  equant_codec* codec_;
};

std::vector<std::byte> encoded(equant_codec* codec, const equant_message& message,
                               const std::vector<float>& values, float* residual = nullptr) {
  std::vector<std::byte> bytes(equant_codec_max_bytes(codec, values.size()));
  std::size_t written = 0;
  const int code = equant_codec_encode(codec, &message, values.data(), values.size(), residual,
                                       bytes.data(), bytes.size(), &written);
  INFO(equant_codec_error());
  REQUIRE(code == EQUANT_OK);
  bytes.resize(written);
  return bytes;
}

constexpr equant_message kMessage = {.seed = 1, .step = 3, .rank = 2, .index = 5, .rows = 0};

}  // namespace

TEST_CASE("the library is the header's", "[c_api]") {
  CHECK(equant_codec_abi() == EQUANT_CODEC_ABI);
  CHECK(abi_seen_from_c() == EQUANT_CODEC_ABI);
  CHECK(std::string(equant_codec_version()).find('.') != std::string::npos);
}

TEST_CASE("a lossless codec gives back what it was given", "[c_api]") {
  const Codec codec("none", "");
  const std::vector<float> values = sample(1000);
  const std::vector<std::byte> bytes = encoded(codec, kMessage, values);
  CHECK(bytes.size() == 32 + 4 + 4 * values.size());  // FORMAT.md: frame, length, values
  std::vector<float> sum(values.size(), 1.0f);
  REQUIRE(equant_codec_decode_add(codec, &kMessage, bytes.data(), bytes.size(), 2.0f, sum.data(),
                                  sum.size()) == EQUANT_OK);
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(sum[i] == 1.0f + 2.0f * values[i]);
}

TEST_CASE("with error feedback message and residual together are the values", "[c_api]") {
  const Codec codec("topk", "density=0.05");
  REQUIRE(equant_codec_needs_feedback(codec) == 1);
  REQUIRE(equant_codec_is_unbiased(codec) == 0);
  const std::vector<float> values = sample(1000);
  std::vector<float> residual(values.size(), 0.0f), sum(values.size(), 0.0f);
  const std::vector<std::byte> bytes = encoded(codec, kMessage, values, residual.data());
  CHECK(bytes.size() < values.size());
  REQUIRE(equant_codec_decode_add(codec, &kMessage, bytes.data(), bytes.size(), 1.0f, sum.data(),
                                  sum.size()) == EQUANT_OK);
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(sum[i] + residual[i] == values[i]);
}

TEST_CASE("stochastic rounding repeats with the message and differs between ranks", "[c_api]") {
  const Codec codec("qsgd", "bits=4 bucket_size=128");
  REQUIRE(equant_codec_is_unbiased(codec) == 1);
  equant_message other = kMessage;
  other.rank = 1;
  const std::vector<float> values = sample(1000);
  const std::vector<std::byte> bytes = encoded(codec, kMessage, values);
  CHECK(bytes == encoded(codec, kMessage, values));
  CHECK(bytes != encoded(codec, other, values));
}

TEST_CASE("mistakes have a code and a sentence", "[c_api]") {
  const auto refused = [](const char* name, const char* options, const std::string& word) {
    CHECK(equant_codec_create(name, options) == nullptr);
    INFO(equant_codec_error());
    CHECK(std::string(equant_codec_error()).find(word) != std::string::npos);
  };
  refused("qsgdd", "", "qsgd");
  refused("qsgd", "bits=99", "compressor.bits");
  refused("qsgd", "bitz=4", "compressor.bits");
  refused(nullptr, "", "NULL");

  const Codec codec("qsgd", "");
  const std::vector<float> values = sample(100);
  std::vector<std::byte> bytes(equant_codec_max_bytes(codec, values.size()));
  std::size_t written = 0;
  CHECK(equant_codec_encode(codec, &kMessage, values.data(), values.size(), nullptr, bytes.data(),
                            bytes.size() - 1, &written) == EQUANT_USAGE);
  const std::vector<float> infinite(100, INFINITY);
  CHECK(equant_codec_encode(codec, &kMessage, infinite.data(), infinite.size(), nullptr,
                            bytes.data(), bytes.size(), &written) == EQUANT_DIVERGED);

  const std::vector<std::byte> good = encoded(codec, kMessage, values);
  std::vector<float> sum(values.size());
  equant_message late = kMessage;
  late.step += 1;
  CHECK(equant_codec_decode_add(codec, &late, good.data(), good.size(), 1.0f, sum.data(),
                                sum.size()) == EQUANT_WIRE);
  CHECK(std::string(equant_codec_error()).find("step") != std::string::npos);
  CHECK(equant_codec_decode_add(codec, &kMessage, good.data(), good.size() - 1, 1.0f, sum.data(),
                                sum.size()) == EQUANT_WIRE);
}
