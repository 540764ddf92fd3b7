// SPDX-License-Identifier: Apache-2.0
// Reads zip archives with libzip.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/refuse.hpp"

struct zip;  // libzip's

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

}  // namespace eqt::weights
