// SPDX-License-Identifier: Apache-2.0
#include "device/device_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "codec/bytes.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "codec/levels/level_codec.hpp"
#include "core/error.hpp"
#include "device/jobs.hpp"
#include "device/queue.hpp"

namespace eqt::device {

/// The level table of a codec in device memory.
struct DeviceLevels {
  static constexpr std::size_t kNormBytes = sizeof(float);

  DeviceLevels(const codec::LevelCodec& codec, Queue& queue)
      : options(codec.options()),
        level(queue, std::span<const float>(codec.table().level)),
        offset(queue, lines_of(codec.table(), codec.table().offset)),
        slope(queue, lines_of(codec.table(), codec.table().slope)),
        threshold(queue, thresholds_of(codec.table())) {
    const codec::LevelTable& table = codec.table();
    grid.kind = table.uniform  ? LevelGrid::Kind::uniform
                : table.powers ? LevelGrid::Kind::powers
                : threshold.size() <= 16 && table.bits <= kMostFewKeysBits
                    ? LevelGrid::Kind::few_keys
                    : LevelGrid::Kind::many_keys;
    grid.bits = table.bits;
    grid.count = table.count;
    grid.level = level.data();
    grid.offset = offset.data();
    grid.slope = slope.data();
    grid.threshold = threshold.data();
    grid.shift = table.shift;
    grid.first_key = table.first_key;
    grid.keys = static_cast<std::uint32_t>(threshold.size());
    slot_bytes = kNormBytes + codec::fixed_bytes(options.bucket_size, options.bits);
  }

  std::size_t coded(std::size_t count) const { return codec::fixed_bytes(count, options.bits); }
  std::size_t in_bucket(std::size_t bucket, std::size_t count) const {
    return std::min(options.bucket_size, count - bucket * options.bucket_size);
  }
  std::size_t buckets(std::size_t count) const {
    return count / options.bucket_size + (count % options.bucket_size != 0);
  }

  codec::LevelCodecOptions options;
  Array<float> level;
  Array<float> offset, slope;
  Array<float> threshold;
  LevelGrid grid = {};
  std::size_t slot_bytes = 0;

