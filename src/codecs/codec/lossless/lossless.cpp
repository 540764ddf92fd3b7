// SPDX-License-Identifier: Apache-2.0
#include "codec/lossless/lossless.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "codec/bytes.hpp"
#include "codec/casts.hpp"
#include "codec/entropy/rans.hpp"
#include "codec/lossless/float_planes.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

using Payload = std::span<const std::byte>;
using HeldBytes = std::array<std::byte, kRansHeldBytes>;

enum Form : std::uint8_t { kPlain = 0, kCoded = 1, kWithZeros = 2 };

constexpr std::size_t kFormBytes = 1;
constexpr std::size_t kHeadBytes = 3;   // form and length
constexpr std::size_t kCodesBytes = 2;  // largest exponent with a code, number of such exponents
// Zeros get a code of their own if they are at least one value in this many: the smallest
// probability of a model.
constexpr std::size_t kRareZero = 256;

// The memory for one block.
struct Scratch {
  alignas(64) std::array<LevelCode, kLosslessBlock> codes;
  alignas(64) std::array<std::uint8_t, kLosslessBlock> exponents;
  alignas(64) std::array<std::byte, kLosslessBlock> upper;
  alignas(64) std::array<std::byte, 2 * kLosslessBlock> lower;
  // The encoder's bfloat16 numbers; the decoder's upper plane without zeros.
  alignas(64) std::array<std::byte, 2 * kLosslessBlock> halves;
  // The encoder's container of codes, of at most rans_max_bytes(); the decoder's lower plane
  // without zeros.
  alignas(64) std::array<std::byte, 3 * kLosslessBlock> container;
};
constexpr ScratchArray<Scratch> kScratch{0};

// Calls found(i) for each code i that is the escape.
template <typename Found>
void for_each_escape(std::span<const LevelCode> codes, LevelCode escape, Found found) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const void* const at = std::memchr(codes.data() + i, escape, codes.size() - i);
    if (at == nullptr) return;
    i = static_cast<std::size_t>(static_cast<const LevelCode*>(at) - codes.data());
    found(i);
  }
}

// Takes bytes off the front.
Payload take(Payload& rest, std::size_t bytes) {
  const Payload front = rest.first(bytes);
  rest = rest.subspan(bytes);
  return front;
}

// Appends to a payload.
class Appender {
 public:
  explicit Appender(std::byte* to) : begin_(to), at_(to) {}
  template <typename T>
  void number(T value) {
    store(at_, value);
    at_ += sizeof(T);
  }
  void bytes(Payload from) {
    if (!from.empty()) std::memcpy(at_, from.data(), from.size());
    at_ += from.size();
  }
  std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  std::byte* begin_;
  std::byte* at_;
};

class Lossless final : public Compressor {
 public:
  explicit Lossless(std::unique_ptr<Compressor> plain)
      : plain_(std::move(plain)), value_bytes_(plain_->max_payload_bytes(1)) {
    EQT_CHECK(value_bytes_ == 2 || value_bytes_ == 4, "lossless coding of {} bytes a value",
              value_bytes_);
  }

