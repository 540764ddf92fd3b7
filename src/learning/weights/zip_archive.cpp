// SPDX-License-Identifier: Apache-2.0
#include "weights/zip_archive.hpp"

#include <zip.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
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
constexpr std::size_t kDirectoryEntry = 128;  // [bytes] more than one needs besides its name

}  // namespace

/// File is the archive in memory, which libzip calls as a source that is written.
struct ZipWriter::File {
  std::string bytes;
  std::size_t place = 0;  // where libzip writes next
  zip_error_t error = {};

  static zip_int64_t call(void* state, void* data, zip_uint64_t length, zip_source_cmd_t command);

 private:
  zip_int64_t write(std::string_view values);
  zip_int64_t seek(void* data, zip_uint64_t length);
  zip_int64_t fail(int code) {
    zip_error_set(&error, code, 0);
    return -1;
  }
};

zip_int64_t ZipWriter::File::write(std::string_view values) {
  const std::size_t over = std::min(values.size(), bytes.size() - place);
  try {
    bytes.append(values.substr(over));
  } catch (const std::bad_alloc&) {  // libzip is C, which no exception may pass
    return fail(ZIP_ER_MEMORY);
  }
  std::ranges::copy(values.substr(0, over), bytes.begin() + static_cast<std::ptrdiff_t>(place));
  place += values.size();
  return static_cast<zip_int64_t>(values.size());
}

zip_int64_t ZipWriter::File::seek(void* data, zip_uint64_t length) {
  const zip_int64_t to = zip_source_seek_compute_offset(place, bytes.size(), data, length, &error);
  if (to < 0) return -1;
  place = static_cast<std::size_t>(to);
  return 0;
}

zip_int64_t ZipWriter::File::call(void* state, void* data, zip_uint64_t length,
                                  zip_source_cmd_t command) {
  File& file = *static_cast<File*>(state);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_STAT:
      zip_stat_init(static_cast<zip_stat_t*>(data));
      return sizeof(zip_stat_t);
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_REMOVE:
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_WRITE:
      return file.write({static_cast<const char*>(data), length});
    case ZIP_SOURCE_SEEK_WRITE:
      return file.seek(data, length);
    case ZIP_SOURCE_TELL_WRITE:
      return static_cast<zip_int64_t>(file.place);
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&file.error, data, length);
    default:  // nothing reads what is being written
      return file.fail(ZIP_ER_OPNOTSUPP);
  }
}

ZipWriter::ZipWriter() : file_(std::make_unique<File>()) {
  zip_error_init(&file_->error);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_function_create(&File::call, file_.get(), &error);
  EQT_CHECK(source != nullptr, "libzip says: {}", zip_error_strerror(&error));
  archive_ = zip_open_from_source(source, ZIP_TRUNCATE, &error);
  if (archive_ == nullptr) zip_source_free(source);
  EQT_CHECK(archive_ != nullptr, "libzip says: {}", zip_error_strerror(&error));
}

ZipWriter::~ZipWriter() {
  if (archive_ != nullptr) zip_discard(archive_);
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  add(name, zip_source_buffer(archive_, bytes.data(), bytes.size(), 0), bytes.size());
}

/// Filled is a record whose bytes exist only while libzip reads them.
struct ZipWriter::Filled {
  std::size_t size = 0;
  Fill fill;
  std::vector<std::byte> bytes;
  std::size_t place = 0;  // of the next that is read
  zip_error_t error = {};

  static zip_int64_t call(void* state, void* data, zip_uint64_t length, zip_source_cmd_t command);

 private:
  zip_int64_t open();
  zip_int64_t read(void* data, std::size_t length);
  zip_int64_t facts(void* data) const;
};

zip_int64_t ZipWriter::Filled::open() {
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    zip_error_set(&error, ZIP_ER_MEMORY, 0);
    return -1;
  }
  fill(bytes);
  place = 0;
  return 0;
}

zip_int64_t ZipWriter::Filled::read(void* data, std::size_t length) {
  const std::size_t count = std::min(length, bytes.size() - place);
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(place), count,
              static_cast<std::byte*>(data));
  place += count;
  return static_cast<zip_int64_t>(count);
}

zip_int64_t ZipWriter::Filled::facts(void* data) const {
  auto* const facts = static_cast<zip_stat_t*>(data);
  zip_stat_init(facts);
  facts->size = size;
  facts->valid |= ZIP_STAT_SIZE;
  return sizeof(zip_stat_t);
}

zip_int64_t ZipWriter::Filled::call(void* state, void* data, zip_uint64_t length,
                                    zip_source_cmd_t command) {
  Filled& record = *static_cast<Filled*>(state);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return ZIP_SOURCE_SUPPORTS_READABLE;
    case ZIP_SOURCE_STAT:
      return record.facts(data);
    case ZIP_SOURCE_OPEN:
      return record.open();
    case ZIP_SOURCE_READ:
      return record.read(data, length);
    case ZIP_SOURCE_CLOSE:
      record.bytes = std::vector<std::byte>();  // which gives the memory back
      return 0;
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&record.error, data, length);
    default:
      zip_error_set(&record.error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

void ZipWriter::add(const std::string& name, std::size_t bytes, Fill fill) {
  Filled& record = *filled_.emplace_back(std::make_unique<Filled>());
  record.size = bytes;
  record.fill = std::move(fill);
  zip_error_init(&record.error);
  add(name, zip_source_function(archive_, &Filled::call, &record), bytes);
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
  file_->bytes.reserve(at_ + directory_);
  require(zip_close(archive_) == 0);
  archive_ = nullptr;
  return std::move(file_->bytes);
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
  directory_ += kDirectoryEntry + name.size();
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
