// SPDX-License-Identifier: Apache-2.0
// Arrays that the ranks of one host share.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"

namespace eqt::comm {

/// Every rank's array, which all ranks of the host read and write, and a counter of each rank's
/// steps through a common procedure, which says who may do so: nothing is sent, copied or checked.
/// The arrays have the same length and are where their owners made them.
class HostMemory {
 public:
  /// Another process needs these numbers to find an array: process, file and a random number in it.
  using Address = std::array<std::uint64_t, 3>;
  static constexpr Rank kNobody = -1;

  /// Shares this rank's array, which stays in place while it is used.
  /// @return null where the system shares no memory, or for an array of less than a page
  static std::unique_ptr<HostMemory> of(FlatBuffer& own, Rank me, int ranks);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  const Address& address() const noexcept { return address_; }
  /// Maps the array of another rank. @return false where it is not found
  bool find(Rank rank, const Address& address);
  /// No other rank will look for this one's array.
  void close_file() noexcept;

  /// @pre find() has found it, unless it is the own one
  std::span<float> array(Rank rank) const noexcept { return parts_[index(rank)].values; }
  /// The steps that a rank has done; what it had written before is visible.
  std::uint64_t steps(Rank rank) const noexcept {
    return parts_[index(rank)].counter->load(std::memory_order_acquire);
  }
  /// One more step of this rank is done.
  void advance() noexcept;
  /// The lowest other rank that has done fewer than `least` steps, or kNobody.
  Rank behind(std::uint64_t least) const noexcept;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static_assert(Counter::is_always_lock_free, "counters in shared memory must need no lock");
  /// Holds the part of one rank. `mapped` is what this object has mapped of its file.
  struct Part {
    std::span<float> values;
    Counter* counter = nullptr;
    std::span<std::byte> mapped;
  };

  HostMemory(Rank me, int ranks);
  static std::size_t index(Rank rank) noexcept { return static_cast<std::size_t>(rank); }

  const Rank me_;
  std::vector<Part> parts_;  // by rank
  std::size_t value_bytes_ = 0;
  Address address_{};
  int file_ = -1;
};

}  // namespace eqt::comm
