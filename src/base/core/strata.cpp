// SPDX-License-Identifier: Apache-2.0
#include "core/strata.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt {
namespace {

constexpr std::size_t kLeastPlaces = 512;

/// Fields have these sizes, up to Strata::kMostRanks: primes and powers of two.
constexpr std::array<std::uint32_t, 15> kFieldSizes = {2,  3,  4,  5,  7,  8,  11, 13,
                                                       16, 17, 19, 23, 29, 31, 32};

/// A finite field of one of these sizes.
class Field {
 public:
  explicit Field(std::uint32_t size) : size_(size) {}

  /// Returns a * b + c.
  std::uint32_t line(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    if (!is_binary()) return (a * b + c) % size_;
    std::uint32_t product = 0;
    for (; b != 0; b >>= 1, a = twice(a))
      if ((b & 1u) != 0) product ^= a;
    return product ^ c;
  }

 private:
  bool is_binary() const { return (size_ & (size_ - 1)) == 0; }

  // Elements are polynomials over two elements; this is x times one, modulo an irreducible one.
  std::uint32_t twice(std::uint32_t a) const {
    const std::uint32_t modulus = size_ == 2    ? 0b11
                                  : size_ == 4  ? 0b111
                                  : size_ == 8  ? 0b1011
                                  : size_ == 16 ? 0b10011
                                                : 0b100101;
    a <<= 1;
    return a < size_ ? a : a ^ modulus;
  }

  std::uint32_t size_;
};

/// These ranks form a group: [first, first + count).
struct RankGroup {
  std::uint32_t first, count;
};

/// There are as many groups as are needed, and their sizes differ by at most one.
RankGroup group_of(std::uint32_t rank, std::uint32_t ranks) {
  const std::uint64_t groups = (std::uint64_t{ranks} + Strata::kMostRanks - 1) / Strata::kMostRanks;
  const auto first_of = [&](std::uint64_t group) {
    return static_cast<std::uint32_t>(group * ranks / groups);
  };
  const std::uint64_t group = ((std::uint64_t{rank} + 1) * groups - 1) / ranks;
  const std::uint32_t first = first_of(group);
  return {first, first_of(group + 1) - first};
}

}  // namespace

Strata::Strata(std::uint32_t rank, std::uint32_t ranks) {
  EQT_CHECK(rank < ranks, "rank {} of {}", rank, ranks);
  const RankGroup group = group_of(rank, ranks);
  EQT_CHECK(group.count >= 2 && group.count <= kMostRanks, "a group of {} ranks", group.count);
  const std::uint32_t index = rank - group.first;
  pair_ = rank - index % 2;
  is_second_ = index % 2 != 0;
  group_ = group.first;
  const std::uint32_t size = *std::ranges::lower_bound(kFieldSizes, group.count);
  const std::uint32_t within = 65536 / size;  // in units of 2^-16
  factor_ = within << 16 | 0xFFFFu;
  const auto width = static_cast<std::uint32_t>((std::uint64_t{1} << 32) / size);
  const std::uint32_t margin = (width - (within << 16)) / 2;
  const Field field(size);
  std::vector<std::uint32_t> lines;  // the base of each (a, b)
  for (std::uint32_t a = 1; a < size; ++a) {
    for (std::uint32_t b = 0; b < size; ++b)
      lines.push_back(field.line(a, index, b) * width + margin);
  }
  const std::size_t places = lines.size() * ((kLeastPlaces + lines.size() - 1) / lines.size());
  const std::vector<std::size_t> order =
      random_permutation(make_key(0, 0, size, RandomPurpose::strata), places);
  for (std::size_t i = 0; i < places + kRun - 1; ++i)
    bases_.push_back(lines[order[i % places] % lines.size()]);
  places_ = static_cast<std::uint32_t>(places);
}

const Strata* strata_of(std::uint32_t rank, std::uint32_t ranks) {
  if (ranks < 2 || group_of(rank, ranks).count < 2) return nullptr;
  static std::mutex mutex;
  static std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<const Strata>> made;
  const std::lock_guard lock(mutex);
  auto& strata = made[{rank, ranks}];
  if (strata == nullptr) strata = std::make_unique<const Strata>(rank, ranks);
  return strata.get();
}

}  // namespace eqt
