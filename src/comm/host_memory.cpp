// SPDX-License-Identifier: Apache-2.0
#include "comm/host_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

namespace eqt::comm {
namespace {

constexpr std::size_t kCounterBytes = 4096;  // no page with buffers
constexpr std::size_t kRankBytes = kCounterBytes + 2 * HostMemory::kBufferBytes;

std::size_t bytes_for(int ranks) { return static_cast<std::size_t>(ranks) * kRankBytes; }

/// Closes the file at the end of its scope.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

}  // namespace

std::unique_ptr<HostMemory> HostMemory::make(Rank me, int ranks) {
  std::random_device entropy;
  const std::string name =
      fmt::format("/equant-train.{}.{:08x}{:08x}", getpid(), entropy(), entropy());
  const File file(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return nullptr;
  // Reserved, not only sized: a file system that is full would otherwise end the process later.
  if (posix_fallocate(file.number(), 0, static_cast<off_t>(bytes_for(ranks))) != 0) {
    shm_unlink(name.c_str());
    return nullptr;
  }
  auto memory = map(file.number(), name, me, ranks);
  if (memory == nullptr) shm_unlink(name.c_str());
  return memory;
}

std::unique_ptr<HostMemory> HostMemory::open(const std::string& name, Rank me, int ranks) {
  const File file(shm_open(name.c_str(), O_RDWR, 0));
  struct stat status {};
  if (!file.is_open() || fstat(file.number(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != bytes_for(ranks))
    return nullptr;
  auto memory = map(file.number(), name, me, ranks);
  if (memory != nullptr) memory->name_.clear();  // its maker removes it
  return memory;
}

std::unique_ptr<HostMemory> HostMemory::map(int file, std::string name, Rank me, int ranks) {
  const std::size_t bytes = bytes_for(ranks);
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (start == MAP_FAILED) return nullptr;
  return std::unique_ptr<HostMemory>(
      new HostMemory(std::move(name), static_cast<std::byte*>(start), bytes, me, ranks));
}

HostMemory::HostMemory(std::string name, std::byte* start, std::size_t bytes, Rank me, int ranks)
    : name_(std::move(name)), start_(start), bytes_(bytes), me_(me), ranks_(ranks) {}

HostMemory::~HostMemory() {
  unlink();
  munmap(start_, bytes_);
}

void HostMemory::unlink() noexcept {
  if (!name_.empty()) shm_unlink(name_.c_str());
  name_.clear();
}

std::span<std::byte> HostMemory::buffer(Rank of, std::uint64_t turn) const noexcept {
  std::byte* const first = start_ + static_cast<std::size_t>(of) * kRankBytes + kCounterBytes;
  return {first + turn % 2 * kBufferBytes, kBufferBytes};
}

HostMemory::Counter& HostMemory::counter(Rank of) const noexcept {
  // New memory is zero, which is a counter that no rank has raised.
  return *reinterpret_cast<Counter*>(start_ + static_cast<std::size_t>(of) * kRankBytes);
}

Rank HostMemory::behind(std::uint64_t least) const noexcept {
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (rank != me_ && steps(rank) < least) return rank;
  return kNobody;
}

}  // namespace eqt::comm
