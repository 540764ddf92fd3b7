// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of one host share.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/layout.hpp"

namespace eqt::comm {

/// Per rank: two buffers, which this rank writes and all read, and a counter of its steps through a
/// common procedure, which says what the buffers hold. Copying values there and adding them from
/// there takes no call of the kernel, no second copy and no checksum: nothing is sent.
class HostMemory {
 public:
  /// Small enough for two buffers and the values beside them to stay in a second-level cache.
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  /// New memory for `ranks` ranks, under a name that no other has.
  /// @return null where the system has none
  static std::unique_ptr<HostMemory> make(Rank me, int ranks);
  /// The memory that another rank has made. @return null if it is not found
  static std::unique_ptr<HostMemory> open(const std::string& name, Rank me, int ranks);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  const std::string& name() const noexcept { return name_; }
  /// Removes the name. The memory exists until the last process that has opened it ends.
  void unlink() noexcept;

  /// @param turn its lowest bit chooses the buffer
  std::span<std::byte> buffer(Rank of, std::uint64_t turn) const noexcept;
  /// The steps that a rank has done; what it had written before is visible.
  std::uint64_t steps(Rank of) const noexcept {
    return counter(of).load(std::memory_order_acquire);
  }
  /// One more step of this rank is done.
  void advance() noexcept { counter(me_).store(steps(me_) + 1, std::memory_order_release); }
  /// The lowest other rank that has done fewer than `least` steps, or kNobody.
  Rank behind(std::uint64_t least) const noexcept;
  static constexpr Rank kNobody = -1;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static_assert(Counter::is_always_lock_free, "counters in shared memory must need no lock");

  HostMemory(std::string name, std::byte* start, std::size_t bytes, Rank me, int ranks);
  static std::unique_ptr<HostMemory> map(int file, std::string name, Rank me, int ranks);
  Counter& counter(Rank of) const noexcept;

  std::string name_;  // empty: removed
  std::byte* const start_;
  const std::size_t bytes_;
  const Rank me_;
  const int ranks_;
};

}  // namespace eqt::comm
