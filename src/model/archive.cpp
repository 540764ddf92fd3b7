#include "model/archive.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string_view>

#include "core/error.hpp"

namespace eqt::model {
namespace {

constexpr std::size_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56, kEntryBytes = 46;
constexpr std::uint32_t kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the field is in the 64-bit extension
constexpr std::uint64_t kLongestDirectory = std::uint64_t{64} << 20;  // [bytes]

/// The little-endian number of `bytes` bytes at `at`. @pre it is there
std::uint64_t number(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

class Archive {
 public:
  explicit Archive(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    file_.seekg(0, std::ios::end);
    const auto end = file_.tellg();
    if (!file_ || end < 0) refuse("it cannot be read");
    size_ = static_cast<std::uint64_t>(end);
  }

  void require_stored_records() {
    const Directory directory = find_directory();
    if (directory.begin > size_ || directory.bytes > size_ - directory.begin ||
        directory.bytes > kLongestDirectory)
      refuse("its directory does not lie in the file");
    const std::string entries = read(directory.begin, directory.bytes);
    std::uint64_t stored = 0;
    for (std::size_t at = 0; at < entries.size();) {
      if (entries.size() - at < kEntryBytes || number(entries, at, 4) != kEntryMark)
        refuse("its directory is damaged");
      const std::size_t name = number(entries, at + 28, 2), extra = number(entries, at + 30, 2);
      const std::size_t bytes = kEntryBytes + name + extra + number(entries, at + 32, 2);
      if (bytes > entries.size() - at) refuse("its directory ends too early");
      stored += stored_bytes(std::string_view(entries).substr(at, bytes), name, extra);
      if (stored > size_) refuse("its records are longer than the file");
      at += bytes;
    }
  }

 private:
  struct Directory {
    std::uint64_t begin = 0, bytes = 0;
  };

  [[noreturn]] void refuse(std::string_view reason) const {
    fail(Kind::data,
         "expected an archive of stored records, as torch.save writes it, in the weights file {}, "
         "but {}; in Python, write it with torch.save(dict(model.state_dict()), path)",
         path_, reason);
  }

  std::string read(std::uint64_t at, std::uint64_t bytes) {
    std::string text(static_cast<std::size_t>(bytes), '\0');
    file_.seekg(static_cast<std::streamoff>(at));
    file_.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file_) refuse("it cannot be read");
    return text;
  }

  Directory find_directory() {
    const std::uint64_t tail_bytes = std::min<std::uint64_t>(size_, kEndBytes + kLongestComment);
    const std::string tail = read(size_ - tail_bytes, tail_bytes);
    const std::size_t at = tail.rfind("PK\x05\x06");
    if (at == std::string::npos || tail.size() - at < kEndBytes) refuse("it is no zip archive");
    const std::uint64_t end = size_ - tail_bytes + at;
    if (end >= kLocatorBytes) {
      const std::string locator = read(end - kLocatorBytes, kLocatorBytes);
      if (number(locator, 0, 4) == kLocatorMark) return long_directory(number(locator, 8, 8));
    }
    return {number(tail, at + 16, 4), number(tail, at + 12, 4)};
  }

  Directory long_directory(std::uint64_t at) {
    if (size_ < kEnd64Bytes || at > size_ - kEnd64Bytes) refuse("its directory is not in the file");
    const std::string end = read(at, kEnd64Bytes);
    if (number(end, 0, 4) != kEnd64Mark) refuse("its directory is damaged");
    return {number(end, 48, 8), number(end, 40, 8)};
  }

  /// What the record holds, in the file as in memory.
  std::uint64_t stored_bytes(std::string_view entry, std::size_t name, std::size_t extra) const {
    if (number(entry, 10, 2) != 0) refuse("a record is compressed");
    std::uint64_t in_file = number(entry, 20, 4), in_memory = number(entry, 24, 4);
    const std::string_view fields = entry.substr(kEntryBytes + name, extra);
    for (std::size_t at = 0; fields.size() - at >= 4;) {
      const std::size_t bytes = number(fields, at + 2, 2);
      if (bytes > fields.size() - at - 4) refuse("its directory is damaged");
      std::size_t field = at + 4;
      for (std::uint64_t* const length : {&in_memory, &in_file}) {
        if (number(fields, at, 2) != 1 || *length != kIn64) continue;
        if (at + 4 + bytes < field + 8) refuse("its directory is damaged");
        *length = number(fields, field, 8);
        field += 8;
      }
      at += 4 + bytes;
    }
    if (in_file != in_memory) refuse("a record is not as long as it says");
    return in_file;
  }

  const std::string& path_;
  std::ifstream file_;
  std::uint64_t size_ = 0;
};

}  // namespace

void require_stored_records(const std::string& path) { Archive(path).require_stored_records(); }

}  // namespace eqt::model
