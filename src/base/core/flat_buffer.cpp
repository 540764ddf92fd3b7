// SPDX-License-Identifier: Apache-2.0
#include "core/flat_buffer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace eqt {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Whole pages of zeros that start at a multiple of `alignment`.
void* map_pages(std::size_t bytes, std::size_t alignment) {
  const std::size_t all = bytes + alignment;
  void* const memory =
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(memory);
  const std::size_t before =
      (alignment - reinterpret_cast<std::uintptr_t>(memory) % alignment) % alignment;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, alignment - before);
  return first + before;
}

bool write_all(int file, const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  for (std::size_t done = 0; done < count;) {
    const ssize_t n = pwrite(file, from + done, count - done, static_cast<off_t>(done));
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

FlatBuffer::FlatBuffer(std::size_t count) : count_(count) {
  const std::size_t wanted = count * sizeof(float);
  if (wanted < page_bytes()) {
    memory_.reset(make_long_array<float>(count).release());
  } else {
    const std::size_t page = wanted >= kHugePage ? kHugePage : page_bytes();
    const std::size_t bytes = (wanted + page - 1) / page * page;
    void* const memory = map_pages(bytes, page);
    // This is only advice: everything also works on small pages.
    if (page == kHugePage) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
    memory_ = std::unique_ptr<float[], FreePages>(static_cast<float*>(memory), FreePages{bytes});
  }
  // Also takes the pages now, not in a step.
  std::fill_n(memory_.get(), count, 0.0f);
}

void FreePages::operator()(float* memory) const {
  if (bytes == 0) {
    std::free(memory);
  } else {
    munmap(memory, bytes);
  }
}

int FlatBuffer::share(std::size_t more) {
  const std::size_t bytes = mapped_bytes();
  if (bytes == 0) return -1;
  const int file = memfd_create("equant-train", MFD_CLOEXEC);
  if (file < 0) return -1;
  // Reserved, not only sized: memory that is exhausted would otherwise end the process later.
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes + more)) == 0 &&
      write_all(file, memory_.get(), count_ * sizeof(float)) &&
      mmap(memory_.get(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
           file, 0) != MAP_FAILED) {
    static_cast<void>(madvise(memory_.get(), bytes, MADV_HUGEPAGE));
    return file;
  }
  close(file);
  return -1;
}

}  // namespace eqt
