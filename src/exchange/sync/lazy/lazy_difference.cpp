// SPDX-License-Identifier: Apache-2.0
#include "sync/lazy/lazy_difference.hpp"

#include <algorithm>
#include <cmath>

#include "codec/bytes.hpp"
#include "codec/frame.hpp"
#include "core/error.hpp"

namespace eqt::sync {
namespace {

using codec::kFrameHeaderBytes;
using codec::load;
using codec::store;

/// The number is no compressor's: a compressor has no memory of what it sent.
constexpr codec::CodecId kLazyCodec{23};
constexpr std::uint8_t kFormatVersion = 1;

/// Fields of `bits` bits one after the other, the first in the lowest bits of the first byte.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(std::uint32_t field, unsigned bits) {
    held_ |= std::uint64_t{field} << filled_;
    for (filled_ += bits; filled_ >= 8; filled_ -= 8, held_ >>= 8)
      *to_++ = static_cast<std::byte>(held_ & 0xFF);
  }
  void finish() {
    if (filled_ > 0) *to_ = static_cast<std::byte>(held_ & 0xFF);
  }

 private:
  std::byte* to_;
  std::uint64_t held_ = 0;
  unsigned filled_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}
  std::uint32_t take(unsigned bits) {
    for (; filled_ < bits; filled_ += 8)
      held_ |= std::to_integer<std::uint64_t>(*from_++) << filled_;
    const auto field = static_cast<std::uint32_t>(held_ & ((std::uint64_t{1} << bits) - 1));
    held_ >>= bits;
    filled_ -= bits;
    return field;
  }
  /// Returns true if the unread bits of the last byte that was read from are zero.
  bool rest_is_zero() const { return held_ == 0; }

 private:
  const std::byte* from_;
  std::uint64_t held_ = 0;
  unsigned filled_ = 0;
};

void require_float(double value) {
  if (std::isfinite(static_cast<float>(value))) return;
  fail(Kind::diverged,
       "the change of the gradient: expected a finite float32, found {}; try a smaller "
       "optimizer.learning_rate",
       value);
}

double square(double value) { return value * value; }

}  // namespace

LazyDifference::LazyDifference(std::size_t count, unsigned bits)
    : count_(count), bits_(bits), last_code_((std::uint32_t{1} << bits) - 1) {
  EQT_CHECK(bits <= kMostLazyBits, "codes of {} bits", bits);
  if (payload_bytes() > UINT32_MAX)
    fail(Kind::usage,
         "synchronization.laq_bits: expected messages of less than 4 GiB, found {} values of {} "
         "bits; set fewer bits",
         count, bits == 0 ? 32 : bits);
}

std::size_t LazyDifference::payload_bytes() const noexcept {
  if (bits_ == 0) return count_ * sizeof(float);
  return sizeof(float) + (count_ * bits_ + 7) / 8;
}

std::size_t LazyDifference::frame_bytes() const noexcept {
  return kFrameHeaderBytes + payload_bytes();
}

/// Divided last, so that both ends of the grid are exact.
float LazyDifference::point(double radius, std::uint32_t code) const noexcept {
  const double steps = 2.0 * code - last_code_;
  return static_cast<float>(radius * steps / last_code_);
}

LazyDifference::Squares LazyDifference::encode_exact(std::span<const float> gradient,
                                                     std::span<const double> known,
                                                     std::span<std::byte> payload) const {
  Squares squares;
  for (std::size_t i = 0; i < count_; ++i) {
    const double exact = static_cast<double>(gradient[i]) - known[i];
    require_float(exact);
    const auto delta = static_cast<float>(exact);
    store(payload.data() + i * sizeof(float), delta);
    squares.sent += square(delta);
  }
  squares.exact = squares.sent;
  return squares;
}

