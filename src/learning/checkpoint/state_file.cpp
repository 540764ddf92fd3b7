// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/error.hpp"

namespace eqt::checkpoint {
namespace {

constexpr std::array<char, 8> kMagic = {'E', 'Q', 'T', 'S', 'T', 'A', 'T', 'E'};
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::size_t kHeadBytes = 72;
constexpr std::size_t kMinCapacity = 4096;

/// The head as in the file, without its last hash.
struct RawHead {
  std::array<char, 8> magic = kMagic;
  std::uint32_t byte_order = kByteOrder;
  std::uint32_t version = kFormatVersion;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint64_t step = 0;
  std::uint64_t set = 0;
  std::uint64_t table_begin = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t table_hash = 0;
};
static_assert(sizeof(RawHead) == kHeadBytes - sizeof(std::uint64_t));
static_assert(std::has_unique_object_representations_v<RawHead>);

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Reads values from the front of a table that may contain anything.
class TableReader {
 public:
  TableReader(std::span<const std::byte> bytes, std::string_view origin)
      : rest_(bytes), origin_(origin) {}

  bool done() const noexcept { return rest_.empty(); }
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) {
      fail(Kind::data,
           "{}: expected {} more bytes in the table of sections, found {}; the file is "
           "damaged, resume from another checkpoint",
           origin_, count, rest_.size());
    }
    const auto front = rest_.first(count);
    rest_ = rest_.subspan(count);
    return front;
  }
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> rest_;
  std::string_view origin_;
};

[[noreturn]] void damaged(std::string_view origin, std::string_view what) {
  fail(Kind::data, "{}: expected a checkpoint's file, found {}; resume from another checkpoint",
       origin, what);
}

RawHead checked_head(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                     std::string_view origin) {
  if (bytes.size() < kHeadBytes) {
    fail(Kind::data,
         "{}: expected at least {} bytes, found {}; the file is cut off, resume from "
         "another checkpoint",
         origin, kHeadBytes, bytes.size());
  }
  RawHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.magic != kMagic) damaged(origin, "other bytes at its beginning");
  if (head.byte_order != kByteOrder) {
    damaged(origin, "one of a host with another byte order, or a damaged one");
  }
  if (head.version != kFormatVersion) {
    fail(Kind::data,
         "{}: expected format version {}, found {}; resume with the equant-train that "
         "wrote it",
         origin, kFormatVersion, head.version);
  }
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + sizeof(head), sizeof(hash));
  if (hash != hash_of(bytes_of(head))) damaged(origin, "a head that does not match its hash");
  if (head.file_bytes != file_bytes) {
    fail(Kind::data,
         "{}: expected {} bytes, found {}; the file is damaged, resume from another "
         "checkpoint",
         origin, head.file_bytes, file_bytes);
  }
  const bool table_fits = head.table_begin >= kHeadBytes && head.table_begin <= file_bytes;
  constexpr auto kMost = static_cast<std::uint32_t>(std::numeric_limits<Rank>::max());
  if (!table_fits || head.ranks == 0 || head.ranks > kMost || head.rank >= head.ranks) {
    damaged(origin, "a head that cannot be");
  }
  return head;
}

FileHead head_of(const RawHead& raw) {
  return {.rank = static_cast<Rank>(raw.rank),
          .ranks = static_cast<int>(raw.ranks),
          .step = raw.step,
          .set = raw.set};
}

}  // namespace

std::size_t element_bytes(SectionKind kind) noexcept {
  switch (kind) {
    case SectionKind::floats:
      return sizeof(float);
    case SectionKind::doubles:
      return sizeof(double);
    case SectionKind::numbers:
      return sizeof(std::uint64_t);
    case SectionKind::places:
    case SectionKind::text:
      break;
  }
  return 1;
}

void StateImage::begin(const FileHead& head, std::size_t bytes) {
  head_ = head;
  entries_.clear();
  size_ = 0;
  hash_ = 0;
  const std::size_t wanted = std::max(kMinCapacity, kHeadBytes + bytes);
  if (wanted > capacity_) {
    memory_ = make_long_array<std::byte>(wanted);
    capacity_ = wanted;
  }
  size_ = kHeadBytes;
}

