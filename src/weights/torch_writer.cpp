// SPDX-License-Identifier: Apache-2.0
// Writes what torch.save writes of a dict of tensors.
//
// Format   torch/serialization.py, _save: a zip archive without compression, with a pickle of the
//          dict and a record for each storage

#include <zip.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "weights/pickle_globals.hpp"
#include "weights/state_dict.hpp"

namespace eqt::weights {
namespace {

// The root folder of the archive and the version of its format, as torch.save writes them.
constexpr std::string_view kRoot = "archive/", kVersion = "3\n";

constexpr std::size_t kAlignment = 64;  // [bytes] of a storage in the file, as LibTorch aligns it

/// Writes a pickle of protocol 2: Python, Lib/pickletools.py.
class PickleWriter {
 public:
  PickleWriter() { code("\x80\x02"); }

  PickleWriter& code(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  PickleWriter& global(std::string_view module, std::string_view name) {
    text_.append("c").append(module).append("\n").append(name).append("\n");
    return *this;
  }
  PickleWriter& text(std::string_view value) {
    code("X").little_endian(value.size(), 4);
    return code(value);
  }
  /// @pre value >= 0
  PickleWriter& number(std::uint64_t value) {
    if (value <= 0xFF) return code("K").little_endian(value, 1);
    // Signed, so that the highest bit is never one of the value's.
    const auto bytes = static_cast<std::size_t>(std::bit_width(value)) / 8 + 1;
    return code("\x8a").little_endian(bytes, 1).little_endian(value, bytes);
  }
  PickleWriter& numbers(std::span<const std::int64_t> values) {
    code("(");
    for (const std::int64_t value : values) number(static_cast<std::uint64_t>(value));
    return code("t");
  }
  std::string finish() && { return std::move(text_ += '.'); }

 private:
  PickleWriter& little_endian(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      text_ += static_cast<char>(i < sizeof value ? value >> (8 * i) & 0xFF : 0);
    return *this;
  }

  std::string text_;
};

/// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks) for each.
std::string pickle_of(std::span<const Tensor> tensors) {
  PickleWriter pickle;
  pickle.code("}(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    pickle.text(tensor.name).global("torch._utils", "_rebuild_tensor_v2").code("((");
    pickle.text("storage").global("torch", storage_class(tensor.type)).text(std::to_string(i));
    pickle.text("cpu").number(elements_of(tensor.sizes)).code("tQ").number(0);
    pickle.numbers(tensor.sizes).numbers(row_major_strides(tensor.sizes)).code("\x89");
    pickle.global("collections", "OrderedDict").code(")RtR");
  }
  pickle.code("u");
  return std::move(pickle).finish();
}

/// An archive in memory whose records are not compressed.
class ArchiveWriter {
 public:
  ArchiveWriter() {
    zip_error_t error;
    zip_error_init(&error);
    file_.reset(zip_source_buffer_create(nullptr, 0, 0, &error));
    EQT_CHECK(file_ != nullptr, "libzip says: {}", zip_error_strerror(&error));
    zip_source_keep(file_.get());  // closing the archive frees one reference
    archive_ = zip_open_from_source(file_.get(), ZIP_TRUNCATE, &error);
    EQT_CHECK(archive_ != nullptr, "libzip says: {}", zip_error_strerror(&error));
  }
  ~ArchiveWriter() {
    if (archive_ != nullptr) zip_discard(archive_);
  }
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  /// The bytes must stay until finish().
  void add(const std::string& name, std::span<const std::byte> bytes) {
    zip_source_t* const source = zip_source_buffer(archive_, bytes.data(), bytes.size(), 0);
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
    at_ += bytes.size();
  }

  std::string finish() && {
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

 private:
  static constexpr zip_uint16_t kFirstDay = 0x21;   // 1980-01-01
  static constexpr zip_uint16_t kPadding = 0x4246;  // "FB", the identifier that LibTorch uses
  static constexpr std::size_t kHeader = 30, kFieldHeader = 4;  // [bytes] of a record

  struct Free {
    void operator()(zip_source_t* source) const { zip_source_free(source); }
  };

  void require(bool done) const {
    EQT_CHECK(done, "libzip says: {}", zip_error_strerror(zip_get_error(archive_)));
  }

  /// Moves the record's bytes to a multiple of kAlignment.
  void pad(zip_uint64_t index, std::size_t name_bytes) {
    at_ += kHeader + name_bytes + kFieldHeader;
    const std::size_t bytes = (kAlignment - at_ % kAlignment) % kAlignment;
    const std::array<zip_uint8_t, kAlignment> zeros = {};
    require(zip_file_extra_field_set(archive_, index, kPadding, ZIP_EXTRA_FIELD_NEW, zeros.data(),
                                     static_cast<zip_uint16_t>(bytes), ZIP_FL_LOCAL) == 0);
    at_ += bytes;
  }

  std::unique_ptr<zip_source_t, Free> file_;
  zip_t* archive_ = nullptr;
  std::size_t at_ = 0;  // [bytes] where the next record begins
};

}  // namespace

std::string pack_state_dict(std::span<const Tensor> tensors) {
  const std::string pickle = pickle_of(tensors);
  std::vector<std::vector<std::byte>> storages;
  for (const Tensor& tensor : tensors) {
    storages.emplace_back(elements_of(tensor.sizes) * element_bytes(tensor.type));
    copy_row_major(tensor, storages.back());
  }
  ArchiveWriter archive;
  const auto add = [&](const std::string& name, std::span<const std::byte> bytes) {
    archive.add(std::string(kRoot) + name, bytes);
  };
  add("data.pkl", std::as_bytes(std::span(pickle)));
  for (std::size_t i = 0; i < storages.size(); ++i) add("data/" + std::to_string(i), storages[i]);
  add("version", std::as_bytes(std::span(kVersion)));
  return std::move(archive).finish();
}

}  // namespace eqt::weights
