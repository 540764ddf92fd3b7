// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_bytes.hpp"

#include <isa-l/crc.h>
#include <png.h>

#include <bit>
#include <cstddef>
#include <limits>

#include "core/error.hpp"

namespace eqt::metrics {
namespace {

/// One message; fields appear in the order of the calls.
class ProtoMessage {
 public:
  ProtoMessage& varint(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    append_varint(value);
    return *this;
  }
  ProtoMessage& real(std::uint32_t field, double value) {
    key(field, 1);
    append_little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real32(std::uint32_t field, float value) {
    key(field, 5);
    append_little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  ProtoMessage& bytes(std::uint32_t field, std::string_view value) {
    key(field, 2);
    append_varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) {
    return bytes(field, value.bytes_);
  }
  /// A packed repeated double.
  ProtoMessage& reals(std::uint32_t field, std::span<const double> values) {
    key(field, 2);
    append_varint(values.size() * sizeof(double));
    for (const double value : values) append_little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }

  const std::string& str() const noexcept { return bytes_; }

 private:
  void key(std::uint32_t field, std::uint32_t wire_type) { append_varint(field << 3 | wire_type); }

  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80u | (value & 0x7Fu));
    bytes_ += static_cast<char>(value);
  }

  template <typename Unsigned>
  void append_little_endian(Unsigned value) {
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
      bytes_ += static_cast<char>(value >> (8 * i) & 0xFFu);
    }
  }

  std::string bytes_;
};

// TensorFlow's DataType.
constexpr std::uint64_t kFloatType = 1, kStringType = 7;
// SummaryMetadata's DataClass.
constexpr std::uint64_t kTensorClass = 2;
// SessionLog's SessionStatus, and Status of the plugin hparams.
constexpr std::uint64_t kStart = 1, kSuccess = 1;

void append_little_endian(std::uint64_t value, std::size_t bytes, std::string& to) {
  for (std::size_t i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFFu);
}

/// Masked, so that the checksum of bytes that contain their own checksum is not trivial.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

ProtoMessage timed(const EventTime& time) {
  ProtoMessage event;
  event.real(1, time.wall);
  if (time.step > 0) event.varint(2, time.step);
  return event;
}

std::string summary_event(const EventTime& time, const ProtoMessage& value) {
  return timed(time).message(5, ProtoMessage().message(1, value)).str();
}

ProtoMessage metadata_of(std::string_view plugin, std::string_view content, std::uint64_t type) {
  ProtoMessage data;
  data.bytes(1, plugin);
  if (!content.empty()) data.bytes(2, content);
  ProtoMessage metadata;
  metadata.message(1, data);
  if (type != 0) metadata.varint(4, type);
  return metadata;
}

ProtoMessage protobuf_value(const Setting& setting) {
  if (setting.type == Setting::Type::text) return ProtoMessage().bytes(3, setting.text);
  if (setting.type == Setting::Type::flag)
    return ProtoMessage().varint(4, setting.number != 0 ? 1 : 0);
  return ProtoMessage().real(2, setting.number);
}

/// @param field of HParamsPluginData
std::string hparams_event(double wall, std::string_view tag, std::uint32_t field,
                          const ProtoMessage& info) {
  const ProtoMessage content = ProtoMessage().message(field, info);
  // Readers drop a value without a tensor, so this one has a tensor without numbers.
  const ProtoMessage no_numbers = ProtoMessage().message(2, {});
  const ProtoMessage nothing = ProtoMessage().varint(1, kFloatType).message(2, no_numbers);
  return summary_event({.wall = wall}, ProtoMessage()
                                           .bytes(1, tag)
                                           .message(8, nothing)
                                           .message(9, metadata_of("hparams", content.str(), 0)));
}

}  // namespace

std::string framed(std::string_view event) {
  std::string frame;
  frame.reserve(event.size() + 16);
  append_little_endian(event.size(), 8, frame);
  append_little_endian(masked(crc32c(frame)), 4, frame);
  frame += event;
  append_little_endian(masked(crc32c(event)), 4, frame);
  return frame;
}

std::string version_event(double wall) {
  return timed({.wall = wall}).bytes(3, "brain.Event:2").str();
}

std::string restart_event(const EventTime& time) {
  return timed(time).message(7, ProtoMessage().varint(1, kStart)).str();
}

std::string scalars_event(const EventTime& time, std::span<const Scalar> scalars) {
  ProtoMessage summary;
  for (const Scalar& scalar : scalars) {
    summary.message(
        1, ProtoMessage().bytes(1, scalar.tag).real32(2, static_cast<float>(scalar.value)));
  }
  return timed(time).message(5, summary).str();
}

std::string histogram_event(double wall, const HistogramRecord& record) {
  double number = 0;
  for (const double count : record.counts) number += count;
  ProtoMessage histogram;
  histogram.real(1, record.least)
      .real(2, record.most)
      .real(3, number)
      .real(4, record.sum)
      .real(5, record.sum_squares)
      .reals(6, record.upper_limits)
      .reals(7, record.counts);
  return summary_event({.wall = wall, .step = record.step},
                       ProtoMessage().bytes(1, record.name).message(5, histogram));
}

std::string image_event(double wall, const ImageRecord& record, std::string_view png) {
  ProtoMessage image;
  image.varint(1, static_cast<std::uint64_t>(record.height))
      .varint(2, static_cast<std::uint64_t>(record.width))
      .varint(3, static_cast<std::uint64_t>(record.channels))
      .bytes(4, png);
  return summary_event({.wall = wall, .step = record.step},
                       ProtoMessage().bytes(1, record.name).message(4, image));
}

std::string text_event(const EventTime& time, std::string_view tag, std::string_view text) {
  const ProtoMessage shape = ProtoMessage().message(2, ProtoMessage().varint(1, 1));
  const ProtoMessage tensor =
      ProtoMessage().varint(1, kStringType).message(2, shape).bytes(8, text);
  return summary_event(time, ProtoMessage().bytes(1, tag).message(8, tensor).message(
                                 9, metadata_of("text", "", kTensorClass)));
}

std::string settings_event(double wall, std::span<const Setting> settings) {
  ProtoMessage info;
  for (const Setting& setting : settings) {
    info.message(1, ProtoMessage().bytes(1, setting.name).message(2, protobuf_value(setting)));
  }
  info.real(5, wall);
  return hparams_event(wall, "_hparams_/session_start_info", 3, info);
}

std::string success_event(double wall) {
  return hparams_event(wall, "_hparams_/session_end_info", 4,
                       ProtoMessage().varint(1, kSuccess).real(2, wall));
}

std::string png_of(const ImageRecord& image) {
  EQT_CHECK(image.channels == 1 || image.channels == 3, "an image of {} channels", image.channels);
  const auto values = static_cast<std::size_t>(image.width) *
                      static_cast<std::size_t>(image.height) *
                      static_cast<std::size_t>(image.channels);
  EQT_CHECK(image.pixels.size() == values, "{} values for an image of {}", image.pixels.size(),
            values);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string png(bytes, '\0');
  const int written =
      png_image_write_to_memory(&header, png.data(), &bytes, 0, image.pixels.data(), 0, nullptr);
  EQT_CHECK(written != 0, "libpng: {}", header.message);
  png.resize(bytes);
  return png;
}

std::uint32_t crc32c(std::string_view bytes) {
  EQT_CHECK(bytes.size() <= std::numeric_limits<int>::max(), "{} bytes at once", bytes.size());
  // The library's function only reads, although its parameter is not const.
  auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), 0xFFFFFFFFu);
}

}  // namespace eqt::metrics
