// SPDX-License-Identifier: Apache-2.0
// The pictures of a set, wherever they lie: in files of their own, or inside archives.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// Bytes that a picture's file may have.
inline constexpr std::size_t kMaxPictureBytes = std::size_t{256} << 20;

/// A list takes about 20 bytes per picture and those of its name, so that a million are no burden.
class PictureList {
 public:
  /// @param root the folder of the names
  explicit PictureList(std::filesystem::path root = {}) : root_(std::move(root)) {}

  /// A file root / name.
  void add(std::string_view name, int label);
  /// `bytes` bytes at `offset` of the archive root / archives()[archive].
  void add(std::string_view name, int label, std::size_t archive, std::uint64_t offset,
           std::uint32_t bytes);
  /// @return its number
  std::size_t add_archive(std::string name);

  std::size_t size() const { return entries_.size(); }
  int label(std::size_t picture) const { return entries_[picture].label; }
  /// Returns the name as people find it, printable: "/data/train/cat/1.jpg",
  /// "/data/train-0.tar: 00017.jpg".
  std::string name(std::size_t picture) const;
  /// Its own, or its archive's.
  std::filesystem::path file(std::size_t picture) const;
  /// Reads the picture's file into `out`. Thread-safe.
  /// @throws Error{data} with a reason, without the name
  void read(std::size_t picture, std::vector<std::uint8_t>& out) const;

  void keep_first(std::size_t count);
  /// A list of these pictures, in this order.
  PictureList only(std::span<const std::size_t> pictures) const;

 private:
  struct Entry {
    std::uint32_t name = 0;  // where it begins in names_
    std::int32_t label = 0;
  };
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t archive = 0;
  };

  std::string_view name_of(const Entry& entry) const { return names_.c_str() + entry.name; }
  void add_entry(std::string_view name, int label);

  std::filesystem::path root_;
  std::vector<Entry> entries_;
  std::vector<Place> places_;  // as many, or none: files
  std::vector<std::string> archives_;
  std::string names_;  // each with a 0 at its end
};

/// Training and test pictures.
struct PictureLists {
  PictureList train, test;
  std::vector<std::string> class_names;  // by label
  std::vector<std::string> notes = {};   // as DatasetPair::notes
};

/// Files that were found and are no samples.
struct LeftOut {
  std::size_t count = 0;
  std::string first = {};

  void add(const std::string& name) {
    if (count++ == 0) first = name;
  }
  /// "WHERE: 2 files are left out, the first is notes.txt", if there are any.
  void note(const std::string& where, std::vector<std::string>& notes) const;
};

/// Sets of the user's own pictures are read from such a source.
struct PictureSource {
  std::filesystem::path path;
  double test_fraction = 0.1;  // of each class, where the set has no test pictures of its own
  std::uint64_t seed = 1;      // of that choice
  // A rank may have a part of what is learnt. One class is then enough, and test pictures may have
  // other classes than training pictures.
  bool is_part = false;
  bool needs_test = true;  // false: no picture is for testing
  // false: where test pictures have a place of their own, those of training are not looked for
  bool needs_train = true;
};

/// A folder with train/CLASS/... and test/CLASS/..., or as find_test_part() calls it; without a
/// test set a part of each class is one; without train/ the folder's own subfolders are the
/// classes. Classes are sorted by name, pictures of a class by name, and classes take turns, so
/// that the first pictures are of all classes. Names that begin with a dot and files that are not
/// called *.jpg, *.jpeg, *.png or *.webp are left out; a note counts them, except for hidden files
/// that are no pictures either.
/// @throws Error{data}: one sentence for each way in which a folder can be wrong
PictureLists list_folder(const PictureSource& source);

/// Archives train-*.tar and test-*.tar, or as find_test_part() calls them, of KEY.jpg (.jpeg, .png,
/// .webp) with KEY.cls, the class's number; classes.txt, if there is one, has a name for each
/// number, one per line. In the order of archives by name and of pictures in them. Members below
/// names that begin with a dot are left out, as are those of other endings.
/// @throws Error{data}
PictureLists list_shards(const PictureSource& source);

/// The archives that list_shards() reads, and classes.txt.
/// @throws Error{data}
std::vector<std::filesystem::path> files_of_shards(const PictureSource& source);

/// Takes a part of each class out of `all`, a pure function of seed, class name and the number of
/// its pictures: at least one, and at least one stays.
/// @throws Error{data} if a class has a single picture
PictureLists split_off_test(const PictureList& all, std::vector<std::string> class_names,
                            double fraction, std::uint64_t seed);

/// The bytes of a whole file, or of a part of one.
/// @throws Error{data} with a reason, without the name
void read_whole_file(const std::filesystem::path& file, std::vector<std::uint8_t>& out);
void read_part_of_file(const std::filesystem::path& file, std::uint64_t offset, std::size_t bytes,
                       std::vector<std::uint8_t>& out);

/// Returns what is at `place`; a link must lead to something below `root`, which is canonical.
/// @throws Error{data}
std::filesystem::file_type kind_inside(const std::filesystem::path& root,
                                       const std::filesystem::path& place);

/// True for *.jpg, *.jpeg, *.png and *.webp in any case.
bool has_picture_ending(std::string_view name);

}  // namespace eqt::data
