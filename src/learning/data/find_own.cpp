// SPDX-License-Identifier: Apache-2.0
#include "data/find_own.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "data/array_set.hpp"
#include "data/class_names.hpp"
#include "data/pictures/picture.hpp"
#include "data/pictures/picture_list.hpp"
#include "data/text/rows.hpp"
#include "data/text/unicode.hpp"
#include "data/text/word_piece.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKnownKinds =
    "a folder of pictures for each class, train-*.tar, x_train.npy and y_train.npy, train.csv and "
    "test.csv or one table, train.txt, or the files of Fashion-MNIST or CIFAR";

/// The names in a folder, sorted; without those that begin with a dot.
struct FolderNames {
  std::vector<std::string> files, folders;

  bool has(std::string_view name) const {
    return std::ranges::binary_search(files, name) || std::ranges::binary_search(folders, name);
  }
};

FolderNames names_below(const fs::path& folder) {
  FolderNames names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unknown;
    (entry->is_directory(unknown) ? names.folders : names.files).push_back(name);
  }
  if (error) fail(Kind::data, "the folder {} cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(names.files);
  std::ranges::sort(names.folders);
  return names;
}

bool has_pictures(const FolderNames& names) {
  return std::ranges::any_of(names.files, has_picture_ending);
}

/// True if there are pictures in the folder or at most `depth` below.
bool leads_to_pictures(const fs::path& folder, int depth) {
  const FolderNames names = names_below(folder);
  if (has_pictures(names)) return true;
  return depth > 0 && std::ranges::any_of(names.folders, [&](const std::string& name) {
           return leads_to_pictures(folder / name, depth - 1);
         });
}

constexpr int kDeepestLook = 3;

/// @throws Error{data} if no class has pictures of its own, but folders that have them: one of the
/// levels is meant, and only who made them knows which
void require_flat_classes(const fs::path& root, const FolderNames& names) {
  std::string deep;
  for (const std::string& name : names.folders) {
    const FolderNames inner = names_below(root / name);
    if (has_pictures(inner)) return;
    for (const std::string& one : inner.folders)
      if (deep.empty() && leads_to_pictures(root / name / one, kDeepestLook))
        deep = name + "/" + one;
  }
  if (deep.empty()) return;
  fail(Kind::data,
       "{}: expected folders of classes with pictures in them, found folders in folders such as "
       "{}; name the one whose folders are the classes",
       root.string(), deep);
}

/// Returns the first name of a file that begins and ends so, as train-*.tar; "" if there is none.
std::string first_called(const FolderNames& names, std::string_view begin, std::string_view end) {
  const auto found = std::ranges::find_if(names.files, [&](const std::string& name) {
    return name.starts_with(begin) && name.ends_with(end);
  });
  return found == names.files.end() ? "" : *found;
}

