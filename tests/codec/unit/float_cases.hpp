// SPDX-License-Identifier: Apache-2.0
// Floats of every kind, for the tests of lossless coding.

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codec/unit/codec_case.hpp"

namespace eqt::codec::testing {

using FloatCases = std::vector<std::pair<std::string, std::vector<float>>>;

/// The float of this sign, exponent field and fraction field.
inline float float_of(std::uint32_t sign, std::uint32_t exponent, std::uint32_t fraction) {
  return std::bit_cast<float>(sign << 31 | exponent << 23 | (fraction & 0x7FFFFF));
}

/// Values of `count`: zeros of both signs, subnormal ones, one exponent, all finite ones that do
/// not round to infinity in bfloat16, and mixtures of these with normal values.
inline FloatCases float_cases(std::size_t count) {
  const RandomStream stream({17, count, 0, 0});
  const auto filled = [&](auto value) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto n = static_cast<std::uint32_t>(2 * i);
      values[i] = value(i, stream.bits(n), stream.bits(n + 1));
    }
    return values;
  };
  using Word = std::uint32_t;
  const auto normal = gaussian(count, 1e-3, count);
  const auto some = [&](unsigned in256, auto other) {
    return filled([&](std::size_t i, Word a, Word b) {
      return (a >> 8) % 256 < in256 ? other(a, b) : normal[i];
    });
  };
  const auto zero = [](Word, Word) { return 0.0f; };
  const auto any_zero = [](Word, Word b) { return b % 2 == 0 ? 0.0f : -0.0f; };
  const auto any = [](Word a, Word b) { return float_of(a >> 31, b % 254, b >> 9); };
  return {
      {"zeros", filled([](auto...) { return 0.0f; })},
      {"negative zeros", filled([](auto...) { return -0.0f; })},
      {"zeros of both signs", filled([&](std::size_t, Word a, Word b) { return any_zero(a, b); })},
      {"subnormal", filled([](std::size_t, Word a, Word b) { return float_of(a >> 31, 0, b); })},
      {"one exponent",
       filled([](std::size_t, Word a, Word b) { return float_of(a >> 31, 119, b); })},
      {"the largest exponent",
       filled([](std::size_t, Word a, Word b) { return float_of(a >> 31, 254, b >> 10); })},
      {"one value", filled([](auto...) { return -0.3f; })},
      {"two exponents far apart",
       filled([](std::size_t, Word a, Word b) { return float_of(a >> 31, b % 2 * 200, b); })},
      {"exponents in turn", filled([](std::size_t i, Word a, Word b) {
         return float_of(a >> 31, static_cast<Word>(i % 255), b >> 10);
       })},
      {"any", filled([&](std::size_t, Word a, Word b) { return any(a, b); })},
      {"normal", normal},
      {"few zeros", some(2, zero)},
      {"half zeros", some(128, zero)},
      {"nearly all zeros", some(255, zero)},
      {"zeros of both signs among others", some(64, any_zero)},
      {"few from everywhere", some(2, any)},
      {"many from everywhere", some(40, any)}};
}

}  // namespace eqt::codec::testing
