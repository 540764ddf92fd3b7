// SPDX-License-Identifier: Apache-2.0
#include "comm/host_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

namespace eqt::comm {
namespace {

// Behind the values: the counter, and in the next line of the caches the random number.
constexpr std::size_t kMarkBytes = 64;
constexpr std::size_t kMoreBytes = kMarkBytes + sizeof(std::uint64_t);

std::span<std::byte> map(int file, std::size_t from, std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file,
                            static_cast<off_t>(from));
  if (memory == MAP_FAILED) return {};
  return {static_cast<std::byte*>(memory), bytes};
}

}  // namespace

HostMemory::HostMemory(Rank me, int ranks) : me_(me), parts_(static_cast<std::size_t>(ranks)) {}

std::unique_ptr<HostMemory> HostMemory::of(FlatBuffer& own, Rank me, int ranks) {
  std::unique_ptr<HostMemory> memory(new HostMemory(me, ranks));
  memory->file_ = own.share(kMoreBytes);
  if (memory->file_ < 0) return nullptr;
  memory->value_bytes_ = own.mapped_bytes();
  const auto mapped = map(memory->file_, memory->value_bytes_, kMoreBytes);
  if (mapped.empty()) return nullptr;
  std::random_device entropy;
  const std::uint64_t mark = std::uint64_t{entropy()} << 32 | entropy();
  std::memcpy(mapped.data() + kMarkBytes, &mark, sizeof mark);
  memory->address_ = {static_cast<std::uint64_t>(getpid()),
                      static_cast<std::uint64_t>(memory->file_), mark};
  // New memory is zero, which is a counter that no rank has raised.
  memory->parts_[index(me)] = {
      .values = own.span(), .counter = reinterpret_cast<Counter*>(mapped.data()), .mapped = mapped};
  return memory;
}

bool HostMemory::find(Rank rank, const Address& address) {
  const auto [process, number, mark] = address;
  const int file = open(fmt::format("/proc/{}/fd/{}", process, number).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status {};
  const bool fits = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                    static_cast<std::size_t>(status.st_size) == value_bytes_ + kMoreBytes;
  const auto mapped = fits ? map(file, 0, value_bytes_ + kMoreBytes) : std::span<std::byte>();
  close(file);
  if (mapped.empty()) return false;
  std::uint64_t found = 0;
  std::memcpy(&found, mapped.data() + value_bytes_ + kMarkBytes, sizeof found);
  Part& part = parts_[index(rank)];
  part = {.values = {reinterpret_cast<float*>(mapped.data()), array(me_).size()},
          .counter = reinterpret_cast<Counter*>(mapped.data() + value_bytes_),
          .mapped = mapped};
  return found == mark;
}

HostMemory::~HostMemory() {
  close_file();
  for (const Part& part : parts_)
    if (!part.mapped.empty()) munmap(part.mapped.data(), part.mapped.size());
}

void HostMemory::close_file() noexcept {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

void HostMemory::advance() noexcept {
  Counter& counter = *parts_[index(me_)].counter;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

Rank HostMemory::behind(std::uint64_t least) const noexcept {
  for (Rank rank = 0; rank < static_cast<Rank>(parts_.size()); ++rank)
    if (rank != me_ && steps(rank) < least) return rank;
  return kNobody;
}

}  // namespace eqt::comm
