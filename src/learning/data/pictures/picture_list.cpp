// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/picture_list.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "data/class_names.hpp"
#include "data/test_split.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

/// An open file.
class PictureFile {
 public:
  explicit PictureFile(const fs::path& file) : opened_(file) {
    if (opened_.number() < 0) fail(Kind::data, "it cannot be opened: {}", std::strerror(errno));
  }

  /// [bytes] of a regular file
  std::uint64_t size() const {
    struct stat found = {};
    if (fstat(opened_.number(), &found) != 0)
      fail(Kind::data, "it cannot be read: {}", std::strerror(errno));
    if (!S_ISREG(found.st_mode)) fail(Kind::data, "it is not a regular file");
    return static_cast<std::uint64_t>(found.st_size);
  }

  void read(std::uint64_t offset, std::span<std::uint8_t> out) const {
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t got = pread(opened_.number(), out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(Kind::data, "it cannot be read: {}", std::strerror(errno));
      if (got == 0) fail(Kind::data, "the file ends too early");
      done += static_cast<std::size_t>(got);
    }
  }

 private:
  Descriptor opened_;
};

}  // namespace

void read_whole_file(const fs::path& file, std::vector<std::uint8_t>& out) {
  const PictureFile opened(file);
  const std::uint64_t bytes = opened.size();
  if (bytes > kMaxPictureBytes)
    fail(Kind::data, "expected at most {} bytes, found {}", kMaxPictureBytes, bytes);
  out.resize(bytes);
  opened.read(0, out);
}

void read_part_of_file(const fs::path& file, std::uint64_t offset, std::size_t bytes,
                       std::vector<std::uint8_t>& out) {
  EQT_CHECK(bytes <= kMaxPictureBytes, "{} bytes", bytes);
  const PictureFile opened(file);
  out.resize(bytes);
  opened.read(offset, out);
}

fs::file_type kind_inside(const fs::path& root, const fs::path& place) {
  std::error_code error;
  fs::file_status status = fs::symlink_status(place, error);
  if (!error && status.type() == fs::file_type::symlink) {
    const fs::path target = fs::canonical(place, error);
    if (!error) {
      const auto [rest, unused] =
          std::mismatch(root.begin(), root.end(), target.begin(), target.end());
      if (rest != root.end()) {
        fail(Kind::data,
             "{}: expected links to stay below {}, found one to {}; copy what it names, or set "
             "data.path to the folder itself",
             place.string(), root.string(), target.string());
      }
      status = fs::status(place, error);
    }
  }
  if (error) fail(Kind::data, "{} cannot be read: {}", place.string(), error.message());
  return status.type();
}

bool has_picture_ending(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  constexpr std::array<std::string_view, 4> kEndings = {".jpg", ".jpeg", ".png", ".webp"};
  return std::ranges::find(kEndings, lower_case(name.substr(dot))) != kEndings.end();
}

void LeftOut::note(const std::string& where, std::vector<std::string>& notes) const {
  if (count == 0) return;
  notes.push_back(printable(
      count == 1 ? fmt::format("{}: {} is left out", where, first)
                 : fmt::format("{}: {} files are left out, the first is {}", where, count, first)));
}

void PictureList::add_entry(std::string_view name, int label) {
  if (names_.size() > std::numeric_limits<std::uint32_t>::max())
    fail(Kind::data, "{}: expected names of at most 4 GiB together, found more", root_.string());
  entries_.push_back({static_cast<std::uint32_t>(names_.size()), label});
  names_.append(name).push_back('\0');
}

void PictureList::add(std::string_view name, int label) {
  EQT_CHECK(places_.empty(), "{} is a file among archives", name);
  add_entry(name, label);
}

void PictureList::add(std::string_view name, int label, std::size_t archive, std::uint64_t offset,
                      std::uint32_t bytes) {
  EQT_CHECK(places_.size() == entries_.size() && archive < archives_.size(),
            "{} is in archive {} of {}", name, archive, archives_.size());
  add_entry(name, label);
  places_.push_back({offset, bytes, static_cast<std::uint32_t>(archive)});
}

std::size_t PictureList::add_archive(std::string name) {
  archives_.push_back(std::move(name));
  return archives_.size() - 1;
}

std::string PictureList::name(std::size_t picture) const {
  const std::string_view own = name_of(entries_.at(picture));
  if (places_.empty()) return printable((root_ / own).string());
  return printable(
      fmt::format("{}: {}", (root_ / archives_[places_[picture].archive]).string(), own));
}

fs::path PictureList::file(std::size_t picture) const {
  return root_ / (places_.empty() ? fs::path(name_of(entries_.at(picture)))
                                  : fs::path(archives_[places_.at(picture).archive]));
}

void PictureList::read(std::size_t picture, std::vector<std::uint8_t>& out) const {
  if (places_.empty()) return read_whole_file(root_ / name_of(entries_[picture]), out);
  const Place& place = places_[picture];
  read_part_of_file(root_ / archives_[place.archive], place.offset, place.bytes, out);
}

void PictureList::keep_first(std::size_t count) {
  if (count >= entries_.size()) return;
  names_.resize(entries_[count].name);  // names lie in the order of entries
  entries_.resize(count);
  if (!places_.empty()) places_.resize(count);
}

PictureList PictureList::only(std::span<const std::size_t> pictures) const {
  PictureList list(root_);
  list.archives_ = archives_;
  for (const std::size_t picture : pictures) {
    list.add_entry(name_of(entries_.at(picture)), entries_[picture].label);
    if (!places_.empty()) list.places_.push_back(places_[picture]);
  }
  return list;
}

PictureLists split_off_test(const PictureList& all, std::vector<std::string> class_names,
                            double fraction, std::uint64_t seed) {
  std::vector<int> labels;
  for (std::size_t i = 0; i < all.size(); ++i) labels.push_back(all.label(i));
  const std::vector<bool> is_test =
      samples_for_test(labels, class_names, fraction, seed, "pictures", "a folder test/");
  std::vector<std::size_t> train, test;
  for (std::size_t i = 0; i < all.size(); ++i) (is_test[i] ? test : train).push_back(i);
  return {all.only(train), all.only(test), std::move(class_names)};
}

}  // namespace eqt::data
