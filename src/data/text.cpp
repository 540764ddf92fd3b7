// SPDX-License-Identifier: Apache-2.0
// Labelled texts of the user's own, in a folder with train.csv and test.csv, or .tsv or .jsonl, and
// perhaps classes.txt. For language models texts in train.txt and test.txt.
//
// Format   text/rows.hpp; AG News' files (X. Zhang, J. Zhao, Y. LeCun, NeurIPS 2015,
//          arXiv:1509.01626, section 4) are of this kind

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/class_names.hpp"
#include "data/files.hpp"
#include "data/text_classes.hpp"
#include "data/text_set.hpp"
#include "data/token_stream.hpp"
#include "text/rows.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemedy =
    "set data.path to a folder with train.csv and test.csv, .tsv or .jsonl";

struct RowFile {
  fs::path path;
  text::RowFormat format;
};

/// The folder's file with the rows of `part`: "train" or "test".
RowFile find_rows(const fs::path& folder, std::string_view part) {
  constexpr std::array<std::pair<std::string_view, text::RowFormat>, 3> kFormats = {
      {{".csv", text::RowFormat::csv},
       {".tsv", text::RowFormat::tsv},
       {".jsonl", text::RowFormat::json_lines}}};
  std::vector<RowFile> found;
  for (const auto& [ending, format] : kFormats) {
    const fs::path path = folder / (std::string(part) + std::string(ending));
    std::error_code error;
    if (fs::exists(path, error)) found.push_back({path, format});
  }
  if (found.size() == 1) return found.front();
  fail(Kind::data, "expected one of {}.csv, {}.tsv and {}.jsonl in {}, found {}; {}", part, part,
       part, folder.string(),
       found.empty()
           ? "none"
           : found[0].path.filename().string() + " and " + found[1].path.filename().string(),
       kRemedy);
}

fs::path folder_of(const DatasetOptions& options) {
  if (options.path.empty())
    fail(Kind::usage, "expected data.path with data.name \"{}\", found none; {}", sets::text.name,
         kRemedy);
  return find_folder(options.path, "", kRemedy);
}

/// Rows of a file, counted. @throws Error{data} for a file without any
std::size_t for_each_row(const RowFile& file, const std::function<void(text::Row&&)>& take) {
  std::size_t count = 0;
  text::read_rows(file.path, file.format, [&](text::Row&& row) {
    ++count;
    take(std::move(row));
  });
  if (count == 0)
    fail(Kind::data, "expected labelled texts in {}, found an empty file; {}", file.path.string(),
         kRemedy);
  return count;
}

/// The class of a row of the test set.
int class_in(const text::Row& row, const TextClasses& classes, const RowFile& file) {
  const int found = classes.find(without_space(row.label));
  if (found < 0)
    fail(Kind::data,
         "{}, line {}: expected a label that training has, one of {} classes, found \"{}\"; "
         "correct it or add it to the training set",
         file.path.string(), row.line, classes.names().size(), shown_label(row.label));
  return found;
}

/// The file of the test set, if this rank has one.
std::optional<RowFile> find_test(const fs::path& folder, const DatasetOptions& options) {
  return options.needs_test ? std::optional(find_rows(folder, "test")) : std::nullopt;
}

/// The classes of a set whose training labels have been numbered. Where a rank has a part of what
/// is learnt, its test set may have others.
TextClasses classes_of(const fs::path& folder, const RowFile& train,
                       const std::optional<RowFile>& test, const DatasetOptions& options,
                       LabelNumbers& labels) {
  if (test && options.is_part)
    for_each_row(*test,
                 [&](text::Row&& row) { labels.number(row.label, test->path.string(), row.line); });
  return {labels.labels(), read_class_names(folder), train.path.string(),
          std::size_t{options.is_part ? 1u : 2u}};
}

TextInput input_of(const DatasetOptions& options) {
  if (options.text.vocabulary.empty())
    fail(Kind::usage,
         "expected data.vocabulary with data.name \"{}\", found none; set it to a vocab.txt, or "
         "model.path to a folder that has one",
         sets::text.name);
  return TextInput(options.text);
}

/// The folder's text for a language model.
fs::path find_stream(const fs::path& folder, std::string_view part) {
  const std::string name = std::string(part) + ".txt";
  return find_file(folder, {name}, "set data.path to a folder with train.txt and test.txt");
}

