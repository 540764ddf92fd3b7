// SPDX-License-Identifier: Apache-2.0
// What a queue can run: a job is a kernel's arguments. All pointers are device memory; payloads
// begin at multiples of 16 bytes, values anywhere. The bytes are those of codec/FORMAT.md.

#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

namespace eqt::device {

/// Bits that a job sets in its `flags`.
enum Flag : std::uint32_t {
  kNotFinite = 1,  // a value (encoding: before or after rounding) is NaN or infinite
  kIrregular = 2,  // a bucket's norm is 0 or infinite
  kBadCode = 4,    // a payload has a code that no encoder writes
};

enum class CastKind : std::uint8_t { half, bfloat };

/// fp16 and bf16. With a residual, values + residual are encoded, and what rounding removes
/// replaces the residual: so in all encoding jobs.
struct EncodeCast {
  CastKind kind;
  const float* values;
  float* residual;  // or null
  std::size_t count;
  std::byte* payload;
  std::uint32_t* flags;
};

/// sum += scale * decoded: so in all adding jobs.
struct AddCast {
  CastKind kind;
  const std::byte* payload;
  float scale;
  float* sum;
  std::size_t count;
  std::uint32_t* flags;
};

struct EncodeInt8 {
  const float* values;
  float* residual;
  std::size_t count;
  std::size_t bucket_size;
  std::byte* payload;
  std::uint32_t* flags;
};

struct AddInt8 {
  const std::byte* payload;
  float scale;
  float* sum;
  std::size_t count;
  std::size_t bucket_size;
  std::uint32_t* flags;
};

/// Codes with more bits have more keys.
inline constexpr int kMostFewKeysBits = 5;

/// codec::LevelTable in device memory.
struct LevelGrid {
  enum class Kind : std::uint8_t { uniform, powers, few_keys, many_keys };
  Kind kind;
  int bits;
  int count;           // n
  const float* level;  // n + 1, then +infinity
  /// The arrays are by key, from first_key on, key = bits(r) >> shift. They have the level in the
  /// key, and the two lines below and from that level on, in units of 2^-(32 - bits). few_keys has
  /// at most 16 keys. The arrays are separate, because neighbouring floats are in different banks
  /// of the cache.
  const float *threshold, *offset, *slope;
  int shift;
  std::int32_t first_key;
  std::uint32_t keys;
};

/// The constants of a random stream (core/random.hpp).
struct StreamWords {
  std::uint32_t first, second, multiplier, together;
};

/// Strata in device memory (core/strata.hpp).
struct DeviceStrata {
  const std::uint32_t* bases = nullptr;  // null: ranks round independently
  std::uint32_t places = 0, factor = 0;
};

/// Fixed coding. Every bucket takes a slot of slot_bytes = 4 + fixed_bytes(bucket_size); a bucket
/// whose norm is 0 or infinite has only the norm, and with an infinite norm its residual becomes
/// values + residual (the host sends those).
struct EncodeLevels {
  LevelGrid grid;
  bool max_norm;  // else L2
  const float* values;
  float* residual;
  std::size_t count;
  std::size_t bucket_size;
  std::size_t slot_bytes;
  std::uint64_t first_index;
  StreamWords
      stream[3];  // of first_index's block of 2^32, of a bucket that crosses it, of the next
  DeviceStrata strata;
  std::byte* payload;
  std::uint32_t* flags;
};

struct AddLevels {
  LevelGrid grid;
  const std::byte* payload;
  const std::uint64_t* offsets;  // of the buckets in the payload; null: bucket k is in slot k
  std::size_t slot_bytes;
  float scale;
  float* sum;
  std::size_t count;
  std::size_t bucket_size;
  std::uint32_t* flags;
};

/// One bit per value, at `plane`, a multiple of 4 bytes.
struct EncodeSigns {
  const float* values;
  std::size_t count;
  std::byte* plane;
  std::uint32_t* flags;
};

/// ef-signsgd's mean magnitude, to `magnitude`: one warp, because the order of the sum is the
/// format's.
struct MeanMagnitude {
  const float* values;
  std::size_t count;
  float* magnitude;
};

/// sum += a set bit ? if_set : if_clear, both times *magnitude unless that is null.
struct AddSigns {
  const std::byte* plane;
  const float* magnitude;
  float scale;  // of a clear bit; a set one is its negative
  float* sum;
  std::size_t count;
};

/// sum += scale * value: raw segments, and the residual that is added to a gradient.
struct AddValues {
  const float* values;
  float scale;
  float* sum;
  std::size_t count;
  std::uint32_t* flags;  // or null
};

using Job = std::variant<EncodeCast, AddCast, EncodeInt8, AddInt8, EncodeLevels, AddLevels,
                         EncodeSigns, MeanMagnitude, AddSigns, AddValues>;

}  // namespace eqt::device
