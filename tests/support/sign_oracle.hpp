// SPDX-License-Identifier: Apache-2.0
// The sign codecs and their neighbours one value at a time, from FORMAT.md.

#pragma once

#include <bit>
#include <cmath>

#include "codec/bytes.hpp"
#include "codec/unit/codec_case.hpp"

namespace eqt::codec::testing {

/// 16 partial sums in fp64 by index modulo 16, halved pairwise.
inline double sixteen_sums(const std::vector<double>& values) {
  double sums[16] = {};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 16] += values[i];
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  return sums[0];
}

inline Bytes plain_plane(std::span<const float> values) {
  Bytes plane((values.size() + 7) / 8, std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) plane[i / 8] |= std::byte{1} << (i % 8);
  }
  return plane;
}

inline void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

template <typename T>
void append(Bytes& to, T field) {
  Bytes bytes(sizeof(T));
  store(bytes.data(), field);
  append(to, bytes);
}

inline Bytes plain_ef_signsgd(std::span<const float> values) {
  Bytes payload;
  if (values.empty()) return payload;
  std::vector<double> magnitudes;
  for (const float v : values) magnitudes.push_back(std::abs(double{v}));
  append(payload,
         static_cast<float>(sixteen_sums(magnitudes) / static_cast<double>(values.size())));
  append(payload, plain_plane(values));
  return payload;
}

/// `rows` divides values.size() into rows of eight or more.
inline Bytes plain_onebit(std::span<const float> values, std::size_t rows) {
  Bytes payload;
  if (values.empty()) return payload;
  append(payload, static_cast<std::uint32_t>(rows));
  const std::size_t columns = values.size() / rows;
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<double> negative, other;
    double negatives = 0;
    for (const float v : values.subspan(r * columns, columns)) {
      negatives += v < 0;
      negative.push_back(v < 0 ? double{v} : 0.0);
      other.push_back(v < 0 ? 0.0 : double{v});
    }
    const double others = static_cast<double>(columns) - negatives;
    append(payload, negatives > 0 ? static_cast<float>(sixteen_sums(negative) / negatives) : 0.0f);
    append(payload, others > 0 ? static_cast<float>(sixteen_sums(other) / others) : 0.0f);
  }
  append(payload, plain_plane(values));
  return payload;
}

inline Bytes plain_natural(std::span<const float> values, const EncodeContext& context) {
  Bytes payload;
  Bytes signs((values.size() + 7) / 8, std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t index = context.first_index + i;
    const RandomStream stream(context.key, static_cast<std::uint32_t>(index >> 32));
    const std::uint32_t random = stream.bits(static_cast<std::uint32_t>(index)) >> 9;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(std::abs(values[i])) + random;
    payload.push_back(static_cast<std::byte>(bits >> 23));
    if (values[i] < 0 && bits >> 23 != 0) signs[i / 8] |= std::byte{1} << (i % 8);
  }
  append(payload, signs);
  return payload;
}

inline Bytes plain_int8(std::span<const float> values, std::size_t bucket_size) {
  Bytes payload;
  for (std::size_t begin = 0; begin < values.size(); begin += bucket_size) {
    const auto bucket = values.subspan(begin, std::min(bucket_size, values.size() - begin));
    double largest = 0;
    for (const float v : bucket) largest = std::max(largest, std::abs(double{v}));
    auto step = static_cast<float>(largest / 127);
    if (double{step} < largest / 127) step = std::nextafter(step, HUGE_VALF);
    while (!std::isfinite(127 * step)) step = std::nextafter(step, 0.0f);
    append(payload, step);
    for (const float v : bucket) {
      float r = 0;
      if (step >= 0x1p-126f) {
        const float inverse = 1 / step;
        r = v * inverse;
      } else if (step > 0) {
        r = v / step;
      }
      append(payload, static_cast<std::int8_t>(std::lrint(r)));
    }
  }
  return payload;
}

}  // namespace eqt::codec::testing