  CodecId id() const noexcept override { return plain_->id(); }
  std::uint8_t format_version() const noexcept override { return 2; }
  Properties properties() const noexcept override {
    Properties properties = plain_->properties();
    properties.coded_floats = true;
    properties.granule = kLosslessBlock;
    return properties;
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    const std::size_t blocks = count / kLosslessBlock + (count % kLosslessBlock != 0);
    return blocks * kFormBytes + count * value_bytes_;
  }
  std::optional<double> variance_bound(std::size_t count) const override {
    return plain_->variance_bound(count);
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  std::size_t prefix_bytes(Payload payload, std::size_t count) const override;
  void decode_add(Payload payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  bool has_lower() const { return value_bytes_ == 4; }
  std::string_view name() const { return codec_name(plain_->id()); }
  std::size_t lower_bytes(std::size_t count) const { return has_lower() ? 2 * count : 0; }

  ExponentCounts split(std::span<const float> values, Scratch& scratch) const;
  bool is_zero(const Scratch& scratch, std::size_t i) const;
  std::size_t zeros_to_code(std::size_t count, const ExponentCounts& counts,
                            const Scratch& scratch) const;
  std::size_t take_out_zeros(std::span<LevelCode> codes, Scratch& scratch) const;
  std::size_t encode_coded(std::size_t count, ExponentCounts counts, Scratch& scratch,
                           std::span<std::byte> to) const;

  std::size_t block_bytes(Payload rest, std::size_t count) const;
  ExponentCodes read_codes(Payload& rest, Form form) const;
  void decode_coded(Payload rest, Form form, float scale, Scratch& scratch,
                    std::span<float> sum) const;
  void read_upper(Payload& rest, Payload held, std::span<std::byte> upper) const;
  void read_escapes(Payload escapes, std::span<const LevelCode> codes, LevelCode escape,
                    Scratch& scratch) const;
  void put_back_zeros(std::span<const LevelCode> codes, Scratch& scratch) const;

  std::unique_ptr<Compressor> plain_;
  std::size_t value_bytes_;
};

ExponentCounts Lossless::split(std::span<const float> values, Scratch& scratch) const {
  if (has_lower()) {
    split_floats(values, scratch.exponents.data(), scratch.upper.data(), scratch.lower.data());
  } else {
    cast_to_bfloat(values, scratch.halves.data());
    split_bfloats(std::span(scratch.halves).first(2 * values.size()), scratch.exponents.data(),
                  scratch.upper.data());
  }
  ExponentCounts counts{};
  count_bytes(std::span(scratch.exponents).first(values.size()), counts);
  return counts;
}

// Whether value i, whose planes are where they were split to, is +0.
bool Lossless::is_zero(const Scratch& scratch, std::size_t i) const {
  const unsigned lower = has_lower() ? load<std::uint16_t>(&scratch.lower[2 * i]) : 0;
  return (scratch.exponents[i] | std::to_integer<unsigned>(scratch.upper[i]) | lower) == 0;
}

// Number of zeros if they get a code of their own, else 0.
std::size_t Lossless::zeros_to_code(std::size_t count, const ExponentCounts& counts,
                                    const Scratch& scratch) const {
  if (counts[0] * kRareZero < count) return 0;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < count; ++i) zeros += is_zero(scratch, i);
  return zeros * kRareZero < count ? 0 : zeros;
}

// Gives +0 the code 0, and moves the planes of the other values together.
// @return number of other values
std::size_t Lossless::take_out_zeros(std::span<LevelCode> codes, Scratch& scratch) const {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    // Whether a value is zero is as good as random, so there is no branch on it.
    const unsigned other = 1u - is_zero(scratch, i);
    codes[i] = static_cast<LevelCode>(codes[i] & (0u - other));
    scratch.upper[kept] = scratch.upper[i];
    if (has_lower()) store(&scratch.lower[2 * kept], load<std::uint16_t>(&scratch.lower[2 * i]));
    kept += other;
  }
  return kept;
}

// Writes the block whose planes are in `scratch`.
// @return bytes written, fewer than to.size(); 0 if that is not possible
std::size_t Lossless::encode_coded(std::size_t count, ExponentCounts counts, Scratch& scratch,
                                   std::span<std::byte> to) const {
  const std::size_t zeros = zeros_to_code(count, counts, scratch);
  counts[0] -= static_cast<std::uint32_t>(zeros);
  const ExponentCodes code = choose_codes(counts, count, zeros > 0 ? 1 : 0);
  const auto codes = std::span(scratch.codes).first(count);
  codes_of_exponents(code, std::span(scratch.exponents).first(count), codes);
  const std::size_t kept = zeros > 0 ? take_out_zeros(codes, scratch) : count;
  const IndexCounts of_codes = code_counts(counts, code, zeros);
  const RansModel model = rans_narrow_model(of_codes);
  const std::size_t in_states = std::min(rans_held_bytes(model, count), kept);
  HeldBytes held{};
  std::copy_n(scratch.upper.begin(), in_states, held.begin());
  const Payload container =
      std::span(scratch.container).first(rans_write_indices(model, codes, held, scratch.container));
  const Payload upper = std::span(scratch.upper).subspan(in_states, kept - in_states);
  const Payload lower = std::span(scratch.lower).first(lower_bytes(kept));
  const std::size_t length = kCodesBytes + container.size() + upper.size() + lower.size() +
                             static_cast<std::size_t>(of_codes[code.escape]);
  if (kHeadBytes + length >= to.size()) return 0;
  Appender payload(to.data());
  payload.number<std::uint8_t>(zeros > 0 ? kWithZeros : kCoded);
  payload.number(static_cast<std::uint16_t>(length));
  payload.number(code.top);
  payload.number(static_cast<std::uint8_t>(code.escape - code.first));
  payload.bytes(container);
  payload.bytes(upper);
  payload.bytes(lower);
  for_each_escape(codes, code.escape, [&](std::size_t i) { payload.number(scratch.exponents[i]); });
  return payload.size();
}

