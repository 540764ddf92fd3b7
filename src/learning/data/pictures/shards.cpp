// SPDX-License-Identifier: Apache-2.0
// Archives of pictures in WebDataset's layout: a sample is the files of one key, the name up to the
// first dot of its last part, which lie one after the other. What follows is the ending, ".jpg" or
// ".seg.png".
//
// Source   github.com/webdataset/webdataset; POSIX tar (pax and ustar) and GNU's, by libarchive

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "data/class_names.hpp"
#include "data/files.hpp"
#include "data/pictures/picture_list.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLabelBytes = 64;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr int kMaxClasses = 1 << 20;
constexpr std::size_t kFewClasses = 1024;      // that any set may have
constexpr std::size_t kBlockBytes = 64 << 10;  // read at once; pictures are skipped

struct FreeArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

constexpr std::string_view kRemedy = "write it anew in WebDataset's layout";

/// A member of an archive that is a file.
struct Member {
  std::string name;
  std::uint64_t offset = 0;  // of its bytes in the archive
  std::uint64_t bytes = 0;
};

class TarReader {
 public:
  explicit TarReader(const fs::path& file) : file_(file), archive_(archive_read_new()) {
    EQT_CHECK(archive_ != nullptr, "libarchive has no memory");
    std::error_code error;
    if (!fs::is_regular_file(file, error))
      fail(Kind::data, "expected an archive {}, found no regular file", file.string());
    archive_bytes_ = fs::file_size(file, error);
    // Plain tar alone: where a member begins in a packed archive says nothing.
    archive_read_support_format_tar(archive_.get());
    if (archive_read_open_filename(archive_.get(), file.c_str(), kBlockBytes) != ARCHIVE_OK)
      broken();
  }

  /// The next file; nothing at the end.
  std::optional<Member> next() {
    while (true) {
      archive_entry* entry = nullptr;
      const int status = archive_read_next_header(archive_.get(), &entry);
      if (status == ARCHIVE_EOF) {
        require_closed(archive_read_header_position(archive_.get()));
        return std::nullopt;
      }
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN) broken();
      Member member = {.name = name_of(entry)};
      if (archive_entry_filetype(entry) == AE_IFDIR) continue;
      if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
          archive_entry_sparse_count(entry) > 0 || archive_entry_size_is_set(entry) == 0) {
        fail(Kind::data, "{}: expected plain files alone, found {}, which is not one; {}",
             file_.string(), member.name, kRemedy);
      }
      const la_int64_t position = archive_filter_bytes(archive_.get(), 0);
      const la_int64_t bytes = archive_entry_size(entry);
      if (position < 0 || bytes < 0) broken();
      member.offset = static_cast<std::uint64_t>(position);
      member.bytes = static_cast<std::uint64_t>(bytes);
      if (member.offset > archive_bytes_ || member.bytes > archive_bytes_ - member.offset) {
        fail(Kind::data, "{}: expected {} bytes for {}, found the end of the archive; get it again",
             file_.string(), member.bytes, member.name);
      }
      return member;
    }
  }

  /// The bytes of the member that next() gave last, at most `most`.
  std::string text(std::size_t most) {
    std::string found(most + 1, '\0');
    const la_ssize_t got = archive_read_data(archive_.get(), found.data(), found.size());
    if (got < 0) broken();
    found.resize(static_cast<std::size_t>(got));
    return found;
  }

 private:
  [[noreturn]] void broken() {
    const char* const text = archive_error_string(archive_.get());
    std::string reason = text != nullptr ? text : "unknown error";
    std::ranges::replace_if(
        reason, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    fail(Kind::data, "{}: expected a tar archive that is not packed, found another file ({}); {}",
         file_.string(), reason, kRemedy);
  }

  /// Two blocks of zeros end an archive, and more may fill it up. libarchive takes the end of the
  /// file for that of the archive, and ignores what follows the blocks.
  /// @param end where it found no further header [bytes]
  void require_closed(la_int64_t end) {
    constexpr std::size_t kClosing = 2 * 512;
    std::ifstream file(file_, std::ios::binary);
    std::array<char, 4096> block;
    std::uint64_t zeros = 0;
    file.seekg(end);
    while (file.read(block.data(), block.size()) || file.gcount() > 0) {
      const auto got = static_cast<std::size_t>(file.gcount());
      if (std::any_of(block.begin(), block.begin() + got, [](char c) { return c != 0; }))
        fail(Kind::data,
             "{}: expected zeros after the end of the archive at byte {}, found something else; "
             "was another one appended? tar --concatenate joins archives",
             file_.string(), end);
      zeros += got;
    }
    if (zeros < kClosing)
      fail(Kind::data,
           "{}: expected {} bytes of zeros at the end of the archive, found {} at byte {}, so it "
           "was cut off; get it again",
           file_.string(), kClosing, zeros, end);
  }

  /// Nothing is ever unpacked, but a name that leads elsewhere is no honest one.
  std::string name_of(archive_entry* entry) {
    const char* const found = archive_entry_pathname(entry);
    std::string name = found != nullptr ? found : "";
    if (name.starts_with("./")) name.erase(0, 2);
    const bool odd = (name.empty() && archive_entry_filetype(entry) != AE_IFDIR) ||
                     name.size() > kMaxNameBytes ||
                     std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 127; });
    if (odd) {
      fail(Kind::data, "{}: expected names of 1 to {} printable characters, found another; {}",
           file_.string(), kMaxNameBytes, kRemedy);
    }
    const std::string inside = "/" + name + "/";
    if (name.starts_with('/') || inside.find("/../") != std::string::npos) {
      fail(Kind::data, "{}: expected names that stay inside the archive, found {}; {}",
           file_.string(), name, kRemedy);
    }
    return name;
  }

  fs::path file_;
  Archive archive_;
  std::uint64_t archive_bytes_ = 0;
};

