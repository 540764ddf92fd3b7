// Zip archives from outside, of which nothing is believed before it is checked.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::weights {

/// The records of an archive in memory. torch.save stores them as they are; one that is compressed
/// could grow a thousandfold and is refused.
/// Format: PKWARE's APPNOTE.TXT 6.3, 4.3.7 and 4.3.12 to 4.3.16, with the 64-bit fields (4.5.3).
class ZipArchive {
 public:
  struct Record {
    std::string_view name;
    std::span<const std::byte> bytes;
    std::uint32_t checksum = 0;  // what the directory says of them
    std::size_t begin = 0;       // of its header in the file
  };

  /// Keeps references into `file` and to `path`, which is for sentences.
  /// @throws Error{data} unless every record is stored, lies in the file and shares no byte with
  /// another or the directory, and no two have the same name
  ZipArchive(std::span<const std::byte> file, const std::string& path);

  /// In the order of their names.
  std::span<const Record> records() const { return records_; }
  /// Null if there is none of that name.
  const Record* find(std::string_view name) const;
  /// @throws Error{data} unless the record's bytes have its checksum
  void check(const Record& record) const;

 private:
  struct Directory {
    std::uint64_t begin = 0, bytes = 0, entries = 0;
  };

  Directory find_directory() const;
  Directory long_directory(std::uint64_t at) const;
  std::size_t read_entry(std::span<const std::byte> entries, std::size_t at);
  void place(Record& record, std::uint64_t bytes, std::uint64_t directory) const;
  void check_overlaps() const;

  std::span<const std::byte> file_;
  const std::string& path_;
  Directory directory_;
  std::vector<Record> records_;
};

}  // namespace eqt::weights
