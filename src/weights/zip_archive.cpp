#include "weights/zip_archive.hpp"

#include <zlib.h>

#include <algorithm>

#include "weights/little_endian.hpp"
#include "weights/refuse.hpp"

namespace eqt::weights {
namespace {

constexpr std::size_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56, kEntryBytes = 46, kHeaderBytes = 30;
constexpr std::uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50, kHeaderMark = 0x04034b50;
constexpr std::uint64_t kIn64 = 0xFFFFFFFF;     // the field is in the 64-bit extension
constexpr std::uint64_t kEncrypted = 1;         // flag
constexpr std::size_t kMostRecords = 1u << 18;  // [records] far above what networks have

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> file, const std::string& path)
    : file_(file), path_(path), directory_(find_directory()) {
  if (directory_.begin > file_.size() || directory_.bytes > file_.size() - directory_.begin)
    refuse(path_, "its directory does not lie in the file");
  const auto entries = file_.subspan(directory_.begin, directory_.bytes);
  for (std::size_t at = 0; at < entries.size();) {
    if (records_.size() == kMostRecords)
      refuse(path_, "its directory has more than {} records", kMostRecords);
    at += read_entry(entries, at);
  }
  if (records_.size() != directory_.entries)
    refuse(path_, "its directory has {} records instead of {}", records_.size(),
           directory_.entries);
  check_overlaps();
  std::ranges::sort(records_, {}, &Record::name);
  const auto twice = std::ranges::adjacent_find(records_, {}, &Record::name);
  if (twice != records_.end()) refuse(path_, "it has two records named {}", printable(twice->name));
}

const ZipArchive::Record* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(records_, name, {}, &Record::name);
  return found != records_.end() && found->name == name ? &*found : nullptr;
}

void ZipArchive::check(const Record& record) const {
  const auto* const bytes = reinterpret_cast<const Bytef*>(record.bytes.data());
  if (crc32_z(crc32_z(0, nullptr, 0), bytes, record.bytes.size()) != record.checksum)
    refuse(path_, "its record {} is damaged: the checksum differs", printable(record.name));
}

ZipArchive::Directory ZipArchive::find_directory() const {
  if (file_.size() >= kEndBytes) {
    const std::size_t last = file_.size() - kEndBytes;
    const std::size_t first = last - std::min(last, kLongestComment);
    for (std::size_t at = last + 1; at-- > first;) {
      if (little_endian(file_, at, 4) != kEndMark || little_endian(file_, at + 20, 2) != last - at)
        continue;
      if (at >= kLocatorBytes && little_endian(file_, at - kLocatorBytes, 4) == kLocatorMark)
        return long_directory(little_endian(file_, at - kLocatorBytes + 8, 8));
      return {little_endian(file_, at + 16, 4), little_endian(file_, at + 12, 4),
              little_endian(file_, at + 10, 2)};
    }
  }
  refuse(path_, "it is no whole zip archive");
}

ZipArchive::Directory ZipArchive::long_directory(std::uint64_t at) const {
  if (file_.size() < kEnd64Bytes || at > file_.size() - kEnd64Bytes)
    refuse(path_, "its directory does not lie in the file");
  if (little_endian(file_, at, 4) != kEnd64Mark) refuse(path_, "its directory is damaged");
  return {little_endian(file_, at + 48, 8), little_endian(file_, at + 40, 8),
          little_endian(file_, at + 32, 8)};
}

/// Returns the bytes of the entry.
std::size_t ZipArchive::read_entry(std::span<const std::byte> entries, std::size_t at) {
  if (entries.size() - at < kEntryBytes || little_endian(entries, at, 4) != kEntryMark)
    refuse(path_, "its directory is damaged");
  const std::size_t name = little_endian(entries, at + 28, 2);
  const std::size_t extra = little_endian(entries, at + 30, 2);
  const std::size_t bytes = kEntryBytes + name + extra + little_endian(entries, at + 32, 2);
  if (bytes > entries.size() - at) refuse(path_, "its directory ends too early");
  Record record;
  record.name = text_of(entries.subspan(at + kEntryBytes, name));
  record.checksum = static_cast<std::uint32_t>(little_endian(entries, at + 16, 4));
  if ((little_endian(entries, at + 8, 2) & kEncrypted) != 0)
    refuse(path_, "its record {} is encrypted", printable(record.name));
  if (little_endian(entries, at + 10, 2) != 0)
    refuse(path_, "its record {} is compressed", printable(record.name));

  std::uint64_t in_file = little_endian(entries, at + 20, 4);
  std::uint64_t in_memory = little_endian(entries, at + 24, 4);
  std::uint64_t begin = little_endian(entries, at + 42, 4);
  const auto fields = entries.subspan(at + kEntryBytes + name, extra);
  for (std::size_t field = 0; fields.size() - field >= 4;) {
    const std::size_t length = little_endian(fields, field + 2, 2), value = field + 4;
    if (length > fields.size() - value) refuse(path_, "its directory is damaged");
    if (little_endian(fields, field, 2) == 1) {
      std::size_t next = value;
      for (std::uint64_t* const number : {&in_memory, &in_file, &begin}) {
        if (*number != kIn64) continue;
        if (value + length - next < 8) refuse(path_, "its directory is damaged");
        *number = little_endian(fields, next, 8);
        next += 8;
      }
    }
    field = value + length;
  }
  if (in_file != in_memory)
    refuse(path_, "its record {} is not as long as it says", printable(record.name));
  place(record, in_file, begin);
  records_.push_back(record);
  return bytes;
}

/// Finds the record's bytes behind its header at `begin`.
void ZipArchive::place(Record& record, std::uint64_t bytes, std::uint64_t begin) const {
  const std::uint64_t end = directory_.begin;
  if (end < kHeaderBytes || begin > end - kHeaderBytes)
    refuse(path_, "its record {} does not lie in the file", printable(record.name));
  if (little_endian(file_, begin, 4) != kHeaderMark)
    refuse(path_, "the header of its record {} is damaged", printable(record.name));
  const std::uint64_t name = little_endian(file_, begin + 26, 2);
  const std::uint64_t data = begin + kHeaderBytes + name + little_endian(file_, begin + 28, 2);
  if (data > end || bytes > end - data)
    refuse(path_, "its record {} is longer than the file", printable(record.name));
  if (text_of(file_.subspan(begin + kHeaderBytes, name)) != record.name)
    refuse(path_, "the header of its record {} has another name", printable(record.name));
  record.begin = begin;
  record.bytes = file_.subspan(data, bytes);
}

void ZipArchive::check_overlaps() const {
  std::vector<const Record*> in_file;
  for (const Record& record : records_) in_file.push_back(&record);
  std::ranges::sort(in_file, {}, [](const Record* record) { return record->begin; });
  for (std::size_t i = 1; i < in_file.size(); ++i) {
    const auto* const next = file_.data() + in_file[i]->begin;
    const auto bytes = in_file[i - 1]->bytes;
    if (bytes.data() + bytes.size() > next)
      refuse(path_, "its records {} and {} overlap", printable(in_file[i - 1]->name),
             printable(in_file[i]->name));
  }
}

}  // namespace eqt::weights