DatasetFacts look_at_streams(const DatasetOptions& options) {
  const fs::path folder = folder_of(options);
  const TextInput input = input_of(options);
  DatasetFacts facts;
  facts.inputs = TokenStream::inputs_of(input);
  facts.target = TokenStream::target_of(input);
  std::uint64_t bytes = 0;  // a text has at most as many tokens
  const auto samples = [&](std::string_view part) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(find_stream(folder, part), error);
    bytes += error ? 0 : size;
    return static_cast<std::size_t>(error ? 0 : size) / options.text.max_length;
  };
  facts.train = samples("train");
  if (options.needs_test) facts.test = samples("test");
  facts.memory_bytes = bytes * sizeof(text::TokenId);
  return facts;
}

DatasetPair open_streams(const DatasetOptions& options) {
  const fs::path folder = folder_of(options);
  const auto input = std::make_shared<const TextInput>(input_of(options));
  DatasetPair pair;
  const auto open = [&](std::string_view part, std::size_t limit, std::string_view key) {
    auto stream = std::make_unique<TokenStream>(input, find_stream(folder, part), limit);
    require_limit(limit, stream->size(), key);
    return stream;
  };
  pair.train = open("train", options.limit_train, "data.limit_train");
  if (options.needs_test) pair.test = open("test", options.limit_test, "data.limit_test");
  pair.texts = input;
  return pair;
}

DatasetFacts look_at_texts(const DatasetOptions& options) {
  if (options.target == TargetKind::tokens) return look_at_streams(options);
  const fs::path folder = folder_of(options);
  const RowFile train = find_rows(folder, "train");
  const std::optional<RowFile> test = find_test(folder, options);
  const TextInput input = input_of(options);
  LabelNumbers labels;
  DatasetFacts facts;
  facts.inputs = input.specs();
  facts.train = for_each_row(
      train, [&](text::Row&& row) { labels.number(row.label, train.path.string(), row.line); });
  const TextClasses classes = classes_of(folder, train, test, options, labels);
  if (test)
    facts.test = for_each_row(*test, [&](text::Row&& row) { (void)class_in(row, classes, *test); });
  facts.classes = static_cast<int>(classes.names().size());
  facts.class_names = classes.names();
  facts.target = class_spec(facts.classes);
  const std::uint64_t sample =
      options.text.max_length * sizeof(text::TokenId) + sizeof(int) + sizeof(std::size_t);
  facts.memory_bytes = (facts.train + facts.test) * sample + input.vocabulary().size() * 128;
  return facts;
}

bool is_within(std::size_t read, std::size_t limit) { return limit == 0 || read < limit; }

DatasetPair open_texts(const DatasetOptions& options) {
  if (options.target == TargetKind::tokens) return open_streams(options);
  const fs::path folder = folder_of(options);
  const RowFile train = find_rows(folder, "train");
  const std::optional<RowFile> test = find_test(folder, options);
  const auto input = std::make_shared<const TextInput>(input_of(options));
  LabelNumbers labels;
  auto train_set = std::make_unique<TextSet>(input);
  // All rows are read, since the labels of all are the classes.
  const std::size_t trains = for_each_row(train, [&](text::Row&& row) {
    const int label = labels.number(row.label, train.path.string(), row.line);
    if (is_within(train_set->size(), options.limit_train)) train_set->add(row.text, label);
  });
  require_limit(options.limit_train, trains, "data.limit_train");
  const TextClasses classes = classes_of(folder, train, test, options, labels);
  const auto count = static_cast<int>(classes.names().size());
  std::vector<int> numbers;
  for (const std::string& label : labels.labels()) numbers.push_back(classes.find(label));
  train_set->rename_labels(numbers);
  train_set->set_classes(count);
  DatasetPair pair;
  pair.train = std::move(train_set);
  if (test) {
    auto test_set = std::make_unique<TextSet>(input);
    const std::size_t tests = for_each_row(*test, [&](text::Row&& row) {
      const int label = class_in(row, classes, *test);
      if (is_within(test_set->size(), options.limit_test)) test_set->add(row.text, label);
    });
    require_limit(options.limit_test, tests, "data.limit_test");
    test_set->set_classes(count);
    pair.test = std::move(test_set);
  }
  pair.class_names = classes.names();
  pair.texts = input;
  return pair;
}

constexpr std::string_view kTextKeys[] = {"vocabulary", "max_length", "lowercase",
                                          "bucket_by_length"};

}  // namespace

const DatasetRow sets::text = {
    .name = "text",
    .about = "labelled texts of your own: train.csv and test.csv in data.path, or .tsv, .jsonl",
    .title = "texts",
    .needs_files = true,
    .is_own = true,
    .keys = kTextKeys,
    .look = look_at_texts,
    .open = open_texts};

}  // namespace eqt::data
