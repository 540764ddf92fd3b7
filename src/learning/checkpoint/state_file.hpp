// SPDX-License-Identifier: Apache-2.0
// One rank's state as bytes: named sections with hashes. docs/checkpoints.md describes the layout.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"

namespace eqt::checkpoint {

/// Increased when files change so that older programs cannot read them.
inline constexpr std::uint32_t kFormatVersion = 2;

/// Longest name of a section [bytes].
inline constexpr std::size_t kLongestName = 256;

/// Identifies the state in a file.
struct FileHead {
  Rank rank = 0;
  int ranks = 1;
  StepId step = 0;        // completed
  std::uint64_t set = 0;  // a random number for each save, the same in all its files

  bool operator==(const FileHead&) const = default;
};

enum class SectionKind : std::uint8_t {
  floats,   // float32
  doubles,  // float64
  numbers,  // uint64
  places,   // bytes, see write_places()
  text      // UTF-8
};

/// Returns the size of one element [bytes].
std::size_t element_bytes(SectionKind kind) noexcept;

/// A part of the state; name and bytes are in the file's memory.
struct Section {
  std::string_view name;
  SectionKind kind = SectionKind::text;
  Across across = Across::same;
  std::span<const std::byte> bytes;

  std::size_t count() const noexcept { return bytes.size() / element_bytes(kind); }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// Builds a file in memory, which is reused for the next one. Appending copies; slower work is done
/// by finish(), which any thread may call.
class StateImage {
 public:
  /// Removes the old contents. @param bytes how many will be appended, if known
  void begin(const FileHead& head, std::size_t bytes);
  /// @pre a new name, of 1 to kLongestName bytes
  void append(std::string_view name, SectionKind kind, Across across,
              std::span<const std::byte> bytes);
  /// Computes all hashes. Returns the whole file, valid until begin(); long ones begin at a page of
  /// memory.
  std::span<const std::byte> finish();
  /// The hash of the file, computed by finish(). It identifies files in a manifest.
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  struct Entry {
    std::string name;
    SectionKind kind;
    Across across;
    std::size_t begin, bytes;  // in memory_
  };

  void put(std::span<const std::byte> bytes);

  FileHead head_;
  std::vector<Entry> entries_;
  LongArray<std::byte> memory_;
  std::size_t size_ = 0, capacity_ = 0;
  std::uint64_t hash_ = 0;
};

/// A file that was read, as a view of its bytes.
class StateFile {
 public:
  /// Checks every length against bytes.size() before it is used, and every hash. Allocates less
  /// than four times the table of sections.
  /// @param origin the file, for error messages
  /// @throws Error{data} unless the bytes are exactly as StateImage makes them
  StateFile(std::span<const std::byte> bytes, std::string_view origin);

  const FileHead& head() const noexcept { return head_; }
  std::uint64_t hash() const noexcept { return hash_; }
  const std::vector<Section>& sections() const noexcept { return sections_; }
  /// nullptr if there is none of this name.
  const Section* find(std::string_view name) const noexcept;

 private:
  FileHead head_;
  std::vector<Section> sections_;  // ascending by name
  std::uint64_t hash_ = 0;
};

/// The number of bytes that read_head() needs.
std::size_t head_bytes() noexcept;

/// True if a file with this beginning was written as a state file, damaged or not.
bool begins_like_one(std::span<const std::byte> bytes) noexcept;

/// Reads the head of a state file, but not the state.
/// @param bytes the first head_bytes() of a file, or all of it if it is shorter
/// @param file_bytes its length
/// @throws Error{data} if this is not the head of a file of this length
FileHead read_head(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                   std::string_view origin);
/// The file's hash, as StateFile::hash(). @pre read_head() has read these bytes
std::uint64_t hash_in_head(std::span<const std::byte> bytes);

}  // namespace eqt::checkpoint