 private:
  /// `of_cell` for the cells below and above each key's level; the last key twice, because |v| /
  /// norm may be rounded to just above 1.
  static std::vector<float> lines_of(const codec::LevelTable& table,
                                     std::span<const float> of_cell) {
    const float scale = std::ldexp(1.0f, 32 - table.bits);
    std::vector<float> lines;
    for (std::size_t k = 0; k <= table.base.size(); ++k) {
      const auto below =
          static_cast<std::size_t>(k < table.base.size() ? table.base[k] : table.base.back());
      lines.push_back(of_cell[below] * scale);
      lines.push_back(of_cell[below + 1] * scale);
    }
    return lines;
  }
  static std::vector<float> thresholds_of(const codec::LevelTable& table) {
    std::vector<float> thresholds = table.threshold;
    thresholds.push_back(thresholds.back());
    return thresholds;
  }
};

namespace {

using codec::CodecId;
using codec::load;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kNormBytes = DeviceLevels::kNormBytes;

/// The level codec behind `compressor` if it has a kernel, else null.
const codec::LevelCodec* level_codec(const codec::Compressor& compressor) {
  const auto* const levels = dynamic_cast<const codec::LevelCodec*>(compressor.level_rounding());
  if (levels == nullptr || levels->options().damped) return nullptr;
  return levels->options().coding == codec::Coding::fixed ? levels : nullptr;
}

bool is_cast(CodecId id) { return id == CodecId::fp16 || id == CodecId::bf16; }
/// Lossless coding of casts has no kernel.
bool has_cast_kernel(const codec::Compressor& compressor) {
  return is_cast(compressor.id()) && !compressor.properties().coded_floats;
}
bool has_signs(CodecId id) { return id == CodecId::signsgd || id == CodecId::ef_signsgd; }

CastKind cast_kind(CodecId id) { return id == CodecId::fp16 ? CastKind::half : CastKind::bfloat; }

std::size_t plane_at(CodecId id) { return id == CodecId::ef_signsgd ? sizeof(float) : 0; }

}  // namespace

bool has_kernels(const codec::Compressor& compressor) {
  const CodecId id = compressor.id();
  return has_cast_kernel(compressor) || has_signs(id) || id == CodecId::int8 ||
         level_codec(compressor) != nullptr;
}

bool encodes_sooner(const codec::Compressor& compressor) {
  return compressor.id() != CodecId::ef_signsgd;
}

DeviceCodec::DeviceCodec(const codec::Compressor& compressor, std::size_t max_count, Queue& queue)
    : compressor_(compressor),
      queue_(queue),
      payload_(queue, compressor.max_payload_bytes(max_count) + sizeof(float)),
      flags_(queue, 1) {
  EQT_CHECK(has_kernels(compressor), "no kernels for compressor {}",
            codec::codec_name(compressor.id()));
  if (const auto* const levels = level_codec(compressor)) {
    levels_ = std::make_unique<DeviceLevels>(*levels, queue);
  }
}

DeviceCodec::~DeviceCodec() = default;

std::size_t DeviceCodec::device_bytes() const noexcept {
  std::size_t bytes = payload_.size() + flags_.size() * sizeof(std::uint32_t);
  if (levels_ == nullptr) return bytes;
  bytes += levels_->level.size() * sizeof(float);
  bytes += (levels_->offset.size() + levels_->slope.size()) * sizeof(float);
  bytes += levels_->threshold.size() * sizeof(float);
  for (const auto& [strata, bases] : strata_) bytes += bases->size() * sizeof(std::uint32_t);
  if (device_offsets_) bytes += device_offsets_->size() * sizeof(std::uint64_t);
  return bytes;
}

std::size_t DeviceCodec::queued_bytes(std::size_t count) const {
  if (levels_ == nullptr || count == 0) return compressor_.max_payload_bytes(count);
  const std::size_t buckets = levels_->buckets(count);
  return (buckets - 1) * levels_->slot_bytes + kNormBytes +
         levels_->coded(levels_->in_bucket(buckets - 1, count));
}

DeviceCodec::Encoding DeviceCodec::queue(const float* values, float* residual, std::size_t count,
                                         const codec::EncodeContext& context,
                                         std::span<std::byte> slots, std::uint32_t* flags) {
  const CodecId id = compressor_.id();
  const std::size_t bytes = queued_bytes(count);
  EQT_CHECK(count > 0 && slots.size() >= bytes, "{} bytes for {} values", slots.size(), count);
  const Encoding encoding = {values, residual, count, context, slots.first(bytes), flags};
  queue_.clear(flags_.data(), sizeof(std::uint32_t));
  if (is_cast(id)) {
    queue_.run(EncodeCast{cast_kind(id), values, residual, count, payload_.data(), flags_.data()});
  } else if (id == CodecId::int8) {
    queue_.run(EncodeInt8{values, residual, count, compressor_.properties().granule,
                          payload_.data(), flags_.data()});
  } else if (has_signs(id)) {
    start_signs(encoding);
  } else {
    start_levels(encoding);
  }
  queue_.download(slots.data(), payload_.data(), bytes);
  queue_.download(flags, flags_.data(), sizeof(std::uint32_t));
  return encoding;
}

void DeviceCodec::start_levels(const Encoding& encoding) {
  const codec::EncodeContext& context = encoding.context;
  EncodeLevels job = {.grid = levels_->grid,
                      .max_norm = levels_->options.norm == codec::Norm::max,
                      .values = encoding.values,
                      .residual = encoding.residual,
                      .count = encoding.count,
                      .bucket_size = levels_->options.bucket_size,
                      .slot_bytes = levels_->slot_bytes,
                      .first_index = context.first_index,
                      .stream = {},
                      .strata = {},
                      .payload = payload_.data(),
                      .flags = flags_.data()};
  const Strata* const strata = codec::strata_for(levels_->options.rounding, context.strata);
  const auto block = static_cast<std::uint32_t>(context.first_index >> 32);
  const std::uint32_t blocks[] = {block, block | 0x80000000u, block + 1};
  for (std::size_t k = 0; k < 3; ++k) {
    const RandomStream stream(context.key, blocks[k], strata);
    job.stream[k] = {stream.first(), stream.second(), stream.multiplier(), stream.together()};
  }
  if (strata != nullptr) {
    auto& bases = strata_[strata];
    if (bases == nullptr) bases = std::make_unique<Array<std::uint32_t>>(queue_, strata->bases());
    job.strata = {bases->data(), strata->places(), strata->factor()};
  }
  queue_.run(job);
}

void DeviceCodec::start_signs(const Encoding& encoding) {
  const float* values = encoding.values;
  if (encoding.residual != nullptr) {
    queue_.run(AddValues{encoding.values, 1.0f, encoding.residual, encoding.count, nullptr});
    values = encoding.residual;
  }
  const std::size_t plane = plane_at(compressor_.id());
  queue_.run(EncodeSigns{values, encoding.count, payload_.data() + plane, flags_.data()});
  if (plane > 0) {
    queue_.run(MeanMagnitude{values, encoding.count, reinterpret_cast<float*>(payload_.data())});
  }
}

bool DeviceCodec::is_finite(const Encoding& encoding) {
  return (*encoding.flags & kNotFinite) == 0;
}

std::span<const std::byte> DeviceCodec::finish(const Encoding& encoding,
                                               std::vector<std::byte>& spare) {
  if (!is_finite(encoding)) fail_encoding(encoding);
  const CodecId id = compressor_.id();
  if (has_signs(id) && encoding.residual != nullptr) {
    const std::size_t plane = plane_at(id);
    const auto* const magnitude =
        plane > 0 ? reinterpret_cast<const float*>(payload_.data()) : nullptr;
    queue_.run(
        AddSigns{payload_.data() + plane, magnitude, -1.0f, encoding.residual, encoding.count});
  }
  if ((*encoding.flags & kIrregular) != 0) return compacted_levels(encoding, spare);
  return encoding.slots;
}

// Takes out the codes of buckets of zeros, and puts in the values of those with an infinite norm.
std::span<const std::byte> DeviceCodec::compacted_levels(const Encoding& encoding,
                                                         std::vector<std::byte>& spare) {
  spare.resize(compressor_.max_payload_bytes(encoding.count));
  std::size_t used = 0;
  bool downloads = false;
  for (std::size_t bucket = 0; bucket < levels_->buckets(encoding.count); ++bucket) {
    const std::byte* const slot = encoding.slots.data() + bucket * levels_->slot_bytes;
    const std::size_t count = levels_->in_bucket(bucket, encoding.count);
    const auto norm = load<float>(slot);
    std::byte* const to = spare.data() + used;
    used += kNormBytes;
    if (norm == kInfinity) {
      const std::size_t start = bucket * levels_->options.bucket_size;
      std::memcpy(to, slot, kNormBytes);
      const float* const from =
          (encoding.residual != nullptr ? encoding.residual : encoding.values) + start;
      downloads = true;
      queue_.download(to + kNormBytes, from, count * sizeof(float));
      if (encoding.residual != nullptr)
        queue_.clear(encoding.residual + start, count * sizeof(float));
      used += count * sizeof(float);
    } else {
      const std::size_t coded = norm == 0 ? 0 : levels_->coded(count);
      std::memcpy(to, slot, kNormBytes + coded);
      used += coded;
    }
  }
  if (downloads) queue_.wait();
  return std::span<const std::byte>(spare).first(used);
}

void DeviceCodec::start_encode(const float* values, float* residual, std::size_t count,
                               const codec::EncodeContext& context, std::span<std::byte> payload) {
  EQT_CHECK(payload.size() >= compressor_.max_payload_bytes(count),
            "a payload buffer of {} bytes for {} values", payload.size(), count);
  encoding_ = {};
  if (count > 0) encoding_ = queue(values, residual, count, context, payload, &found_);
}

std::size_t DeviceCodec::finish_encode() {
  if (encoding_.count == 0) return 0;
  queue_.wait();
  const std::span<const std::byte> payload = finish(encoding_, spare_);
  // The caller's buffer has room for any payload.
  if (payload.data() != encoding_.slots.data())
    std::memcpy(encoding_.slots.data(), payload.data(), payload.size());
  return payload.size();
}

// The compressor on the host says what is wrong with these values.
void DeviceCodec::fail_encoding(const Encoding& encoding) {
  std::vector<float> values(encoding.count);
  queue_.download(values.data(), encoding.residual != nullptr ? encoding.residual : encoding.values,
                  encoding.count * sizeof(float));
  queue_.wait();
  Workspace workspace;
  std::vector<std::byte> payload(compressor_.max_payload_bytes(encoding.count));
  const std::size_t bytes = compressor_.encode(values, encoding.context, workspace, payload);
  fail(Kind::bug, "compressor {}: the device refused values that the host encodes in {} bytes",
       codec::codec_name(compressor_.id()), bytes);
}

// Is the payload valid as far as its structure tells? Level codecs: finds the buckets.
bool DeviceCodec::find_buckets(std::span<const std::byte> payload, std::size_t count) {
  const CodecId id = compressor_.id();
  offsets_.clear();
  if (levels_ == nullptr) {
    if (payload.size() != compressor_.max_payload_bytes(count)) return false;
    if (has_signs(id)) {
      const auto magnitude = id == CodecId::ef_signsgd ? load<float>(payload.data()) : 0.0f;
      const bool is_clear = count % 8 == 0 || (payload.back() >> (count % 8)) == std::byte{0};
      return is_clear && std::isfinite(magnitude) && !std::signbit(magnitude);
    }
    if (id != CodecId::int8) return true;
    const std::size_t size = compressor_.properties().granule;
    for (std::size_t at = 0; at < payload.size(); at += sizeof(float) + size) {
      const auto step = load<float>(payload.data() + at);
      if (!(step <= 8454659 * 0x1p98f) || std::signbit(step)) return false;
    }
    return true;
  }
  const std::size_t buckets = levels_->buckets(count);
  std::uint64_t at = 0;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (payload.size() - at < kNormBytes) return false;
    const auto norm = load<float>(payload.data() + at);
    if (std::isnan(norm) || std::signbit(norm)) return false;
    const bool is_regular = norm != 0 && norm != kInfinity;
    if (!is_regular && offsets_.empty()) {
      for (std::size_t k = 0; k <= bucket; ++k) offsets_.push_back(k * levels_->slot_bytes);
    } else if (!offsets_.empty()) {
      offsets_.push_back(at);
    }
    const std::size_t in_bucket = levels_->in_bucket(bucket, count);
    const std::size_t coded = norm == 0           ? 0
                              : norm == kInfinity ? in_bucket * sizeof(float)
                                                  : levels_->coded(in_bucket);
    at += kNormBytes;
    if (payload.size() - at < coded) return false;
    at += coded;
  }
  return at == payload.size();
}

