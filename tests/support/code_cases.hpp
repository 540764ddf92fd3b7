// SPDX-License-Identifier: Apache-2.0
// Level codes with every kind of histogram, for tests of the entropy codings.

#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "codec/levels/level_table.hpp"
#include "core/random.hpp"

namespace eqt::test {

struct NamedCodes {
  std::string name;
  std::vector<codec::LevelCode> codes;
};

/// `count` codes whose index is index_of(u), u uniform in [0, 1); signs are fair coins.
inline std::vector<codec::LevelCode> random_codes(std::size_t count, std::uint64_t seed,
                                                  const std::function<unsigned(double)>& index_of) {
  const RandomStream random({seed, 1, 2, 3});
  std::vector<codec::LevelCode> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint32_t>(2 * i);
    const unsigned index = index_of(static_cast<double>(random.uniform(at)));
    const unsigned sign = index == 0 ? 0 : random.bits(at + 1) >> 31 << 7;
    codes[i] = static_cast<codec::LevelCode>(sign | index);
  }
  return codes;
}

/// Codes of indices 0 ... top.
inline std::vector<NamedCodes> code_cases(std::size_t count, unsigned top) {
  const auto of = [&](const auto& f) { return random_codes(count, 7 * count + top, f); };
  // P(index >= k) = ratio^k.
  const auto geometric = [&](double ratio) {
    return of([=](double u) {
      const double k = std::log(1 - u) / std::log(ratio);
      return static_cast<unsigned>(std::fmin(k, top));
    });
  };
  auto single = of([](double) { return 0u; });
  if (count > 0) single[count / 3] = static_cast<codec::LevelCode>(top | 0x80u);
  return {{"all zero", of([](double) { return 0u; })},
          {"all the largest", of([&](double) { return top; })},
          {"one nonzero", single},
          {"two indices", of([&](double u) { return u < 0.5 ? 0u : top; })},
          {"uniform", of([&](double u) { return static_cast<unsigned>(u * (top + 1)); })},
          {"no zeros", of([&](double u) { return 1 + static_cast<unsigned>(u * top); })},
          {"geometric", geometric(0.5)},
          {"sparse", geometric(0.03)},
          {"very sparse", geometric(0.001)}};
}

/// Lower bound of the bits of a bucket, for the bucket's own frequencies.
inline double entropy_of(const std::vector<codec::LevelCode>& codes) {
  std::vector<double> counts(128);
  for (const codec::LevelCode code : codes) ++counts[code & 0x7Fu];
  const auto total = static_cast<double>(codes.size());
  double bits = total - counts[0];
  for (const double count : counts) {
    if (count > 0) bits += count * std::log2(total / count);
  }
  return bits;
}

}  // namespace eqt::test
