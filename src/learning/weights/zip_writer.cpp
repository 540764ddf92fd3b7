// SPDX-License-Identifier: Apache-2.0
#include "weights/zip_writer.hpp"

#include <zip.h>

#include <array>
#include <utility>

#include "core/error.hpp"

namespace eqt::weights {
namespace {

constexpr zip_uint16_t kFirstDay = 0x21;   // 1980-01-01
constexpr zip_uint16_t kPadding = 0x4246;  // "FB", the identifier that LibTorch uses
constexpr std::size_t kAlignment = 64, kHeader = 30, kFieldHeader = 4;  // [bytes] of a record

}  // namespace

void ZipWriter::Free::operator()(zip_source* source) const { zip_source_free(source); }

ZipWriter::ZipWriter() {
  zip_error_t error;
  zip_error_init(&error);
  file_.reset(zip_source_buffer_create(nullptr, 0, 0, &error));
  EQT_CHECK(file_ != nullptr, "libzip says: {}", zip_error_strerror(&error));
  zip_source_keep(file_.get());  // closing the archive frees one reference
  archive_ = zip_open_from_source(file_.get(), ZIP_TRUNCATE, &error);
  EQT_CHECK(archive_ != nullptr, "libzip says: {}", zip_error_strerror(&error));
}

ZipWriter::~ZipWriter() {
  if (archive_ != nullptr) zip_discard(archive_);
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  add(name, zip_source_buffer(archive_, bytes.data(), bytes.size(), 0), bytes.size());
}

void ZipWriter::add(const std::string& name, const ZipArchive& archive,
                    const ZipArchive::Record& record) {
#if LIBZIP_VERSION_MAJOR > 1 || LIBZIP_VERSION_MINOR >= 10
  zip_source_t* const source =
      zip_source_zip_file(archive_, archive.handle(), record.index, 0, 0, -1, nullptr);
#else
  zip_source_t* const source = zip_source_zip(archive_, archive.handle(), record.index, 0, 0, -1);
#endif
  add(name, source, record.bytes);
}

std::string ZipWriter::finish() && {
  require(zip_close(archive_) == 0);
  archive_ = nullptr;
  zip_stat_t facts;
  EQT_CHECK(zip_source_stat(file_.get(), &facts) == 0, "libzip does not know the file's size");
  std::string bytes(facts.size, '\0');
  EQT_CHECK(zip_source_open(file_.get()) == 0, "libzip does not open what it wrote");
  const zip_int64_t read = zip_source_read(file_.get(), bytes.data(), bytes.size());
  zip_source_close(file_.get());
  EQT_CHECK(std::cmp_equal(read, bytes.size()), "{} of {} bytes", read, bytes.size());
  return bytes;
}

void ZipWriter::require(bool done) const {
  EQT_CHECK(done, "libzip says: {}", zip_error_strerror(zip_get_error(archive_)));
}

void ZipWriter::add(const std::string& name, zip_source* source, std::size_t bytes) {
  require(source != nullptr);
  const zip_int64_t added = zip_file_add(archive_, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (added < 0) zip_source_free(source);
  require(added >= 0);
  const auto index = static_cast<zip_uint64_t>(added);
  require(zip_set_file_compression(archive_, index, ZIP_CM_STORE, 0) == 0);
  require(zip_file_set_dostime(archive_, index, 0, kFirstDay, 0) == 0);
  // The same values are the same file at any time and place.
  require(zip_file_set_external_attributes(archive_, index, 0, ZIP_OPSYS_DOS, 0) == 0);
  pad(index, name.size());
  at_ += bytes;
}

/// Moves the record's bytes to a multiple of kAlignment.
void ZipWriter::pad(std::uint64_t index, std::size_t name_bytes) {
  at_ += kHeader + name_bytes + kFieldHeader;
  const std::size_t bytes = (kAlignment - at_ % kAlignment) % kAlignment;
  const std::array<zip_uint8_t, kAlignment> zeros = {};
  require(zip_file_extra_field_set(archive_, index, kPadding, ZIP_EXTRA_FIELD_NEW, zeros.data(),
                                   static_cast<zip_uint16_t>(bytes), ZIP_FL_LOCAL) == 0);
  at_ += bytes;
}

}  // namespace eqt::weights
