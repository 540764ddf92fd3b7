// SPDX-License-Identifier: Apache-2.0
// A folder of pictures with a folder for each class, as torchvision's ImageFolder has it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "data/class_names.hpp"
#include "data/files.hpp"
#include "data/pictures/picture_list.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 8;  // of folders inside a class: links may form a circle

constexpr std::string_view kLayout =
    "data.path must name a folder with train/CLASS/ and test/CLASS/ or val/CLASS/, or with a "
    "folder for each class";

/// Names of pictures by class, relative to the root.
using ByClass = std::map<std::string, std::vector<std::string>>;

class Scan {
 public:
  explicit Scan(const fs::path& path) {
    if (path.empty())
      fail(Kind::data, "data.path: expected the folder of the pictures, found none; {}", kLayout);
    std::error_code error;
    root_ = fs::canonical(path, error);
    if (error || !fs::is_directory(root_, error)) {
      fail(Kind::data, "expected a folder with pictures at {}, found {}; {}", path.string(),
           fs::exists(path, error) ? "something else" : "nothing", kLayout);
    }
  }

  const fs::path& root() const { return root_; }

  bool has(std::string_view part) const {
    std::error_code error;
    const fs::path place = root_ / part;
    return fs::exists(fs::symlink_status(place, error)) &&
           kind_inside(root_, place) == fs::file_type::directory;
  }

  /// What lies beside train/ and the part for testing is left out.
  void leave_out_beside(const std::string& test_part) {
    for (const std::string& name : names_in(root_))
      if (name != "train" && name != test_part) left_out_.add(name);
  }
  const LeftOut& left_out() const { return left_out_; }

  /// The classes of the folder root / part ("": the root itself).
  ByClass classes_in(const std::string& part) {
    const fs::path folder = part.empty() ? root_ : root_ / part;
    ByClass found;
    for (const std::string& name : names_in(folder)) {
      const fs::path inner = folder / name;
      if (kind_inside(root_, inner) != fs::file_type::directory) {
        left_out_.add(part.empty() ? name : part + "/" + name);
        continue;
      }
      std::vector<std::string>& pictures = found[name];
      collect(part.empty() ? name : part + "/" + name, 0, pictures);
      if (pictures.empty()) {
        fail(Kind::data,
             "{}: expected pictures (.jpg, .jpeg, .png or .webp), found none; remove the folder if "
             "it is no class",
             inner.string());
      }
    }
    return found;
  }

 private:
  /// Sorted by bytes; without those that begin with a dot.
  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (!name.starts_with('.')) names.push_back(std::move(name));
    }
    if (error)
      fail(Kind::data, "the folder {} cannot be read: {}", folder.string(), error.message());
    std::ranges::sort(names);
    return names;
  }

  /// The pictures below root / folder; those of inner folders, too.
  void collect(const std::string& folder, int depth, std::vector<std::string>& pictures) {
    if (depth > kMaxDepth) {
      fail(Kind::data, "{}: expected folders at most {} deep, found more; do links form a circle?",
           (root_ / folder).string(), kMaxDepth);
    }
    std::error_code error;
    fs::directory_iterator entry(root_ / folder, error);
    std::vector<std::pair<std::string, bool>> found;  // name, is a folder
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (name.starts_with('.')) {
        if (has_picture_ending(name)) left_out_.add(folder + "/" + name);
        continue;
      }
      // The folder says what most entries are, so that files need not be touched.
      std::error_code unknown;
      const bool link = entry->is_symlink(unknown);
      const fs::file_type type =
          link ? kind_inside(root_, entry->path()) : entry->status(unknown).type();
      if (type == fs::file_type::directory) {
        found.emplace_back(std::move(name), true);
      } else if (has_picture_ending(name)) {
        found.emplace_back(std::move(name), false);
      } else {
        left_out_.add(folder + "/" + name);
      }
    }
    if (error) {
      fail(Kind::data, "the folder {} cannot be read: {}", (root_ / folder).string(),
           error.message());
    }
    std::ranges::sort(found);
    for (const auto& [name, is_folder] : found) {
      const std::string inner = folder + "/" + name;
      if (is_folder) {
        collect(inner, depth + 1, pictures);
      } else {
        pictures.push_back(inner);
      }
    }
  }

  fs::path root_;
  LeftOut left_out_;
};

