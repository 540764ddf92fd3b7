// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/value_coding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/casts.hpp"
#include "codec/finite.hpp"
#include "codec/sparse/bit_fields.hpp"
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

/// Reads what write_halves() wrote.
void read_halves(std::span<const std::byte> bytes, std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0f);
  add_halves(bytes.data() + kExponentBytes, 1.0f, values);
  const double factor = std::ldexp(1.0, load<std::int16_t>(bytes.data()));
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) * factor);
}

std::size_t halves_bytes(std::size_t k) { return kExponentBytes + kHalfBytes * k; }

std::size_t all_magnitudes(int bits) { return std::size_t{1} << (bits - 1); }

/// Returns true if so many magnitudes may be spread between two, or all be sent.
bool may_be(bool between, std::size_t magnitudes) {
  return between ? magnitudes > 2 : magnitudes <= kMostCentroids;
}

/// Returns true if magnitudes that are fitted to k values are spread between two.
bool is_spread(std::size_t k, std::size_t magnitudes) {
  constexpr std::size_t kValuesPerCentroid = 64;
  return may_be(true, magnitudes) &&
         (!may_be(false, magnitudes) || k < kValuesPerCentroid * magnitudes);
}

std::size_t sent_magnitudes(ValueForm form) { return form.between ? 2 : all_magnitudes(form.bits); }

/// Chooses the magnitudes that are sent: those that the values have, or those that fit them.
void choose_magnitudes(std::span<const float> values, const ValueCoding& coding, ValueForm form,
                       std::span<float> sent) {
  if (coding.magnitudes != nullptr) {
    const auto known = coding.magnitudes->all();
    if (form.between)
      sent[0] = known.front(), sent[1] = known.back();
    else
      std::copy(known.begin(), known.end(), sent.begin());
  } else if (form.between) {
    const MagnitudeRange range = range_of(values);
    sent[0] = range.smallest, sent[1] = range.largest;
  } else {
    fit_centroids(values, sent);
  }
}

void write_few(std::span<const float> values, const ValueCoding& coding, ValueForm form,
               std::byte* to) {
  std::array<float, kMostMagnitudes> magnitudes;
  const auto sent = std::span(magnitudes).first(sent_magnitudes(form));
  choose_magnitudes(values, coding, form, sent);
  write_halves(sent, to);
  const std::size_t head = halves_bytes(sent.size());
  // The receiver's magnitudes, which are rounded.
  const Magnitudes rounded = read_magnitudes({to, head}, form);
  const NearestMagnitude nearest(rounded.all());
  LowFirstWriter writer(to + head);
  for (const float value : values) {
    const std::uint32_t sign = std::signbit(value) ? 1 : 0;
    writer.put(sign << (form.bits - 1) | nearest(value), form.bits);
  }
  writer.finish();
}

void check_few(std::span<const std::byte> bytes, std::size_t k, ValueForm form) {
  const auto halves = bytes.first(halves_bytes(sent_magnitudes(form)));
  check_halves(halves);
  std::uint16_t last = 0;
  for (std::size_t at = kExponentBytes; at < halves.size(); at += kHalfBytes) {
    const auto half = load<std::uint16_t>(halves.data() + at);
    if (half > kLargestHalf || half < last) {
      fail(Kind::wire,
           "sparse payload: expected magnitudes that are positive and do not descend, found bits "
           "{:#06x} after {:#06x}; check the network and memory",
           half, last);
    }
    last = half;
  }
  if (!ends_in_zeros(bytes.subspan(halves.size()), k, form.bits)) {
    fail(Kind::wire,
         "sparse payload: expected zero bits after {} values of {} bits, found ones; check the "
         "network and memory",
         k, form.bits);
  }
}

