// SPDX-License-Identifier: Apache-2.0
// A reader of event files that shares no code with the writer: it checks frames bit by bit and
// reads protocol buffers as lists of fields.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::metrics::test {

/// By definition: polynomial division of the reflected bits.
inline std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("bytes are missing");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// A field's value: a number, or the bytes of a field with a length.
struct Field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;
  std::string bytes;
};

inline std::vector<Field> fields_of(std::string_view message) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number_at<std::uint8_t>(message, at++);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<Field> fields;
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field = {.number = static_cast<std::uint32_t>(key >> 3), .value = 0, .bytes = {}};
    if ((key & 7) == 0) field.value = varint();
    if ((key & 7) == 1) field.value = number_at<std::uint64_t>(message, at), at += 8;
    if ((key & 7) == 5) field.value = number_at<std::uint32_t>(message, at), at += 4;
    if ((key & 7) == 2) {
      const std::uint64_t size = varint();
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}

inline const Field* find(const std::vector<Field>& fields, std::uint32_t number) {
  for (const Field& field : fields)
    if (field.number == number) return &field;
  return nullptr;
}

/// An event as a reader sees it.
struct ReadEvent {
  double wall = 0;
  std::uint64_t step = 0;
  std::string version;
  bool restart = false;
  std::map<std::string, float> scalars;
  std::map<std::string, std::string> histograms, images, texts, plugins;  // by tag
};

inline void read_value(const std::vector<Field>& value, ReadEvent& event) {
  const std::string tag = find(value, 1)->bytes;
  if (const Field* f = find(value, 2))
    event.scalars[tag] = std::bit_cast<float>(static_cast<std::uint32_t>(f->value));
  if (const Field* f = find(value, 4)) event.images[tag] = find(fields_of(f->bytes), 4)->bytes;
  if (const Field* f = find(value, 5)) event.histograms[tag] = f->bytes;
  if (const Field* f = find(value, 9)) {
    event.plugins[tag] = find(fields_of(find(fields_of(f->bytes), 1)->bytes), 1)->bytes;
    const auto tensor = fields_of(find(value, 8)->bytes);
    if (const Field* text = find(tensor, 8)) event.texts[tag] = text->bytes;
  }
}

inline ReadEvent read_event(std::string_view bytes) {
  ReadEvent event;
  for (const Field& field : fields_of(bytes)) {
    if (field.number == 1) event.wall = std::bit_cast<double>(field.value);
    if (field.number == 2) event.step = field.value;
    if (field.number == 3) event.version = field.bytes;
    if (field.number == 7) event.restart = find(fields_of(field.bytes), 1)->value == 1;
    if (field.number == 5)
      for (const Field& value : fields_of(field.bytes)) read_value(fields_of(value.bytes), event);
  }
  return event;
}

/// @throws std::runtime_error where a frame is short or a checksum wrong
inline std::vector<ReadEvent> events_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto check = [&](std::string_view checked, std::size_t at) {
    const std::uint32_t crc = slow_crc32c(checked);
    if (number_at<std::uint32_t>(bytes, at) != ((crc >> 15) | (crc << 17)) + 0xA282EAD8)
      throw std::runtime_error("a checksum is wrong");
  };
  std::vector<ReadEvent> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = number_at<std::uint64_t>(bytes, at);
    check(std::string_view(bytes).substr(at, 8), at + 8);
    const auto event = std::string_view(bytes).substr(at + 12, size);
    check(event, at + 12 + size);
    events.push_back(read_event(event));
    at += size + 16;
  }
  return events;
}

}  // namespace eqt::metrics::test
