// SPDX-License-Identifier: Apache-2.0
#include "data/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace eqt::data {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const char* reason) {
  fail(Kind::data, "expected a readable file {}, found: {}; check data.path and its permissions",
       file.string(), reason);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file)
    : file_(file), opened_(std::make_unique<Descriptor>(file)) {
  struct stat facts = {};
  if (opened_->number() < 0 || fstat(opened_->number(), &facts) != 0)
    refuse(file, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) refuse(file, "something else than a regular file");
  const auto count = static_cast<std::size_t>(facts.st_size);
  if (count == 0) return;
  void* const place = mmap(nullptr, count, PROT_READ, MAP_PRIVATE, opened_->number(), 0);
  if (place == MAP_FAILED) refuse(file, std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(place), count};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      opened_(std::move(other.opened_)),
      bytes_(std::exchange(other.bytes_, {})) {}

void MappedFile::require_whole() const {
  struct stat facts = {};
  if (fstat(opened_->number(), &facts) != 0) refuse(file_, std::strerror(errno));
  if (static_cast<std::uint64_t>(facts.st_size) >= bytes_.size()) return;
  fail(Kind::data,
       "expected {} bytes in {}, as when the run began, found {}; do not change the data of a run",
       bytes_.size(), file_.string(), facts.st_size);
}

}  // namespace eqt::data