std::size_t Lossless::encode(std::span<const float> values, const EncodeContext& context,
                             Workspace& workspace, std::span<std::byte> payload) const {
  require_room(payload, max_payload_bytes(values.size()), values.size());
  std::size_t used = 0;
  for (std::size_t start = 0; start < values.size(); start += kLosslessBlock) {
    const auto block = values.subspan(start, std::min(kLosslessBlock, values.size() - start));
    const auto to = payload.subspan(used);
    Scratch& scratch = workspace.array(kScratch, 1).front();
    const ExponentCounts counts = split(block, scratch);
    // Encoding everything fails, too, but with the index in the whole input.
    if (counts[kMaxExponent + 1] != 0) return plain_->encode(values, context, workspace, payload);
    const std::size_t room = kFormBytes + block.size() * value_bytes_;
    const std::size_t bytes = encode_coded(block.size(), counts, scratch, to.first(room));
    used += bytes;
    if (bytes > 0) continue;
    store<std::uint8_t>(to.data(), kPlain);
    used += kFormBytes + plain_->encode(block, context, workspace, to.subspan(kFormBytes));
  }
  return used;
}

// The bytes of a block of `count` values at the front of `rest`; 0 if they cannot be told.
std::size_t Lossless::block_bytes(Payload rest, std::size_t count) const {
  if (rest.empty()) return 0;
  const auto form = load<std::uint8_t>(rest.data());
  if (form == kPlain) return kFormBytes + count * value_bytes_;
  if (form > kWithZeros || rest.size() < kHeadBytes) return 0;
  return kHeadBytes + load<std::uint16_t>(rest.data() + kFormBytes);
}

std::size_t Lossless::prefix_bytes(Payload payload, std::size_t count) const {
  std::size_t bytes = 0;
  for (std::size_t blocks = count / kLosslessBlock; blocks > 0; --blocks) {
    const std::size_t block = block_bytes(payload.subspan(bytes), kLosslessBlock);
    if (block == 0 || block > payload.size() - bytes) return 0;
    bytes += block;
  }
  return bytes;
}

void Lossless::decode_add(Payload payload, float scale, Workspace& workspace,
                          std::span<float> sum) const {
  for (std::size_t start = 0; start < sum.size(); start += kLosslessBlock) {
    const auto block = sum.subspan(start, std::min(kLosslessBlock, sum.size() - start));
    const std::size_t bytes = block_bytes(payload, block.size());
    if (bytes == 0 || bytes > payload.size())
      fail(
          Kind::wire,
          "compressor {}: expected the block of values {} to {}, found {} bytes that hold no whole "
          "block; the ranks run different configs or builds",
          name(), start, start + block.size() - 1, payload.size());
    const Payload from = take(payload, bytes);
    const auto form = static_cast<Form>(load<std::uint8_t>(from.data()));
    if (form == kPlain)
      plain_->decode_add(from.subspan(kFormBytes), scale, workspace, block);
    else
      decode_coded(from.subspan(kHeadBytes), form, scale, workspace.array(kScratch, 1).front(),
                   block);
  }
  if (!payload.empty())
    fail(Kind::wire, "compressor {}: expected the end after {} values, found {} more bytes", name(),
         sum.size(), payload.size());
}

ExponentCodes Lossless::read_codes(Payload& rest, Form form) const {
  if (rest.size() < kCodesBytes)
    fail(Kind::wire, "compressor {}: expected {} bytes of exponents in a block, found {}", name(),
         kCodesBytes, rest.size());
  const Payload bytes = take(rest, kCodesBytes);
  const unsigned top = std::to_integer<unsigned>(bytes[0]);
  const unsigned width = std::to_integer<unsigned>(bytes[1]), first = form == kWithZeros ? 1 : 0;
  if (top > kMaxExponent || width > std::min<unsigned>(kExponentCodes - 1 - first, top + 1))
    fail(Kind::wire,
         "compressor {}: expected codes of at most {} exponents from one of 0 to {} downwards, "
         "found {} from {}; check the network and memory",
         name(), kExponentCodes - 1 - first, kMaxExponent, width, top);
  return {.top = static_cast<std::uint8_t>(top),
          .first = static_cast<std::uint8_t>(first),
          .escape = static_cast<std::uint8_t>(first + width)};
}

