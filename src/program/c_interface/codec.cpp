// SPDX-License-Identifier: Apache-2.0
#include "equant/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "codec/catalogue.hpp"
#include "codec/message.hpp"
#include "config/compressor_keys.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "core/workspace.hpp"

struct equant_codec {
  equant_codec(std::unique_ptr<eqt::codec::Compressor> made, std::uint64_t run_seed)
      : compressor(std::move(made)), seed(run_seed) {}

  const std::unique_ptr<eqt::codec::Compressor> compressor;
  const std::uint64_t seed;
  eqt::Workspace workspace;
  std::array<char, 512> error = {};
};

namespace {

using eqt::Kind;
using eqt::codec::Properties;
using eqt::codec::Segment;

// 2 GiB of floats: a message says its length in 32 bits.
constexpr std::size_t kMaxValues = std::size_t{1} << 29;

/// Copies as much of `sentence` as has room before the zero.
void copy_sentence(std::string_view sentence, std::span<char> to) noexcept {
  if (to.empty()) return;
  const std::size_t length = std::min(sentence.size(), to.size() - 1);
  std::memcpy(to.data(), sentence.data(), length);
  to[length] = '\0';
}

int status_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::usage:
      return EQUANT_CODEC_USAGE;
    case Kind::diverged:
      return EQUANT_CODEC_DIVERGED;
    case Kind::wire:
      return EQUANT_CODEC_WIRE;
    default:
      return EQUANT_CODEC_BUG;
  }
}

/// Calls `call` and turns what it throws into a status and a sentence in `error`.
template <typename Call>
int guarded(std::span<char> error, const Call& call) noexcept {
  try {
    call();
    return EQUANT_CODEC_OK;
  } catch (const eqt::Error& found) {
    copy_sentence(found.what(), error);
    return status_of(found.kind());
  } catch (const std::bad_alloc&) {
    copy_sentence("expected enough memory, found too little", error);
    return EQUANT_CODEC_NO_MEMORY;
  } catch (const std::exception& found) {
    copy_sentence(found.what(), error);
  } catch (...) {
    copy_sentence("an error without a sentence; report it", error);
  }
  return EQUANT_CODEC_BUG;
}

/// guarded() for a function of a codec, which may be NULL.
template <typename Call>
int with_codec(equant_codec* codec, const Call& call) noexcept {
  if (codec == nullptr) return EQUANT_CODEC_USAGE;
  return guarded(codec->error, call);
}

/// @throws Error{usage} unless floats may lie at the pointer
void require_aligned(const float* pointer, std::string_view what) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignof(float) != 0)
    eqt::fail(Kind::usage, "expected {} at an address that {} divides, found another one", what,
              alignof(float));
}

/// @throws Error{usage} if there are `count` elements but no pointer to them
void require(const void* pointer, std::string_view what, std::size_t count = 1) {
  if (pointer == nullptr && count > 0) eqt::fail(Kind::usage, "expected {}, found NULL", what);
}

void require_count(std::size_t count) {
  if (count > kMaxValues)
    eqt::fail(Kind::usage, "expected at most {} values in an array, found {}; cut it in parts",
              kMaxValues, count);
}

/// @throws Error{usage} unless the array's description fits `count` values
Segment segment_of(const equant_array* array, std::size_t count) {
  require(array, "the array's description");
  require_count(count);
  if (array->rows > UINT32_MAX || (array->rows > 0 && count % array->rows != 0))
    eqt::fail(Kind::usage, "expected rows that divide the {} values, or 0 rows, found {}", count,
              array->rows);
  return {.slice = array->tensor,
          .begin = 0,
          .count = count,
          .rows = static_cast<std::size_t>(array->rows)};
}

std::size_t max_bytes(const equant_codec& codec, std::size_t count) {
  require_count(count);
  const Segment segment = {.count = count};
  const std::size_t bytes = eqt::codec::max_message_bytes(*codec.compressor, {&segment, 1});
  if (bytes > UINT32_MAX)
    eqt::fail(
        Kind::usage,
        "expected an array whose message has at most {} bytes, found {} values, which may take "
        "{}; cut it in parts",
        UINT32_MAX, count, bytes);
  return bytes;
}

void decode_add(equant_codec& codec, const equant_array* array, const void* bytes,
                std::size_t byte_count, float scale, std::span<float> sum) {
  const Segment segment = segment_of(array, sum.size());
  eqt::codec::MessageCodec(*codec.compressor, {&segment, 1}, codec.workspace)
      .decode_add({static_cast<const std::byte*>(bytes), byte_count}, {array->step, array->tensor},
                  scale, sum);
}

const eqt::codec::CompressorRow* row_at(std::size_t index) {
  const auto& rows = eqt::codec::CompressorRow::all();
  return index < rows.size() ? &**(rows.begin() + static_cast<std::ptrdiff_t>(index)) : nullptr;
}

}  // namespace

uint32_t equant_codec_abi_version(void) { return EQUANT_CODEC_ABI_VERSION; }