void DeviceCodec::start_decode_add(std::span<const std::byte> payload, float scale, float* sum,
                                   std::size_t count) {
  const CodecId id = compressor_.id();
  decoding_ = payload;
  decoded_count_ = count;
  if (count == 0 && payload.empty()) return;
  if (!find_buckets(payload, count)) fail_decoding();
  queue_.clear(flags_.data(), sizeof(std::uint32_t));
  queue_.upload(payload_.data(), payload.data(), payload.size());
  if (is_cast(id)) {
    queue_.run(AddCast{cast_kind(id), payload_.data(), scale, sum, count, flags_.data()});
  } else if (id == CodecId::int8) {
    queue_.run(AddInt8{payload_.data(), scale, sum, count, compressor_.properties().granule,
                       flags_.data()});
  } else if (has_signs(id)) {
    const std::size_t plane = plane_at(id);
    const auto* const magnitude =
        plane > 0 ? reinterpret_cast<const float*>(payload_.data()) : nullptr;
    queue_.run(AddSigns{payload_.data() + plane, magnitude, scale, sum, count});
  } else {
    const std::uint64_t* offsets = nullptr;
    if (!offsets_.empty()) {
      if (!device_offsets_ || device_offsets_->size() < offsets_.size()) {
        device_offsets_.emplace(queue_, offsets_.size());
      }
      offsets = device_offsets_->data();
      queue_.upload(device_offsets_->data(), offsets_.data(),
                    offsets_.size() * sizeof(std::uint64_t));
    }
    queue_.run(AddLevels{levels_->grid, payload_.data(), offsets, levels_->slot_bytes, scale, sum,
                         count, levels_->options.bucket_size, flags_.data()});
  }
  queue_.download(&found_, flags_.data(), sizeof found_);
}

void DeviceCodec::finish_decode_add() {
  if (decoded_count_ == 0) return;
  queue_.wait();
  if (found_ != 0) fail_decoding();
}

// The compressor on the host says what is wrong with this payload.
void DeviceCodec::fail_decoding() {
  std::vector<float> sum(decoded_count_);
  Workspace workspace;
  compressor_.decode_add(decoding_, 1.0f, workspace, sum);
  fail(Kind::bug, "compressor {}: the device refused a payload of {} bytes that the host decodes",
       codec::codec_name(compressor_.id()), decoding_.size());
}

}  // namespace eqt::device