/// True for a cell that a table of numbers may have. Empty cells are for the reader to refuse.
bool is_numeric_cell(std::string_view cell) {
  cell = without_space(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return cell.empty() || (error != std::errc::invalid_argument && end == cell.data() + cell.size());
}

bool may_be_name(std::string_view cell) {
  return without_space(cell).empty() || !is_numeric_cell(cell);
}

/// Tells a table of texts from one of numbers with a column or two of names, by its first rows:
/// a text has words, or is alone beside its class.
bool holds_texts(const fs::path& table, RowFormat format) {
  constexpr std::size_t kRows = 200;
  constexpr std::size_t kLabelAndText = 2;
  std::size_t rows = 0, columns = 0;
  bool has_names = false, has_words = false;
  read_fields(table, format, kLongestTableRow,
              [&](std::vector<std::string>&& fields, std::uint64_t) {
                const bool is_first = rows++ == 0;
                if (rows > kRows) return;
                columns = std::max(columns, fields.size());
                if (is_first && std::ranges::all_of(fields, may_be_name)) return;  // a heading
                for (const std::string& field : fields) {
                  if (is_numeric_cell(field)) continue;
                  has_names = true;
                  has_words = has_words || without_space(field).find(' ') != std::string_view::npos;
                }
              });
  return has_words || (has_names && columns <= kLabelAndText);
}

/// @param path for data.path: the table itself, or its folder
FoundSet set_of_table(const fs::path& table, const fs::path& path) {
  const RowFormat format = format_of_rows(table).value();
  if (format == RowFormat::json_lines || holds_texts(table, format))
    return {.set = sets::text, .path = path};
  if (format == RowFormat::tsv)
    fail(Kind::data,
         "{}: expected texts in a table with tabs, found numbers; write them with commas as .csv",
         table.string());
  return {.set = sets::arrays, .path = path};
}

/// The tables of a folder: train.csv, or the only one.
std::optional<FoundSet> find_tables(const fs::path& folder, const FolderNames& names) {
  std::vector<std::string> tables;
  for (const std::string& name : names.files)
    if (format_of_rows(name)) tables.push_back(name);
  if (tables.empty()) return std::nullopt;
  const auto train = std::ranges::find_if(
      tables, [](const std::string& name) { return fs::path(name).stem() == "train"; });
  if (train != tables.end()) return set_of_table(folder / *train, folder);
  if (tables.size() == 1) return set_of_table(folder / tables.front(), folder / tables.front());
  fail(Kind::data,
       "{}: expected train.csv and test.csv (or .tsv, .jsonl) or a single table, found {} and {}; "
       "rename them, or name one of them",
       folder.string(), tables[0], tables[1]);
}

/// Sets whose files are always called the same.
std::optional<FoundSet> find_known(const fs::path& folder, const FolderNames& names) {
  if (names.has("train-images-idx3-ubyte") || names.has("train-images-idx3-ubyte.gz"))
    return FoundSet{.set = sets::fashion_mnist, .path = folder};
  if (names.has("cifar-10-batches-bin") || names.has("data_batch_1.bin"))
    return FoundSet{.set = sets::cifar10, .path = folder};
  if (names.has("cifar-100-binary") || (names.has("train.bin") && names.has("test.bin")))
    return FoundSet{.set = sets::cifar100, .path = folder};
  for (const std::string_view name :
       {"cifar-10-batches-py", "cifar-100-python", "data_batch_1", "data_batch_1.mat"})
    if (names.has(name))
      fail(Kind::data,
           "{}: expected CIFAR's binary version, found {}, another one; scripts/get_data.sh gets "
           "it",
           folder.string(), name);
  return std::nullopt;
}

std::optional<FoundSet> find_arrays(const fs::path& folder, const FolderNames& names) {
  if (names.has("x_train.npy")) return FoundSet{.set = sets::arrays, .path = folder};
  if (const std::string other = first_called(names, "", ".npy"); !other.empty())
    fail(Kind::data,
         "{}: expected x_train.npy, y_train.npy, x_test.npy and y_test.npy, found {}; rename the "
         "arrays",
         folder.string(), other);
  return std::nullopt;
}

std::optional<FoundSet> find_tars(const fs::path& folder, const FolderNames& names) {
  if (!first_called(names, "train-", ".tar").empty())
    return FoundSet{.set = sets::shards, .path = folder};
  if (const std::string other = first_called(names, "", ".tar"); !other.empty())
    fail(Kind::data, "{}: expected train-*.tar and test-*.tar, found {}; rename the archives",
         folder.string(), other);
  return std::nullopt;
}

std::optional<FoundSet> find_pictures(const fs::path& folder, const FolderNames& names) {
  if (has_pictures(names))
    fail(Kind::data,
         "{}: expected a folder of pictures for each class, found pictures beside each other such "
         "as {}; put those of each class into a folder called like it",
         folder.string(), *std::ranges::find_if(names.files, has_picture_ending));
  const bool leads = std::ranges::any_of(names.folders, [&](const std::string& name) {
    return leads_to_pictures(folder / name, kDeepestLook);
  });
  if (!leads) return std::nullopt;
  const fs::path classes = names.has("train") ? folder / "train" : folder;
  require_flat_classes(classes, names_below(classes));
  return FoundSet{.set = sets::folder, .path = folder};
}

FoundSet find_in_folder(const fs::path& folder) {
  const FolderNames names = names_below(folder);
  if (names.files.empty() && names.folders.empty())
    fail(Kind::data, "{}: expected {}, found an empty folder", folder.string(), kKnownKinds);
  std::vector<FoundSet> found;
  for (const auto find : {find_known, find_arrays, find_tables, find_tars, find_pictures})
    if (auto set = find(folder, names)) found.push_back(*set);
  if (names.has("train.txt"))
    found.push_back({.set = sets::text, .path = folder, .is_stream = true});
  if (found.size() > 1)
    fail(Kind::data,
         "{}: expected one kind of data, found that of data.name \"{}\" and of \"{}\"; keep each "
         "in a folder of its own",
         folder.string(), found[0].set->name, found[1].set->name);
  if (found.size() == 1) return found.front();
  fail(Kind::data, "{}: expected {}, found {}{}; name the folder that has them", folder.string(),
       kKnownKinds, names.folders.empty() ? "only files such as " : "neither, but the folder ",
       shown_name(names.folders.empty() ? names.files.front() : names.folders.front()));
}

/// Calls `take` with each training text.
void for_each_training_text(const FoundSet& found,
                            const std::function<void(std::string_view)>& take) {
  if (found.is_stream) return read_lines(found.path / "train.txt", take);
  fs::path table = found.path;
  std::error_code error;
  if (fs::is_directory(table, error)) {
    const FolderNames names = names_below(found.path);
    for (const std::string_view name : {"train.csv", "train.tsv", "train.jsonl"})
      if (names.has(name)) table = found.path / name;
  }
  read_rows(table, format_of_rows(table).value_or(RowFormat::csv),
            [&](Row&& row) { take(row.text); });
}

/// WordPiece without words, for the way in which it cuts texts into words.
WordPiece cutter_of_words() {
  return {std::make_shared<const Vocabulary>("[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "no file"), true};
}

/// Returns true for rows of whole numbers without a file of targets.
bool are_token_rows(const fs::path& folder) {
  std::error_code error;
  const fs::path x = folder / "x_train.npy";
  if (!fs::exists(x, error) || fs::exists(folder / "y_train.npy", error)) return false;
  const auto source = open_npy(x);
  return source->whole() && source->shape().size() == 1;
}

}  // namespace

FoundSet find_own(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return find_in_folder(path);
  if (!fs::is_regular_file(path, error))
    fail(Kind::data, "expected a folder or a file at {}, found {}", path.string(),
         fs::exists(path, error) ? "something else" : "nothing");
  if (!format_of_rows(path))
    fail(Kind::data,
         "{}: expected a table (.csv, .tsv or .jsonl), a TorchScript network (.pt) or a folder, "
         "found another file; name its folder",
         path.string());
  const std::string part = path.stem().string();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return set_of_table(path, part == "train" || part == "test" ? folder : path);
}

PictureSizes sizes_of_pictures(const DatasetOptions& options) {
  constexpr std::size_t kMost = 64;
  const bool in_folder = options.set == sets::folder;
  const PictureSource source{.path = options.path, .seed = options.seed, .needs_test = false};
  const PictureLists lists = in_folder ? list_folder(source) : list_shards(source);
  const std::size_t count = std::min(kMost, lists.train.size());
  std::vector<int> sides;
  PictureSizes sizes;
  std::string first_error;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t picture = count == 1 ? 0 : i * (lists.train.size() - 1) / (count - 1);
    try {
      std::vector<std::uint8_t> bytes;
      lists.train.read(picture, bytes);
      const auto opened = open_picture(bytes);
      sides.push_back(std::min(opened->width(), opened->height()));
      PicturePart part;
      opened->decode({0, 0, opened->width(), opened->height()}, 1, 3, part);
      const std::size_t pixels = part.pixels.size() / 3;
      for (std::size_t p = 0; p < pixels && !sizes.has_colour; ++p)
        sizes.has_colour = part.pixels[3 * p] != part.pixels[3 * p + 1] ||
                           part.pixels[3 * p] != part.pixels[3 * p + 2];
    } catch (const Error& error) {
      if (first_error.empty())
        first_error = fmt::format("{}: {}", lists.train.name(picture), error.what());
    }
  }
  if (sides.empty())
    fail(Kind::data, "expected pictures that can be read, found none; the first is {}",
         first_error);
  sizes.looked_at = sides.size();
  std::ranges::sort(sides);
  sizes.middle_side = sides[sides.size() / 2];
  return sizes;
}

std::vector<std::size_t> lengths_of_texts(const FoundSet& found) {
  const WordPiece cutter = cutter_of_words();
  std::vector<std::size_t> lengths;
  for_each_training_text(found, [&](std::string_view text) {
    lengths.push_back(words_of(cutter.normalized(text)).size());
  });
  return lengths;
}

std::string vocabulary_of_texts(const FoundSet& found) {
  constexpr std::size_t kMostWords = 8000;
  const WordPiece cutter = cutter_of_words();
  std::map<std::u32string, std::size_t> counts;
  std::set<char32_t> characters;
  for_each_training_text(found, [&](std::string_view text) {
    const std::u32string normal = cutter.normalized(text);
    for (const std::u32string_view word : words_of(normal)) {
      ++counts[std::u32string(word)];
      characters.insert(word.begin(), word.end());
    }
  });
  std::vector<std::pair<std::size_t, std::u32string>> frequent;
  for (const auto& [word, count] : counts)
    if (count > 1 && word.size() > 1) frequent.emplace_back(count, word);
  std::ranges::stable_sort(frequent, std::ranges::greater{},
                           [](const auto& word) { return word.first; });
  if (frequent.size() > kMostWords) frequent.resize(kMostWords);
  std::string file = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const std::string_view begin : {"", "##"})
    for (const char32_t character : characters) {
      file += begin;
      append_utf8(character, file);
      file += '\n';
    }
  for (const auto& [count, word] : frequent) {
    for (const char32_t character : word) append_utf8(character, file);
    file += '\n';
  }
  return file;
}

