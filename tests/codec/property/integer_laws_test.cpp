// SPDX-License-Identifier: Apache-2.0
// Laws of codes relative to shared scales, and of messages with damaged bytes.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "codec/frame.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/decoder_table.hpp"
#include "support/integer_case.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

struct Setting {
  std::string name;
  int bits;
  std::size_t bucket_size;
};

const std::vector<Setting> kSettings = {
    {"terngrad", 0, 0}, {"int8", 0, 64},    {"int8", 0, 33},      {"qsgd-v", 2, 64},
    {"qsgd-v", 4, 512}, {"qsgd-v", 4, 100}, {"qsgd-v", 8, 100000}};

std::vector<std::vector<float>> values_of(std::size_t ranks, std::size_t count,
                                          float magnitude = 1) {
  std::vector<std::vector<float>> values;
  for (std::size_t r = 0; r < ranks; ++r) {
    values.push_back(portable_values(count, r + 1));
    for (float& v : values.back()) v *= magnitude * static_cast<float>(r + 1);
  }
  return values;
}

}  // namespace

TEST_CASE("if the shared scale is the own scale, codes are those of the compressor itself",
          "[integer_codec]") {
  for_each_simd_target([] {
    for (const Setting& s : kSettings) {
      const auto compressor = make_summable(s.name, s.bits, s.bucket_size);
      const auto values = values_of(1, 20000)[0];
      IntegerCase one(*compressor, {values}, values.size(), 640);
      one.agree();
      std::vector<float> left = values, decoded(values.size());
      one.messages.subtract_codes(one.codes_message(0), one.segments, one.shared, IntegerCase::kId,
                                  left);
      Workspace workspace;
      EncodeContext context;
      context.key = {42, IntegerCase::kStep, 0, IntegerCase::kSlice};
      context.first_index = 640;
      std::vector<std::byte> payload(compressor->max_payload_bytes(values.size()));
      payload.resize(compressor->encode(values, context, workspace, payload));
      compressor->decode_add(payload, 1.0f, workspace, decoded);
      for (std::size_t i = 0; i < values.size(); ++i) {
        // A level of the table and a multiple of the step differ by a rounding.
        INFO(s.name << " " << s.bits << " value " << i);
        REQUIRE(std::abs((values[i] - left[i]) - decoded[i]) < 2e-6f);
      }
    }
  });
}

TEST_CASE("sums equal the ranks' values, at every magnitude", "[integer_codec]") {
  for (const Setting& s : kSettings) {
    const auto compressor = make_summable(s.name, s.bits, s.bucket_size);
    for (const std::size_t ranks : {1u, 2u, 18u, 19u, 130u}) {
      for (const float magnitude : {1.0f, 0x1p-140f, 0x1p-80f, 0x1p+110f}) {
        IntegerCase one(*compressor, values_of(ranks, 203, magnitude), 200, 0);
        one.agree();
        std::vector<std::vector<std::byte>> codes;
        std::vector<double> sum(203);
        for (std::size_t r = 0; r < ranks; ++r) {
          codes.push_back(one.codes_message(r));
          auto left = one.values[r];
          one.messages.subtract_codes(codes.back(), one.segments, one.shared, IntegerCase::kId,
                                      left);
          for (std::size_t i = 0; i < sum.size(); ++i) {
            sum[i] += static_cast<double>(one.values[r][i]) - static_cast<double>(left[i]);
          }
        }
        std::vector<float> mean(203);
        one.messages.read_sums(one.sums_message(codes), one.segments, one.shared, IntegerCase::kId,
                               mean);
        const double largest =
            static_cast<double>(*std::max_element(one.shared.begin(), one.shared.end()));
        for (std::size_t i = 0; i < mean.size(); ++i) {
          INFO(s.name << " " << s.bits << ", " << ranks << " ranks, value " << i);
          const double error =
              std::abs(static_cast<double>(mean[i]) - sum[i] / static_cast<double>(ranks));
          // A few roundings of float32; or of the step, to a multiple of the smallest denormal.
          REQUIRE(error <= 1e-5 * largest + 127.0 * static_cast<double>(ranks) * 0x1p-149);
        }
      }
    }
  }
}