// Decodes what follows a block's length.
void Lossless::decode_coded(Payload rest, Form form, float scale, Scratch& scratch,
                            std::span<float> sum) const {
  const ExponentCodes code = read_codes(rest, form);
  const auto codes = std::span(scratch.codes).first(sum.size());
  HeldBytes held{};
  const RansRead read = rans_read_indices(rest, std::size_t{code.escape} + 1, codes, held);
  rest = rest.subspan(read.bytes);
  const std::size_t kept = form == kWithZeros ? count_nonzeros(codes) : codes.size();
  const auto upper = form == kWithZeros ? std::span<std::byte>(scratch.halves)
                                        : std::span<std::byte>(scratch.upper);
  read_upper(rest, std::span(held).first(read.held), upper.first(kept));
  if (rest.size() < lower_bytes(kept))
    fail(Kind::wire, "compressor {}: expected {} bytes of lower mantissas in a block, found {}",
         name(), lower_bytes(kept), rest.size());
  const Payload lower = take(rest, lower_bytes(kept));
  exponents_of_codes(code, codes, std::span(scratch.exponents).first(codes.size()));
  read_escapes(rest, codes, code.escape, scratch);
  const std::byte* lower_plane = lower.data();
  if (form == kWithZeros) {
    std::ranges::copy(lower, scratch.container.begin());
    put_back_zeros(codes, scratch);
    lower_plane = scratch.lower.data();
  }
  if (has_lower())
    add_float_planes(scratch.exponents.data(), scratch.upper.data(), lower_plane, scale, sum);
  else
    add_bfloat_planes(scratch.exponents.data(), scratch.upper.data(), scale, sum);
}

// Reads a plane whose first bytes were in states.
void Lossless::read_upper(Payload& rest, Payload held, std::span<std::byte> upper) const {
  const std::size_t in_states = std::min(held.size(), upper.size());
  if (rest.size() < upper.size() - in_states)
    fail(Kind::wire, "compressor {}: expected {} bytes of upper mantissas in a block, found {}",
         name(), upper.size() - in_states, rest.size());
  for (const std::byte unused : held.subspan(in_states))
    if (unused != std::byte{0})
      fail(Kind::wire,
           "compressor {}: expected states that hold {} bytes and zeros, found {:#04x}; check the "
           "network and memory",
           name(), in_states, std::to_integer<int>(unused));
  std::ranges::copy(held.first(in_states), upper.begin());
  std::ranges::copy(take(rest, upper.size() - in_states), upper.subspan(in_states).begin());
}

// Gives the values whose code is the escape their exponents.
void Lossless::read_escapes(Payload escapes, std::span<const LevelCode> codes, LevelCode escape,
                            Scratch& scratch) const {
  std::size_t used = 0;
  for_each_escape(codes, escape, [&](std::size_t i) {
    const auto exponent = used < escapes.size() ? std::to_integer<std::uint8_t>(escapes[used]) : 0;
    ++used;
    scratch.exponents[i] = static_cast<std::uint8_t>(exponent);
    if (exponent > kMaxExponent)
      fail(Kind::wire,
           "compressor {}: expected finite values, found the exponent {} at index {} of a block; "
           "check the network and memory",
           name(), exponent, i);
  });
  if (used != escapes.size())
    fail(Kind::wire, "compressor {}: expected {} exponents of escapes at a block's end, found {}",
         name(), used, escapes.size());
}

// The inverse of take_out_zeros(), from the decoder's planes without zeros.
void Lossless::put_back_zeros(std::span<const LevelCode> codes, Scratch& scratch) const {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    // All bits of the mask are set for values that were kept.
    const unsigned other = codes[i] != 0;
    const auto mask = static_cast<std::uint16_t>(0u - other);
    scratch.exponents[i] = static_cast<std::uint8_t>(scratch.exponents[i] & mask);
    scratch.upper[i] = scratch.halves[kept] & static_cast<std::byte>(mask);
    if (has_lower()) {
      const auto lower = load<std::uint16_t>(&scratch.container[2 * kept]);
      store(&scratch.lower[2 * i], static_cast<std::uint16_t>(lower & mask));
    }
    kept += other;
  }
}

}  // namespace

std::unique_ptr<Compressor> with_coding(Coding coding, std::unique_ptr<Compressor> plain) {
  if (coding != Coding::lossless) return plain;
  return std::make_unique<Lossless>(std::move(plain));
}

}  // namespace eqt::codec