void read_few(std::span<const std::byte> bytes, ValueForm form, std::span<float> values) {
  const Magnitudes magnitudes = read_magnitudes(bytes, form);
  std::array<float, 2 * kMostMagnitudes> of_field;
  for (std::size_t j = 0; j < magnitudes.count; ++j) {
    of_field[j] = magnitudes.values[j];
    of_field[magnitudes.count + j] = -magnitudes.values[j];
  }
  const auto fields = bytes.subspan(halves_bytes(sent_magnitudes(form)));
  const std::uint64_t mask = 2 * magnitudes.count - 1;
  std::size_t bit = 0;
  for (float& value : values) {
    value = of_field[load_word(fields, bit / 8) >> (bit % 8) & mask];
    bit += static_cast<std::size_t>(form.bits);
  }
}

}  // namespace

int checked_value_bits(int bits, std::string_view compressor) {
  if (!is_value_bits(bits)) {
    fail(Kind::usage,
         "compressor {}: expected 1 to 8, 16 or 32 bits per value sent, found {}; try 32",
         compressor, bits);
  }
  return bits;
}

ValueForm form_of(std::uint8_t byte) {
  const ValueForm form = {.bits = byte & 0x3F, .between = (byte & 0x40) != 0};
  const bool known = is_value_bits(form.bits) && byte == form.byte() &&
                     (form.few() ? may_be(form.between, all_magnitudes(form.bits)) : !form.between);
  if (!known) {
    fail(Kind::wire,
         "sparse payload: expected values of 1 to 8, 16 or 32 bits, found the form {:#04x}; check "
         "the network and memory",
         byte);
  }
  return form;
}

ValueForm shortest_form(std::size_t k, const ValueCoding& coding) {
  if (coding.bits > kMostFewBits) return {coding.bits};
  ValueForm shortest = {32};
  const ValueForm few = {coding.bits, coding.magnitudes != nullptr
                                          ? coding.between
                                          : is_spread(k, all_magnitudes(coding.bits))};
  for (const ValueForm form : {ValueForm{16}, few})
    if (value_bytes(k, form) < value_bytes(k, shortest)) shortest = form;
  return shortest;
}

std::size_t value_bytes(std::size_t k, ValueForm form) {
  if (form.bits == 32) return sizeof(float) * k;
  if (form.bits == 16) return halves_bytes(k);
  return halves_bytes(sent_magnitudes(form)) + field_bytes(k, form.bits);
}

std::size_t max_value_bytes(std::size_t k, int bits) {
  if (bits > kMostFewBits) return value_bytes(k, {bits});
  const ValueForm longest = {bits, !may_be(false, all_magnitudes(bits))};
  return std::min({value_bytes(k, {32}), value_bytes(k, {16}), value_bytes(k, longest)});
}

void write_values(std::span<const float> values, const ValueCoding& coding, ValueForm form,
                  std::byte* to) {
  if (form.few()) return write_few(values, coding, form, to);
  if (form.bits == 16) return write_halves(values, to);
  if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
}

void check_values(std::span<const std::byte> bytes, std::size_t k, ValueForm form) {
  if (form.few()) return check_few(bytes, k, form);
  if (form.bits == 16) return check_halves(bytes);
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

Magnitudes read_magnitudes(std::span<const std::byte> bytes, ValueForm form) {
  Magnitudes magnitudes;
  if (!form.few()) return magnitudes;
  magnitudes.count = all_magnitudes(form.bits);
  if (!form.between) {
    read_halves(bytes, magnitudes.all());
    return magnitudes;
  }
  float ends[2];
  read_halves(bytes, ends);
  spread_between({ends[0], ends[1]}, magnitudes.all());
  // Those between become halves, too, so that a payload of 16 bits can hold any of them.
  std::array<std::byte, kExponentBytes + kHalfBytes * kMostMagnitudes> halves;
  write_halves(magnitudes.all(), halves.data());
  read_halves(halves, magnitudes.all());
  return magnitudes;
}

const std::byte* as_float32(std::span<const std::byte> bytes, std::size_t k, ValueForm form,
                            Workspace& workspace) {
  if (form.bits == 32) return bytes.data();
  const auto values = workspace.array(kFloat32Values, k);
  if (form.few())
    read_few(bytes, form, values);
  else
    read_halves(bytes, values);
  return reinterpret_cast<const std::byte*>(values.data());
}

}  // namespace eqt::codec
