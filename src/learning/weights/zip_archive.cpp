// SPDX-License-Identifier: Apache-2.0
#include "weights/zip_archive.hpp"

#include <zip.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"
#include "weights/foreign_file.hpp"

namespace eqt::weights {
namespace {

constexpr std::int64_t kMaxRecords = 1 << 18;  // far above what networks have
// Bytes of which deflate makes one byte: at most 258 of 2 bits (RFC 1951, 3.2.5).
constexpr std::uint64_t kMostFromOne = 1032;

/// The reason of a libzip error.
std::string reason_of(zip_error_t& error) {
  switch (zip_error_code_zip(&error)) {
    // Versions of libzip draw the lines between these in other places.
    case ZIP_ER_NOZIP:
    case ZIP_ER_INCONS:
#ifdef ZIP_ER_TRUNCATED_ZIP
    case ZIP_ER_TRUNCATED_ZIP:
#endif
      return "it is no whole zip archive, or one that contradicts itself";
    case ZIP_ER_EXISTS:
      return "it has two records of one name";
    default:
      return fmt::format("libzip says of it: {}", zip_error_strerror(&error));
  }
}

[[noreturn]] void refuse_opening(const ForeignFile& file, zip_error_t& error) {
  const std::string reason = reason_of(error);
  zip_error_fini(&error);
  refuse_file(file, reason);
}

/// @throws Error{data} if it is no consistent archive
zip* open_archive(std::span<const std::byte> bytes, const ForeignFile& file) {
  // For libzip an empty file is an archive without records.
  if (bytes.empty()) refuse(file, "it is no whole zip archive");
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) refuse_opening(file, error);
  zip* const archive = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (archive == nullptr) {
    zip_source_free(source);
    refuse_opening(file, error);
  }
  zip_error_fini(&error);
  return archive;
}

struct CloseRecord {
  void operator()(zip_file_t* record) const { zip_fclose(record); }
};

}  // namespace

void ZipArchive::Discard::operator()(zip* archive) const { zip_discard(archive); }

ZipArchive::ZipArchive(std::span<const std::byte> bytes, ForeignFile file)
    : file_(std::move(file)), archive_(open_archive(bytes, file_)) {
  const std::int64_t count = zip_get_num_entries(archive_.get(), 0);
  if (count > kMaxRecords) refuse(file_, "it has more than {} records", kMaxRecords);
  std::uint64_t left = bytes.size();
  for (std::int64_t index = 0; index < count; ++index) {
    records_.push_back(record_at(static_cast<std::uint64_t>(index)));
    if (records_.back().compressed) continue;
    // Overlapping records could expand to many times the file's size.
    if (records_.back().bytes > left) refuse(file_, "its records have more bytes than the file");
    left -= records_.back().bytes;
  }
  std::ranges::sort(records_, {}, &Record::name);
  const auto twice = std::ranges::adjacent_find(records_, {}, &Record::name);
  if (twice != records_.end()) refuse(file_, "it has two records named {}", printable(twice->name));
}

ZipArchive::Record ZipArchive::record_at(std::uint64_t index) const {
  zip_stat_t facts;
  if (zip_stat_index(archive_.get(), index, ZIP_FL_ENC_RAW, &facts) != 0)
    refuse_file(file_, reason_of(*zip_get_error(archive_.get())));
  constexpr zip_uint64_t kWanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((facts.valid & kWanted) != kWanted) refuse(file_, "its directory is damaged");
  const std::string name = facts.name;
  if (facts.encryption_method != ZIP_EM_NONE)
    refuse(file_, "its record {} is encrypted", printable(name));
  const bool compressed = facts.comp_method != ZIP_CM_STORE;
  if (compressed && (file_.holds != Holds::script || facts.comp_method != ZIP_CM_DEFLATE))
    refuse(file_, "its record {} is compressed", printable(name));
  const bool fits =
      compressed ? facts.size / kMostFromOne <= facts.comp_size : facts.size == facts.comp_size;
  if (!fits) refuse(file_, "its record {} is not as long as it says", printable(name));
  return {.name = name, .index = index, .bytes = facts.size, .compressed = compressed};
}

const ZipArchive::Record* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(records_, name, {}, &Record::name);
  return found != records_.end() && found->name == name ? &*found : nullptr;
}

std::vector<std::byte> ZipArchive::read(const Record& record) const {
  const std::unique_ptr<zip_file_t, CloseRecord> file(
      zip_fopen_index(archive_.get(), record.index, 0));
  if (file == nullptr) refuse_file(file_, reason_of(*zip_get_error(archive_.get())));
  std::vector<std::byte> bytes(record.bytes);
  std::byte behind{};
  // libzip compares the checksum when a read passes the last byte.
  if (zip_fread(file.get(), bytes.data(), bytes.size()) !=
          static_cast<std::int64_t>(bytes.size()) ||
      zip_fread(file.get(), &behind, 1) != 0) {
    const bool differs = zip_error_code_zip(zip_file_get_error(file.get())) == ZIP_ER_CRC;
    refuse(file_, "its record {} is damaged: {}", printable(record.name),
           differs ? "the checksum differs" : "it ends too early");
  }
  return bytes;
}

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