TEST_CASE("the largest floats stay finite", "[integer_codec]") {
  for (const Setting& s : kSettings) {
    const auto compressor = make_summable(s.name, s.bits, s.bucket_size);
    constexpr float kMost = std::numeric_limits<float>::max();
    for (const std::size_t ranks : {1u, 3u, 7u}) {
      IntegerCase one(*compressor,
                      std::vector<std::vector<float>>(ranks, std::vector<float>(65, -kMost)), 65,
                      0);
      one.agree();
      std::vector<std::vector<std::byte>> codes;
      for (std::size_t r = 0; r < ranks; ++r) codes.push_back(one.codes_message(r));
      std::vector<float> mean(65);
      one.messages.read_sums(one.sums_message(codes), one.segments, one.shared, IntegerCase::kId,
                             mean);
      for (const float value : mean) {
        INFO(s.name << " " << s.bits << ", " << ranks << " ranks");
        REQUIRE(std::isfinite(value));
        REQUIRE(value < -0.999f * kMost);
      }
    }
  }
}

TEST_CASE("a bucket that is zero on every rank is zero", "[integer_codec]") {
  for (const Setting& s : kSettings) {
    const auto compressor = make_summable(s.name, s.bits, s.bucket_size);
    IntegerCase one(*compressor, std::vector<std::vector<float>>(2, std::vector<float>(65)), 65, 0);
    one.agree();
    const std::vector<std::vector<std::byte>> codes = {one.codes_message(0), one.codes_message(1)};
    std::vector<float> mean(65, 1.0f);
    one.messages.read_sums(one.sums_message(codes), one.segments, one.shared, IntegerCase::kId,
                           mean);
    CHECK(mean == std::vector<float>(65));
  }
}

TEST_CASE("more ranks than 16 bits can sum are refused", "[integer_codec]") {
  const auto int8 = make_compressor("int8");
  CHECK_NOTHROW(IntegerMessages(int8->integer_codec(), 258));  // 258 * 127 = 32766
  CHECK_THROWS_AS(IntegerMessages(int8->integer_codec(), 259), Error);
}

TEST_CASE("every damaged integer message is refused or read as finite numbers", "[integer_codec]") {
  for (const Setting& s : kSettings) {
    const auto compressor = make_summable(s.name, s.bits, std::min<std::size_t>(s.bucket_size, 64));
    IntegerCase one(*compressor, values_of(3, 153), 150, 0);
    one.agree();
    const auto scales = one.scales_message(0);
    const std::vector<std::vector<std::byte>> codes = {one.codes_message(0), one.codes_message(1),
                                                       one.codes_message(2)};
    const auto sums = one.sums_message(codes);
    const auto refused = [&](const auto& read) {
      try {
        read();
        return false;
      } catch (const Error& error) {
        INFO(error.what());
        REQUIRE(error.kind() == Kind::wire);
        return true;
      }
    };
    const auto read_scales = [&](std::vector<std::byte> frame) {
      auto shared = one.shared;
      const bool no = refused([&] { one.messages.raise_scales(frame, one.kId, shared); });
      for (const float scale : shared) REQUIRE((std::isfinite(scale) && scale >= 0));
      return no;
    };
    const auto read_codes = [&](std::vector<std::byte> frame) {
      auto all = codes;
      all[1] = std::move(frame);
      return refused([&] { (void)one.sums_message(all); });
    };
    const auto read_sums = [&](std::vector<std::byte> frame) {
      std::vector<float> mean(153);
      const bool no =
          refused([&] { one.messages.read_sums(frame, one.segments, one.shared, one.kId, mean); });
      for (const float value : mean) REQUIRE((no || std::isfinite(value)));
      return no;
    };
    const auto damage = [&](const std::vector<std::byte>& frame, const auto& read) {
      REQUIRE_FALSE(read(frame));
      for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
        REQUIRE(read({frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)}));
      }
      auto longer = frame;
      longer.push_back(std::byte{0});
      REQUIRE(read(longer));
      for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
        auto flipped = frame;
        flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        // Every bit of the header is checked; a bit of the payload may give another valid message.
        if (read(flipped)) continue;
        REQUIRE(bit >= 8 * kFrameHeaderBytes);
      }
    };
    INFO(s.name << " " << s.bits);
    damage(scales, read_scales);
    damage(codes[1], read_codes);
    damage(sums, read_sums);
    // Messages of one kind are not valid as another kind.
    CHECK(read_scales(codes[0]));
    CHECK(read_codes(sums));
    CHECK(read_sums(codes[0]));
  }
}