/// Parts under other names would be taken for classes, and learnt as such.
void require_no_parts(const ByClass& classes, const fs::path& root) {
  std::string train, test;
  for (const auto& [name, pictures] : classes) {
    const std::string lower = lower_case(name);
    if (lower == "train" || lower == "training") train = name;
    if (lower == "test" || lower == "testing" || lower == "val" || lower == "valid" ||
        lower == "validation")
      test = name;
  }
  if (train.empty() || test.empty()) return;
  fail(Kind::data,
       "{}: expected train/ and test/, or a folder for each class, found {}/ and {}/; rename them "
       "to train/ and test/",
       root.string(), train, test);
}

/// Labels by name.
std::map<std::string, int> labels_of_classes(const std::vector<std::string>& names) {
  std::map<std::string, int> labels;
  for (const std::string& name : names) labels.emplace(name, static_cast<int>(labels.size()));
  return labels;
}

/// The classes take turns: the first picture of each, the second of each, ...
PictureList in_turns(const Scan& scan, const std::string& part, const ByClass& found,
                     const std::vector<std::string>& classes) {
  const std::map<std::string, int> labels = labels_of_classes(classes);
  PictureList list(scan.root());
  std::size_t longest = 0;
  for (const auto& [name, pictures] : found) {
    if (!labels.contains(name)) {
      require_unlike(classes, name, (scan.root() / part).string());
      fail(Kind::data, "{}: expected a class of the training pictures, found \"{}\"; one of {}",
           (scan.root() / part).string(), name, fmt::join(classes, ", "));
    }
    longest = std::max(longest, pictures.size());
  }
  for (std::size_t i = 0; i < longest; ++i)
    for (const auto& [name, pictures] : found)
      if (i < pictures.size()) list.add(pictures[i], labels.at(name));
  return list;
}

}  // namespace

PictureLists list_folder(const PictureSource& source) {
  Scan scan(source.path);
  const std::string train_part = scan.has("train") ? "train" : "";
  std::vector<std::string> notes;
  const std::string test_part =
      find_test_part([&](std::string_view name) { return scan.has(name); }, "/", notes);
  if (!test_part.empty() && !source.needs_train) {
    const ByClass tests = scan.classes_in(test_part);
    PictureLists lists;
    for (const auto& [name, pictures] : tests) lists.class_names.push_back(name);
    require_usable_classes(lists.class_names, (scan.root() / test_part).string(), 1);
    lists.test = in_turns(scan, test_part, tests, lists.class_names);
    scan.left_out().note(scan.root().string(), notes);
    lists.notes = std::move(notes);
    return lists;
  }
  if (train_part.empty() && !test_part.empty()) {
    fail(Kind::data, "{}: expected a folder train/ beside {}/, found none; {}",
         scan.root().string(), test_part, kLayout);
  }
  if (!train_part.empty()) scan.leave_out_beside(test_part);
  const ByClass train = scan.classes_in(train_part);
  if (train.empty())
    fail(Kind::data, "{}: expected a folder for each class, found none; {}",
         (scan.root() / train_part).string(), kLayout);
  if (train_part.empty()) require_no_parts(train, scan.root());
  ByClass tests;
  if (!test_part.empty() && source.needs_test) {
    tests = scan.classes_in(test_part);
    if (tests.empty())
      fail(
          Kind::data,
          "{}: expected a folder for each class, found none; remove it, and a part of the training "
          "pictures becomes the test set",
          (scan.root() / test_part).string());
  }
  std::set<std::string> found;
  for (const auto& [name, pictures] : train) found.insert(name);
  if (source.is_part)
    for (const auto& [name, pictures] : tests) found.insert(name);
  std::vector<std::string> names(found.begin(), found.end());
  require_usable_classes(names, (scan.root() / train_part).string(), source.is_part ? 1 : 2);
  if (!test_part.empty() && source.test_fraction != PictureSource().test_fraction)
    notes.push_back(fmt::format("data.test_fraction has no effect beside {}/", test_part));
  scan.left_out().note(scan.root().string(), notes);
  PictureList all = in_turns(scan, train_part, train, names);
  PictureLists lists;
  if (source.needs_test && test_part.empty())
    lists = split_off_test(all, std::move(names), source.test_fraction, source.seed);
  else
    lists = {std::move(all), in_turns(scan, test_part, tests, names), names};
  lists.notes = std::move(notes);
  return lists;
}

}  // namespace eqt::data