void StateImage::put(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > capacity_ - size_) {
    const std::size_t grown = std::max(2 * capacity_, size_ + bytes.size());
    auto memory = make_long_array<std::byte>(grown);
    std::memcpy(memory.get(), memory_.get(), size_);
    memory_ = std::move(memory);
    capacity_ = grown;
  }
  std::memcpy(memory_.get() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

void StateImage::append(std::string_view name, SectionKind kind, Across across,
                        std::span<const std::byte> bytes) {
  EQT_CHECK(!name.empty() && name.size() <= kLongestName, "a section called {}", name);
  EQT_CHECK(std::ranges::find(entries_, name, &Entry::name) == entries_.end(),
            "two sections called {}", name);
  entries_.push_back({std::string(name), kind, across, size_, bytes.size()});
  put(bytes);
}

std::span<const std::byte> StateImage::finish() {
  RawHead head;
  head.rank = static_cast<std::uint32_t>(head_.rank);
  head.ranks = static_cast<std::uint32_t>(head_.ranks);
  head.step = head_.step;
  head.set = head_.set;
  head.table_begin = size_;
  for (const Entry& entry : entries_) {
    const std::span<const std::byte> bytes(memory_.get() + entry.begin, entry.bytes);
    const std::uint64_t count = entry.bytes, hash = hash_of(bytes);
    const auto name_bytes = static_cast<std::uint16_t>(entry.name.size());
    put(bytes_of(entry.kind));
    put(bytes_of(entry.across));
    put(bytes_of(name_bytes));
    put(bytes_of(count));
    put(bytes_of(hash));
    put(std::as_bytes(std::span(entry.name)));
  }
  head.file_bytes = size_;
  head.table_hash = hash_of({memory_.get() + head.table_begin, size_ - head.table_begin});
  hash_ = hash_of(bytes_of(head));
  std::memcpy(memory_.get(), &head, sizeof(head));
  std::memcpy(memory_.get() + sizeof(head), &hash_, sizeof(hash_));
  return {memory_.get(), size_};
}

StateFile::StateFile(std::span<const std::byte> bytes, std::string_view origin) {
  const RawHead head = checked_head(bytes, bytes.size(), origin);
  head_ = head_of(head);
  hash_ = hash_in_head(bytes);
  const auto table = bytes.subspan(static_cast<std::size_t>(head.table_begin));
  if (hash_of(table) != head.table_hash) damaged(origin, "a table that does not match its hash");

  TableReader reader(table, origin);
  std::size_t at = kHeadBytes;
  const auto end = static_cast<std::size_t>(head.table_begin);
  while (!reader.done()) {
    const auto kind = reader.take<std::uint8_t>();
    const auto across = reader.take<std::uint8_t>();
    const auto name_bytes = reader.take<std::uint16_t>();
    const auto section_bytes = reader.take<std::uint64_t>();
    const auto hash = reader.take<std::uint64_t>();
    if (kind > static_cast<std::uint8_t>(SectionKind::text) ||
        across > static_cast<std::uint8_t>(Across::fresh) || name_bytes == 0 ||
        name_bytes > kLongestName || section_bytes > end - at) {
      damaged(origin, "a section that cannot be");
    }
    const auto name = reader.take(name_bytes);
    Section section;
    section.name = {reinterpret_cast<const char*>(name.data()), name.size()};
    section.kind = static_cast<SectionKind>(kind);
    section.across = static_cast<Across>(across);
    section.bytes = bytes.subspan(at, static_cast<std::size_t>(section_bytes));
    if (section.bytes.size() % element_bytes(section.kind) != 0) {
      damaged(origin, "a section that ends within a number");
    }
    if (hash_of(section.bytes) != hash) {
      fail(Kind::data,
           "{}: expected \"{}\" to match its hash, found other bytes; the file is "
           "damaged, resume from another checkpoint",
           origin, section.name);
    }
    at += section.bytes.size();
    sections_.push_back(section);
  }
  if (at != end) damaged(origin, "bytes that belong to no section");
  std::ranges::sort(sections_, {}, &Section::name);
  if (std::ranges::adjacent_find(sections_, {}, &Section::name) != sections_.end()) {
    damaged(origin, "two sections of one name");
  }
}

const Section* StateFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(sections_, name, {}, &Section::name);
  return found != sections_.end() && found->name == name ? &*found : nullptr;
}

std::size_t head_bytes() noexcept { return kHeadBytes; }

bool begins_like_one(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::uint64_t hash_in_head(std::span<const std::byte> bytes) {
  EQT_CHECK(bytes.size() >= kHeadBytes, "{} bytes of a head", bytes.size());
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + sizeof(RawHead), sizeof(hash));
  return hash;
}

FileHead read_head(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                   std::string_view origin) {
  return head_of(checked_head(bytes.first(std::min(bytes.size(), kHeadBytes)), file_bytes, origin));
}

}  // namespace eqt::checkpoint
