// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/value_coding.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/casts.hpp"
#include "codec/finite.hpp"
#include "codec/sparse/compact.hpp"
#include "codec/sparse/scratch.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kHalfBytes = 2;
constexpr std::size_t kExponentBytes = 2;
constexpr std::uint32_t kLargestHalf = 0x77FF;  // below 2^15
constexpr int kLargestExponent = 15;            // bound for halves that are sent
constexpr std::size_t kBlock = 1024;

// 2^(e+14) <= L < 2^(e+15) for float32 L.
constexpr int kLowestScale = -149 - 14;
constexpr int kHighestScale = 127 - 14;

int common_exponent(std::span<const float> values) {
  std::uint32_t bits = 0;
  for (const float value : values) bits = std::max(bits, magnitude_bits(value));
  if (bits == 0) return 0;
  float largest;
  std::memcpy(&largest, &bits, sizeof(largest));
  return std::ilogb(largest) - (kLargestExponent - 1);
}

void write_halves(std::span<const float> values, std::byte* to) {
  const int exponent = common_exponent(values);
  store(to, static_cast<std::int16_t>(exponent));
  to += kExponentBytes;
  const double factor = std::ldexp(1.0, -exponent);
  float scaled[kBlock];
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const std::size_t n = std::min(kBlock, values.size() - i);
    // Exact, because it is a float times a power of two, unless its half is zero anyway.
    for (std::size_t j = 0; j < n; ++j) {
      scaled[j] = static_cast<float>(static_cast<double>(values[i + j]) * factor);
    }
    if (cast_to_half({scaled, n}, to) > kLargestHalf) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto half = load<std::uint16_t>(to + kHalfBytes * j);
        if ((half & 0x7FFF) > kLargestHalf)
          store(to + kHalfBytes * j, static_cast<std::uint16_t>(half - 1));
      }
    }
    to += kHalfBytes * n;
  }
}

void check_halves(std::span<const std::byte> bytes) {
  const int exponent = load<std::int16_t>(bytes.data());
  if (exponent < kLowestScale || exponent > kHighestScale) {
    fail(Kind::wire,
         "sparse payload: expected an exponent from {} to {}, found {}; check the network and "
         "memory",
         kLowestScale, kHighestScale, exponent);
  }
  std::uint16_t largest = 0;
  for (std::size_t at = kExponentBytes; at < bytes.size(); at += kHalfBytes) {
    const auto magnitude =
        static_cast<std::uint16_t>(load<std::uint16_t>(bytes.data() + at) & 0x7FFF);
    largest = std::max(largest, magnitude);
  }
  if (largest > kLargestHalf) {
    fail(Kind::wire,
         "sparse payload: expected 16-bit values below 2^15, found one of bits {:#06x}; check the "
         "network and memory",
         largest);
  }
}

}  // namespace

int checked_value_bits(int bits, std::string_view compressor) {
  if (bits != 16 && bits != 32) {
    fail(Kind::usage, "compressor {}: expected 16 or 32 bits per value sent, found {}; try 32",
         compressor, bits);
  }
  return bits;
}

std::size_t value_bytes(std::size_t k, int bits) {
  return bits == 32 ? sizeof(float) * k : kExponentBytes + kHalfBytes * k;
}

void write_values(std::span<const float> values, int bits, std::byte* to) {
  if (bits == 16) return write_halves(values, to);
  if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
}

void check_values(std::span<const std::byte> bytes, int bits) {
  if (bits == 16) return check_halves(bytes);
  std::uint32_t largest = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    largest = std::max(largest, load<std::uint32_t>(bytes.data() + at) & 0x7FFFFFFF);
  }
  if (largest > kLargestFiniteBits) {
    fail(
        Kind::wire,
        "sparse payload: expected finite values, found NaN or infinity among {}; check the network "
        "and memory",
        bytes.size() / sizeof(float));
  }
}

const std::byte* as_float32(std::span<const std::byte> bytes, int bits, Workspace& workspace) {
  if (bits == 32) return bytes.data();
  const std::size_t k = (bytes.size() - kExponentBytes) / kHalfBytes;
  const auto values = workspace.array(kFloat32Values, k);
  std::fill(values.begin(), values.end(), 0.0f);
  add_halves(bytes.data() + kExponentBytes, 1.0f, values);
  const double factor = std::ldexp(1.0, load<std::int16_t>(bytes.data()));
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) * factor);
  return reinterpret_cast<const std::byte*>(values.data());
}

}  // namespace eqt::codec