/// These parts of a sample have been found so far.
struct Sample {
  std::string key;
  std::optional<Member> picture;
  std::optional<int> label;
  bool is_plain = false;  // the picture's ending has one dot
  std::string dotted;     // a picture's or class's name whose ending has more; "": none so far
};

int label_in(const std::string& text, const fs::path& file, const std::string& name) {
  std::string_view digits = text;
  while (!digits.empty() &&
         std::string_view(" \t\r\n").find(digits.back()) != std::string_view::npos)
    digits.remove_suffix(1);
  int label = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || label < 0 ||
      label >= kMaxClasses) {
    fail(Kind::data, "{}: expected the number of a class, from 0 on, in {}, found something else",
         file.string(), name);
  }
  return label;
}

/// @param found instead of a picture and a class
[[noreturn]] void refuse_sample(const Sample& sample, const fs::path& file,
                                std::string_view found) {
  if (sample.dotted.empty())
    fail(Kind::data, "{}: expected a picture and a class (.cls) for {}, found {}; {}",
         file.string(), printable(sample.key), found, kRemedy);
  fail(
      Kind::data,
      "{}: expected a picture and a class (.cls) for the key {}, found {}; a key ends at the first "
      "dot of a name, so that {} has this key: write keys without dots",
      file.string(), printable(sample.key), found, printable(sample.dotted));
}

void close_sample(const Sample& sample, const fs::path& file, std::size_t archive,
                  PictureList& list) {
  const bool is_empty = !sample.picture && !sample.label;
  if (is_empty && sample.dotted.empty()) return;
  if (!sample.picture) refuse_sample(sample, file, "no picture");
  if (!sample.label) refuse_sample(sample, file, "no class");
  if (sample.picture->bytes > kMaxPictureBytes) {
    fail(Kind::data, "{}: expected at most {} bytes for {}, found {}", file.string(),
         kMaxPictureBytes, sample.picture->name, sample.picture->bytes);
  }
  list.add(sample.picture->name, *sample.label, archive, sample.picture->offset,
           static_cast<std::uint32_t>(sample.picture->bytes));
}

/// Returns true where the name or a folder in it begins with a dot; macOS and others keep such
/// files beside others.
bool is_hidden(std::string_view name) {
  return name.starts_with('.') || name.find("/.") != std::string_view::npos;
}

void add_archive(const fs::path& folder, const std::string& name, PictureList& list,
                 LeftOut& left_out) {
  const fs::path file = folder / name;
  const std::size_t archive = list.add_archive(name);
  TarReader reader(file);
  Sample sample;
  while (auto member = reader.next()) {
    if (is_hidden(member->name)) {
      if (has_picture_ending(member->name)) left_out.add(name + ": " + member->name);
      continue;
    }
    const std::size_t slash = member->name.rfind('/');
    const std::size_t dot = member->name.find('.', slash == std::string::npos ? 0 : slash + 1);
    if (dot == std::string::npos) {  // without a key: a note of its author
      left_out.add(name + ": " + member->name);
      continue;
    }
    const std::string key = member->name.substr(0, dot), ending = member->name.substr(dot);
    if (key != sample.key) {
      close_sample(sample, file, archive, list);
      sample = {.key = key, .picture = {}, .label = {}, .is_plain = false, .dotted = {}};
    }
    const bool is_plain = ending.find('.', 1) == std::string::npos;
    const bool is_picture = has_picture_ending(ending);
    if (!is_plain && sample.dotted.empty() && (is_picture || ending.ends_with(".cls")))
      sample.dotted = member->name;
    if (ending == ".cls") {
      if (sample.label) refuse_sample(sample, file, "two classes");
      sample.label = label_in(reader.text(kMaxLabelBytes), file, member->name);
    } else if (is_picture && (!sample.picture || is_plain != sample.is_plain)) {
      // A picture KEY.jpg counts, not its KEY.seg.png.
      if (sample.picture) left_out.add(name + ": " + (is_plain ? *sample.picture : *member).name);
      if (sample.picture && !is_plain) continue;
      sample.picture = std::move(member);
      sample.is_plain = is_plain;
    } else if (is_picture) {
      refuse_sample(sample, file, "two pictures");
    } else {
      left_out.add(name + ": " + member->name);
    }
  }
  close_sample(sample, file, archive, list);
}