LazyDifference::Squares LazyDifference::encode_codes(std::span<const float> gradient,
                                                     std::span<const double> known,
                                                     std::span<std::byte> payload) const {
  double largest = 0;
  for (std::size_t i = 0; i < count_; ++i)
    largest = std::max(largest, std::abs(static_cast<double>(gradient[i]) - known[i]));
  require_float(largest);
  const auto stored = static_cast<float>(largest);
  store(payload.data(), stored);
  const double radius = static_cast<double>(stored);
  const double points_per_unit = radius > 0 ? last_code_ / (2 * radius) : 0;
  Squares squares;
  BitWriter writer(payload.data() + sizeof(float));
  for (std::size_t i = 0; i < count_; ++i) {
    const double exact = static_cast<double>(gradient[i]) - known[i];
    // R may have been rounded to a float32 below the largest magnitude.
    const double place = std::floor((exact + radius) * points_per_unit + 0.5);
    const auto code =
        static_cast<std::uint32_t>(std::clamp(place, 0.0, static_cast<double>(last_code_)));
    writer.put(code, bits_);
    const double delta = static_cast<double>(point(radius, code));
    squares.sent += square(delta);
    squares.error += square(exact - delta);
    squares.exact += square(exact);
  }
  writer.finish();
  return squares;
}

LazyDifference::Squares LazyDifference::encode(std::span<const float> gradient,
                                               std::span<const double> known, StepId step,
                                               std::span<std::byte> frame) const {
  EQT_CHECK(gradient.size() == count_ && known.size() == count_, "{} values of {} that are known",
            gradient.size(), known.size());
  codec::write_header({.codec = kLazyCodec,
                       .format_version = kFormatVersion,
                       .step = step,
                       .count = count_,
                       .payload_bytes = static_cast<std::uint32_t>(payload_bytes())},
                      frame);
  const auto payload = frame.subspan(kFrameHeaderBytes);
  return bits_ == 0 ? encode_exact(gradient, known, payload)
                    : encode_codes(gradient, known, payload);
}

std::size_t LazyDifference::encode_nothing(StepId step, std::span<std::byte> frame) const {
  codec::write_header({.codec = kLazyCodec,
                       .format_version = kFormatVersion,
                       .flags = codec::kNothingSent,
                       .step = step,
                       .count = count_},
                      frame);
  return kFrameHeaderBytes;
}

void LazyDifference::add_exact(std::span<const std::byte> payload, std::span<double> values) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto delta = load<float>(payload.data() + i * sizeof(float));
    if (!std::isfinite(delta)) fail(Kind::wire, "laq: expected finite values, found {}", delta);
    values[i] += static_cast<double>(delta);
  }
}

void LazyDifference::add_codes(std::span<const std::byte> payload, std::span<double> values) const {
  const auto stored = load<float>(payload.data());
  if (!std::isfinite(stored) || std::signbit(stored))
    fail(Kind::wire, "laq: expected a finite radius of at least 0, found {}", stored);
  const double radius = static_cast<double>(stored);
  BitReader reader(payload.data() + sizeof(float));
  for (std::size_t i = 0; i < count_; ++i)
    values[i] += static_cast<double>(point(radius, reader.take(bits_)));
  if (!reader.rest_is_zero())
    fail(Kind::wire, "laq: expected zeros in the unused bits of the last byte, found others");
}

bool LazyDifference::decode_add(std::span<const std::byte> frame, StepId step,
                                std::span<double> values) const {
  const bool sent = frame.size() != kFrameHeaderBytes;
  const auto payload =
      codec::open_frame(frame, {.codec = kLazyCodec,
                                .format_version = kFormatVersion,
                                .flags = sent ? std::uint8_t{0} : codec::kNothingSent,
                                .step = step,
                                .count = count_});
  if (!sent) return false;
  if (payload.size() != payload_bytes())
    fail(Kind::wire, "laq: expected a payload of {} bytes, found {}", payload_bytes(),
         payload.size());
  if (bits_ == 0) {
    add_exact(payload, values);
  } else {
    add_codes(payload, values);
  }
  return true;
}

}  // namespace eqt::sync
