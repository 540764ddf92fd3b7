// SPDX-License-Identifier: Apache-2.0
// Reads and writes zip archives with libzip. Private to this room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/foreign_file.hpp"

struct zip;         // libzip's
struct zip_source;  // libzip's

namespace eqt::weights {

/// The records of an archive in memory. torch.save does not compress them, torch.jit.save only its
/// code. Compressed records are refused where weights are wanted, because they could be a thousand
/// times larger.
class ZipArchive {
 public:
  struct Record {
    std::string name;
    std::uint64_t index = 0;  // in the archive
    std::size_t bytes = 0;    // after decompression
    bool compressed = false;
  };

  /// Keeps references into `bytes`.
  /// @throws Error{data} unless libzip finds the archive consistent, every record is stored (of a
  /// script: or deflated), those that are stored have together no more bytes than the file, and no
  /// two have the same name
  ZipArchive(std::span<const std::byte> bytes, ForeignFile file);

  /// The records in the order of their names.
  std::span<const Record> records() const { return records_; }
  /// Null if there is none of that name.
  const Record* find(std::string_view name) const;
  /// The record's bytes.
  /// @throws Error{data} unless they are complete and have the record's checksum
  std::vector<std::byte> read(const Record& record) const;
  /// libzip's, for copies of records.
  zip* handle() const { return archive_.get(); }

 private:
  struct Discard {
    void operator()(zip* archive) const;
  };

  Record record_at(std::uint64_t index) const;

  ForeignFile file_;
  std::unique_ptr<zip, Discard> archive_;
  std::vector<Record> records_;
};

/// An archive in memory whose records are not compressed, each at a multiple of 64 bytes, as
/// LibTorch aligns storages.
class ZipWriter {
 public:
  ZipWriter();
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// The bytes must stay until finish().
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Adds a record that `fill` writes while finish() runs: one after the other, so that only one of
  /// them takes memory beside the archive. @pre fill throws nothing
  using Fill = std::function<void(std::span<std::byte>)>;
  void add(const std::string& name, std::size_t bytes, Fill fill);
  /// Another archive's record, which must stay until finish().
  void add(const std::string& name, const ZipArchive& archive, const ZipArchive::Record& record);

  std::string finish() &&;

 private:
  struct File;
  struct Filled;

  void require(bool done) const;
  void add(const std::string& name, zip_source* source, std::size_t bytes);
  void pad(std::uint64_t index, std::size_t name_bytes);

  std::unique_ptr<File> file_;
  std::vector<std::unique_ptr<Filled>> filled_;
  zip* archive_ = nullptr;
  std::size_t at_ = 0;           // [bytes] where the next record begins
  std::size_t directory_ = 128;  // [bytes] of the list of records, at most
};

}  // namespace eqt::weights
