// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saving_visitor.hpp"

#include <cstdint>
#include <limits>
#include <span>

#include "core/error.hpp"

namespace eqt::checkpoint {
namespace {

constexpr unsigned kBits = 7, kMore = 0x80, kLow = 0x7F;
constexpr int kMaxBytes = 10;  // of a varint of 64 bits
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 62;

void put(std::uint64_t value, std::vector<std::byte>& bytes) {
  for (; value > kLow; value >>= kBits) bytes.push_back(static_cast<std::byte>(value | kMore));
  bytes.push_back(static_cast<std::byte>(value));
}

std::uint64_t folded(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t unfolded(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view origin)
      : rest_(bytes), origin_(origin) {}

  bool done() const noexcept { return rest_.empty(); }

  /// Reads a number, which must be below kFarthest.
  std::uint64_t take() {
    std::uint64_t value = 0;
    for (int i = 0; i < kMaxBytes && !rest_.empty(); ++i) {
      const auto byte = static_cast<unsigned>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= std::uint64_t{byte & kLow} << (kBits * static_cast<unsigned>(i));
      if ((byte & kMore) == 0 && value < kFarthest) return value;
      if ((byte & kMore) == 0) break;
    }
    damaged();
  }

  /// @return base + a signed number, at least 0 and below kFarthest
  std::uint64_t take_from(std::uint64_t base) {
    const std::int64_t value = static_cast<std::int64_t>(base) + unfolded(take());
    if (value < 0 || static_cast<std::uint64_t>(value) >= kFarthest) damaged();
    return static_cast<std::uint64_t>(value);
  }

  [[noreturn]] void damaged() const {
    fail(Kind::data,
         "{}: expected a list of places, found one that cannot be; resume from another "
         "checkpoint",
         origin_);
  }

 private:
  std::span<const std::byte> rest_;
  std::string_view origin_;
};

}  // namespace

std::vector<std::byte> write_places(std::span<const SliceRange> ranges) {
  std::vector<std::byte> bytes;
  std::int64_t slice = 0, end = 0;
  for (const SliceRange& range : ranges) {
    const std::int64_t next_slice = range.slice;
    const auto first = static_cast<std::int64_t>(range.first);
    if (next_slice != slice) end = 0;
    put(folded(next_slice - slice), bytes);
    put(folded(first - end), bytes);
    put(range.count, bytes);
    slice = next_slice;
    end = first + static_cast<std::int64_t>(range.count);
  }
  return bytes;
}

std::vector<SliceRange> read_places(std::span<const std::byte> bytes, std::size_t values,
                                    std::string_view origin) {
  std::vector<SliceRange> ranges;
  Reader reader(bytes, origin);
  std::uint64_t slice = 0, end = 0, left = values;
  while (!reader.done()) {
    const std::uint64_t next = reader.take_from(slice);
    if (next > std::numeric_limits<std::uint32_t>::max()) reader.damaged();
    if (next != slice) end = 0;
    slice = next;
    const std::uint64_t first = reader.take_from(end), count = reader.take();
    if (count == 0 || count > left) reader.damaged();
    left -= count;
    end = first + count;
    ranges.push_back({static_cast<std::uint32_t>(slice), first, count});
  }
  if (left != 0) reader.damaged();
  return ranges;
}

namespace {

const std::vector<std::byte>& known(KnownPlaces& places, const std::string& name,
                                    const std::function<std::vector<SliceRange>()>& ranges) {
  const auto found = places.find(name);
  if (found != places.end()) return found->second;
  return places.emplace(name, write_places(ranges())).first->second;
}

}  // namespace

void ScopedVisitor::enter(std::string_view scope) {
  prefix_ += scope;
  prefix_ += '/';
}

void ScopedVisitor::leave() {
  prefix_.pop_back();
  const std::size_t slash = prefix_.rfind('/');
  prefix_.resize(slash == std::string::npos ? 0 : slash + 1);
}

std::string ScopedVisitor::full(std::string_view name) const { return prefix_ + std::string(name); }

std::string places_name(const std::string& name) { return name + ", places"; }

void SavingVisitor::values(std::string_view name, std::span<float> values, Across across) {
  image_.append(full(name), SectionKind::floats, across, std::as_bytes(values));
}

void SavingVisitor::doubles(std::string_view name, std::span<double> values, Across across) {
  image_.append(full(name), SectionKind::doubles, across, std::as_bytes(values));
}

void SavingVisitor::numbers(std::string_view name, std::span<std::uint64_t> values, Across across) {
  image_.append(full(name), SectionKind::numbers, across, std::as_bytes(values));
}

void SavingVisitor::placed(std::string_view name, std::span<float> values,
                           const std::function<std::vector<SliceRange>()>& places) {
  const std::string section = full(name);
  image_.append(section, SectionKind::floats, Across::sum, std::as_bytes(values));
  image_.append(places_name(section), SectionKind::places, Across::own,
                known(places_, section, places));
}

void SizingVisitor::count(std::string_view name, std::size_t bytes) {
  constexpr std::size_t kTableEntry = 32;  // or a little less
  bytes_ += bytes + kTableEntry + full(name).size();
}

void SizingVisitor::values(std::string_view name, std::span<float> values, Across) {
  count(name, values.size_bytes());
}

void SizingVisitor::doubles(std::string_view name, std::span<double> values, Across) {
  count(name, values.size_bytes());
}

void SizingVisitor::numbers(std::string_view name, std::span<std::uint64_t> values, Across) {
  count(name, values.size_bytes());
}

void SizingVisitor::placed(std::string_view name, std::span<float> values,
                           const std::function<std::vector<SliceRange>()>& places) {
  count(name, values.size_bytes());
  const std::string section = full(name);
  count(places_name(section), known(places_, section, places).size());
}

}  // namespace eqt::checkpoint