const char* equant_codec_library_version(void) {
  const char* text = nullptr;
  guarded({}, [&] {
    static const std::string version = eqt::version();
    text = version.c_str();
  });
  return text;
}

size_t equant_codec_count(void) {
  std::size_t count = 0;
  guarded({}, [&] { count = eqt::codec::CompressorRow::all().size(); });
  return count;
}

// The texts of rows are literals, which end with a zero.
const char* equant_codec_name(size_t index) {
  const char* name = nullptr;
  guarded({}, [&] {
    if (const auto* const row = row_at(index)) name = row->name.data();
  });
  return name;
}

const char* equant_codec_about(size_t index) {
  const char* about = nullptr;
  guarded({}, [&] {
    if (const auto* const row = row_at(index)) about = row->about.data();
  });
  return about;
}

int equant_codec_create(const char* name, const char* json, uint64_t seed, equant_codec** codec,
                        char* error, size_t error_bytes) {
  if (codec != nullptr) *codec = nullptr;
  return guarded({error, error == nullptr ? 0 : error_bytes}, [&] {
    require(codec, "a place for the codec");
    require(name, "the compressor's name");
    const auto config =
        eqt::config::parse_compressor(name, json == nullptr ? "{}" : json, "equant_codec_create()");
    *codec = std::make_unique<equant_codec>(config.make(), seed).release();
  });
}

void equant_codec_destroy(equant_codec* codec) { delete codec; }

const char* equant_codec_error(const equant_codec* codec) {
  return codec == nullptr ? "expected a codec, found NULL" : codec->error.data();
}

uint64_t equant_codec_properties(const equant_codec* codec) {
  if (codec == nullptr) return 0;
  const Properties has = codec->compressor->properties();
  std::uint64_t sum = 0;
  if (has.lossless) sum += EQUANT_CODEC_LOSSLESS;
  if (has.unbiased) sum += EQUANT_CODEC_UNBIASED;
  if (has.random) sum += EQUANT_CODEC_RANDOM;
  if (has.sparse) sum += EQUANT_CODEC_SPARSE;
  if (has.needs_feedback) sum += EQUANT_CODEC_NEEDS_FEEDBACK;
  if (has.votes) sum += EQUANT_CODEC_VOTES;
  return sum;
}

int equant_codec_max_bytes(equant_codec* codec, size_t count, size_t* bytes) {
  return with_codec(codec, [&] {
    require(bytes, "a place for the number of bytes");
    *bytes = max_bytes(*codec, count);
  });
}

int equant_codec_encode(equant_codec* codec, const equant_array* array, const float* values,
                        size_t count, float* residual, void* bytes, size_t capacity,
                        size_t* written) {
  return with_codec(codec, [&] {
    const Segment segment = segment_of(array, count);
    require(values, "values", count);
    require_aligned(values, "values");
    require_aligned(residual, "a residual");
    require(bytes, "a buffer for the bytes");
    require(written, "a place for the number of bytes");
    *written = 0;
    if (const std::size_t most = max_bytes(*codec, count); capacity < most)
      eqt::fail(Kind::usage,
                "expected a buffer of at least {} bytes for {} values, found {}; ask "
                "equant_codec_max_bytes()",
                most, count, capacity);
    const eqt::codec::MessageContext context = {
        .run_seed = codec->seed,
        .id = {array->step, array->tensor},
        .rank = array->rank,
        .residual = {residual, residual == nullptr ? 0 : count}};
    *written = eqt::codec::MessageCodec(*codec->compressor, {&segment, 1}, codec->workspace)
                   .encode({values, count}, context, {static_cast<std::byte*>(bytes), capacity});
  });
}

int equant_codec_decode(equant_codec* codec, const equant_array* array, const void* bytes,
                        size_t byte_count, float* values, size_t count) {
  return with_codec(codec, [&] {
    require_count(count);
    require(values, "room for the values", count);
    require_aligned(values, "room for the values");
    require(bytes, "bytes", byte_count);
    std::fill_n(values, count, 0.0f);
    decode_add(*codec, array, bytes, byte_count, 1.0f, {values, count});
  });
}

int equant_codec_decode_add(equant_codec* codec, const equant_array* array, const void* bytes,
                            size_t byte_count, float scale, float* sum, size_t count) {
  return with_codec(codec, [&] {
    require_count(count);
    require(sum, "the sum", count);
    require_aligned(sum, "the sum");
    if (!std::isfinite(scale)) eqt::fail(Kind::usage, "expected a finite scale, found {}", scale);
    require(bytes, "bytes", byte_count);
    decode_add(*codec, array, bytes, byte_count, scale, {sum, count});
  });
}

int equant_codec_finish_mean(equant_codec* codec, float* mean, size_t count) {
  return with_codec(codec, [&] {
    require_count(count);
    require(mean, "the mean", count);
    require_aligned(mean, "the mean");
    codec->compressor->finish_mean({mean, count});
  });
}