/// The archives whose names begin so, sorted. Links must stay in the folder.
std::vector<std::string> archives_in(const fs::path& folder, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".tar")) names.push_back(std::move(name));
  }
  const fs::path root = error ? folder : fs::canonical(folder, error);
  if (error) {
    fail(Kind::data,
         "the folder {} cannot be read: {}; data.path must name a folder with train-*.tar",
         folder.string(), error.message());
  }
  for (const std::string& name : names) kind_inside(root, root / name);
  std::ranges::sort(names);
  return names;
}

PictureList list_part(const fs::path& folder, const std::vector<std::string>& archives,
                      LeftOut& left_out) {
  PictureList list(folder);
  for (const std::string& name : archives) add_archive(folder, name, list, left_out);
  if (list.size() == 0) {
    fail(Kind::data, "{}: expected samples in {}, found none", folder.string(),
         fmt::join(archives, ", "));
  }
  return list;
}

int classes_in(const PictureList& list) {
  int classes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) classes = std::max(classes, list.label(i) + 1);
  return classes;
}

/// The names of the classes that the archives have.
/// @param samples bounds the classes without names: a single label must not make a million of them
std::vector<std::string> class_names(const PictureSource& source, int classes,
                                     std::size_t samples) {
  std::vector<std::string> names =
      read_class_names(source.path).value_or(std::vector<std::string>());
  const std::size_t most = std::max(samples, kFewClasses);
  if (names.empty() && static_cast<std::size_t>(classes) > most) {
    fail(Kind::data,
         "{}: expected classes below {}, found {} among {} samples; if there are so many, name "
         "them in classes.txt",
         source.path.string(), most, classes - 1, samples);
  }
  if (names.empty())
    for (int c = 0; c < classes; ++c) names.push_back(fmt::format("{}", c));
  if (names.size() < static_cast<std::size_t>(classes)) {
    fail(Kind::data, "{}: expected a class below {}, as there are names, found {}",
         source.path.string(), names.size(), classes - 1);
  }
  require_usable_classes(names, source.path.string(), source.is_part ? 1 : 2);
  return names;
}

/// Names of archives.
struct Archives {
  std::vector<std::string> train;  // none where nothing is trained
  std::vector<std::string> test;   // none, and a part of training is for testing
};

Archives find_archives(const PictureSource& source, std::vector<std::string>& notes) {
  if (source.path.empty())
    fail(Kind::data, "data.path: expected a folder with train-*.tar, found none");
  const auto archives_of = [&](std::string_view part) {
    return archives_in(source.path, std::string(part) + "-");
  };
  Archives found;
  const std::string test_part = find_test_part(
      [&](std::string_view part) { return !archives_of(part).empty(); }, "-*.tar", notes);
  if (!test_part.empty() && source.needs_test) found.test = archives_of(test_part);
  if (!found.test.empty() && !source.needs_train) return found;
  found.train = archives_of("train");
  if (found.train.empty()) {
    fail(Kind::data,
         "{}: expected archives train-*.tar, found none; data.path must name a folder "
         "with train-*.tar and test-*.tar in WebDataset's layout",
         source.path.string());
  }
  return found;
}

}  // namespace

std::vector<fs::path> files_of_shards(const PictureSource& source) {
  std::vector<std::string> notes;
  const Archives archives = find_archives(source, notes);
  std::vector<fs::path> files;
  for (const auto* names : {&archives.train, &archives.test})
    for (const std::string& name : *names) files.push_back(source.path / name);
  if (fs::path names = class_names_file(source.path); !names.empty())
    files.push_back(std::move(names));
  return files;
}

PictureLists list_shards(const PictureSource& source) {
  PictureLists lists;
  LeftOut left_out;
  const auto [train_archives, test_archives] = find_archives(source, lists.notes);
  if (!train_archives.empty()) lists.train = list_part(source.path, train_archives, left_out);
  const bool has_test = !test_archives.empty();
  if (has_test) lists.test = list_part(source.path, test_archives, left_out);
  lists.class_names = class_names(source, std::max(classes_in(lists.train), classes_in(lists.test)),
                                  lists.train.size() + lists.test.size());
  left_out.note(source.path.string(), lists.notes);
  if (!has_test && source.needs_test) {
    auto notes = std::move(lists.notes);
    lists = split_off_test(lists.train, std::move(lists.class_names), source.test_fraction,
                           source.seed);
    lists.notes = std::move(notes);
  }
  return lists;
}

}  // namespace eqt::data