FoundTargets look_at_targets(const DatasetOptions& options) {
  constexpr std::size_t kAtOnce = 1024;  // samples
  constexpr double kMostClasses = 100;
  if (are_token_rows(options.path)) return {.kind = TargetKind::tokens};
  DatasetOptions as_values = options;
  as_values.target = TargetKind::values;
  as_values.needs_test = false;
  const DatasetPair pair = open_dataset(as_values);
  std::vector<double> targets;
  Batch batch;
  for (std::size_t begin = 0; begin < pair.train->size(); begin += kAtOnce) {
    std::vector<std::size_t> samples(std::min(kAtOnce, pair.train->size() - begin));
    std::iota(samples.begin(), samples.end(), begin);
    pair.train->read(samples, std::nullopt, batch);
    const std::span<const float> found = batch.targets.get<float>();
    targets.insert(targets.end(), found.begin(), found.end());
  }
  const auto is_label = [](double target) {
    return target >= 0 && target < kMostClasses && target == std::floor(target);
  };
  const auto is_flag = [](double target) { return target == 0 || target == 1; };
  if (targets.size() > pair.train->size())
    return {.kind = std::ranges::all_of(targets, is_flag) ? TargetKind::flags : TargetKind::values};
  const std::set<double> values(targets.begin(), targets.end());
  if (values.size() == 1)
    fail(Kind::data,
         "{}: expected targets of two classes at least, or numbers that differ, found {} for all "
         "samples",
         options.path, *values.begin());
  if (values.size() == targets.size() || !std::ranges::all_of(values, is_label)) return {};
  return {.kind = TargetKind::classes, .classes = static_cast<int>(*values.rbegin()) + 1};
}

}  // namespace eqt::data
