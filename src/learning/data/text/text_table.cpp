// SPDX-License-Identifier: Apache-2.0
// Labelled texts of the user's own, in a folder with train.csv and test.csv, or .tsv or .jsonl, and
// perhaps classes.txt. For language models texts in train.txt and test.txt.
//
// Format   text/rows.hpp; AG News' files (X. Zhang, J. Zhao, Y. LeCun, NeurIPS 2015,
//          arXiv:1509.01626, section 4) are of this kind

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/class_names.hpp"
#include "data/files.hpp"
#include "data/test_split.hpp"
#include "data/text/rows.hpp"
#include "data/text/text_classes.hpp"
#include "data/text/text_input.hpp"

namespace eqt::data {
namespace {

/// Labelled texts in memory as tokens, four bytes each.
class TextSet final : public Dataset {
 public:
  explicit TextSet(std::shared_ptr<const TextInput> input) : input_(std::move(input)) {}

  void add(std::string_view text, int label);
  /// Every label becomes the class `classes[label]`.
  void rename_labels(std::span<const int> classes);
  void set_classes(int count) { classes_ = count; }

  std::size_t size() const override { return labels_.size(); }
  std::vector<ArraySpec> inputs() const override { return input_->specs(); }
  std::optional<ArraySpec> target() const override { return class_spec(classes_); }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override { return labels_.at(sample); }
  std::size_t length(std::size_t sample) const override { return tokens_of(sample).size(); }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;

 private:
  std::span<const TokenId> tokens_of(std::size_t sample) const {
    const std::size_t begin = sample == 0 ? 0 : ends_[sample - 1];
    return std::span(tokens_).subspan(begin, ends_.at(sample) - begin);
  }

  std::shared_ptr<const TextInput> input_;
  std::vector<TokenId> tokens_;    // of all texts
  std::vector<std::size_t> ends_;  // (n) of each text's
  std::vector<int> labels_;        // (n)
  int classes_ = 0;
};

void TextSet::add(std::string_view text, int label) {
  const std::vector<TokenId> tokens = input_->tokens(text);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ends_.push_back(tokens_.size());
  labels_.push_back(label);
}

void TextSet::rename_labels(std::span<const int> classes) {
  for (int& label : labels_) label = classes[static_cast<std::size_t>(label)];
}

void TextSet::read(std::span<const std::size_t> indices, const std::optional<AugmentKey>&,
                   Batch& out) const {
  std::vector<std::span<const TokenId>> texts;
  for (const std::size_t sample : indices) texts.push_back(tokens_of(sample));
  input_->write(texts, out);
  const auto labels = out.targets.prepare<std::int64_t>(class_spec(classes_), indices.size());
  std::ranges::transform(indices, labels.begin(),
                         [this](std::size_t sample) { return labels_.at(sample); });
}

/// A text as a stream of tokens, for language models. It is cut into samples of equal length; the
/// target at each place is the token that follows.
class TokenStream final : public Dataset {
 public:
  /// Each line of the file and a [SEP] behind it; empty lines are skipped. Tokens behind the last
  /// whole sample are left out.
  /// @param most samples; 0: all
  /// @throws Error{data}: the file has less than one sample, or cannot be read
  TokenStream(std::shared_ptr<const TextInput> input, const std::filesystem::path& file,
              std::size_t most);

  std::size_t size() const override { return samples_; }
  std::vector<ArraySpec> inputs() const override;
  std::optional<ArraySpec> target() const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;

  /// The arrays of any stream. @param input how its text is read
  static std::vector<ArraySpec> inputs_of(const TextInput& input);
  static ArraySpec target_of(const TextInput& input);

 private:
  std::shared_ptr<const TextInput> input_;
  std::size_t length_;           // [tokens] of a sample
  std::vector<TokenId> tokens_;  // one more than samples need
  std::size_t samples_ = 0;
};

TokenStream::TokenStream(std::shared_ptr<const TextInput> input, const std::filesystem::path& file,
                         std::size_t most)
    : input_(std::move(input)), length_(input_->options().max_length) {
  read_lines(file, [&](std::string_view line) {
    if (most > 0 && tokens_.size() > most * length_) return;
    const std::vector<TokenId> found = input_->words(line);
    if (found.empty()) return;
    tokens_.insert(tokens_.end(), found.begin(), found.end());
    tokens_.push_back(input_->vocabulary().end());
  });
  if (tokens_.size() <= length_)
    fail(Kind::data,
         "expected at least {} tokens in {}, one sample and what follows it, found {}; lower "
         "data.max_length or take a longer text",
         length_ + 1, file.string(), tokens_.size());
  samples_ = (tokens_.size() - 1) / length_;
  if (most > 0) samples_ = std::min(samples_, most);
}

std::vector<ArraySpec> TokenStream::inputs_of(const TextInput& input) {
  return {input.specs().front()};
}

ArraySpec TokenStream::target_of(const TextInput& input) {
  ArraySpec spec = input.specs().front();
  spec.name = kNext;
  return spec;
}

std::vector<ArraySpec> TokenStream::inputs() const { return inputs_of(*input_); }
std::optional<ArraySpec> TokenStream::target() const { return target_of(*input_); }

void TokenStream::read(std::span<const std::size_t> indices, const std::optional<AugmentKey>&,
                       Batch& out) const {
  const std::array shape = {static_cast<std::int64_t>(length_)};
  out.inputs.resize(1);
  const auto tokens = out.inputs[0].prepare<std::int64_t>(inputs().front(), indices.size(), shape);
  const auto next = out.targets.prepare<std::int64_t>(target_of(*input_), indices.size(), shape);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t begin = indices[i] * length_;
    EQT_CHECK(indices[i] < samples_, "sample {} of {}", indices[i], samples_);
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), length_,
                tokens.begin() + static_cast<std::ptrdiff_t>(i * length_));
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin + 1), length_,
                next.begin() + static_cast<std::ptrdiff_t>(i * length_));
  }
}

namespace fs = std::filesystem;

constexpr std::string_view kRemedy =
    "set data.path to a folder with train.csv and test.csv, .tsv or .jsonl";

struct RowFile {
  fs::path path;
  RowFormat format;
};

constexpr std::array<std::pair<std::string_view, RowFormat>, 3> kFormats = {
    {{".csv", RowFormat::csv}, {".tsv", RowFormat::tsv}, {".jsonl", RowFormat::json_lines}}};

std::vector<RowFile> files_of(const fs::path& folder, std::string_view part) {
  std::vector<RowFile> found;
  for (const auto& [ending, format] : kFormats) {
    const fs::path path = folder / (std::string(part) + std::string(ending));
    std::error_code error;
    if (fs::exists(path, error)) found.push_back({path, format});
  }
  return found;
}

/// The folder's file with the rows of `part`: "train" or "test".
RowFile find_rows(const fs::path& folder, std::string_view part) {
  std::vector<RowFile> found = files_of(folder, part);
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

/// "train.csv: the class is in column "stars", the text in "title" and "review"; "id" is left out".
void note_heading(const RowFile& file, const Heading& heading, std::vector<std::string>& notes) {
  const auto list = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
      text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", shown_name(name));
    return text;
  };
  notes.push_back(fmt::format("{}: the class is in column \"{}\", the text in {}{}",
                              file.path.filename().string(), shown_name(heading.label),
                              list(heading.texts),
                              heading.unread.empty() ? "" : "; left out: " + list(heading.unread)));
}

/// Rows of a file, as they were found.
struct RowsRead {
  std::size_t count = 0;
  Row first = {};
};

/// @throws Error{data} for a file without rows
RowsRead for_each_row(const RowFile& file, const std::function<void(Row&&)>& take,
                      std::vector<std::string>* notes = nullptr) {
  RowsRead read;
  const auto heading = read_rows(file.path, file.format, [&](Row&& row) {
    if (read.count++ == 0) read.first = row;
    take(std::move(row));
  });
  if (read.count == 0)
    fail(Kind::data, "expected labelled texts in {}, found an empty file; {}", file.path.string(),
         kRemedy);
  if (heading && notes != nullptr) note_heading(file, *heading, *notes);
  return read;
}

/// The class of a row of the test set.
int class_in(const Row& row, const TextClasses& classes, const RowFile& file) {
  const std::string label = plain_label(row.label);
  const int found = classes.find(label);
  if (found >= 0) return found;
  require_unlike(classes.names(), label, fmt::format("{}, line {}", file.path.string(), row.line));
  fail(Kind::data,
       "{}, line {}: expected a label that training has, one of {} classes, found \"{}\"; "
       "correct it or add it to the training set",
       file.path.string(), row.line, classes.names().size(), shown_name(label));
}

/// Rows that are no labelled texts are easily taken for such, each with a class of its own.
void require_shared_labels(const RowFile& train, const RowsRead& rows, std::size_t labels) {
  constexpr std::size_t kFewRows = 3, kFewClasses = 10;
  const bool all_differ = labels == rows.count && rows.count >= kFewRows;
  if (!all_differ && (labels < kFewClasses || labels <= rows.count / 2)) return;
  fail(Kind::data,
       "{}: expected classes that several texts have, found {} classes in {} rows, such as \"{}\"; "
       "the class comes first in a row, or its column is called \"label\" in the first one, and "
       "that of the text \"text\"; if so many are right, name them in classes.txt",
       train.path.string(), labels, rows.count, shown_name(rows.first.label));
}

/// A heading whose names are not known looks like a text that both files have, the only one of its
/// class.
/// @param label the number of the first row's, `counts` the rows of each label
void require_no_heading(const RowFile& train, const RowsRead& rows, std::size_t label,
                        const std::vector<std::size_t>& counts, const RowFile& test,
                        const RowsRead& tests) {
  constexpr std::size_t kLeastClasses = 2;
  const bool is_same = rows.first.label == tests.first.label &&
                       rows.first.text == tests.first.text && rows.first.line == tests.first.line;
  if (!is_same || counts[label] != 1 || counts.size() <= kLeastClasses) return;
  if (std::ranges::count(counts, std::size_t{1}) != 1) return;
  fail(
      Kind::data,
      "{}: expected texts in line {}, found \"{}\" as a class that no other row has, as in {}; if "
      "it is a heading, call the column of the class \"label\" and that of the text \"text\", else "
      "leave it out",
      train.path.string(), rows.first.line, shown_name(rows.first.label), test.path.string());
}

/// Where classes.txt names the numbers of a test set alone, a set without the first and the last
/// number does not tell whether they begin at 0 or 1.
void require_clear_numbers(const TextClasses& classes, const std::vector<std::string>& labels,
                           const RowFile& file) {
  const int first = classes.find("1");
  const std::string last = std::to_string(classes.names().size());
  const bool named = first < 0 || classes.names()[static_cast<std::size_t>(first)] == "1";
  if (named || classes.find("0") >= 0 || std::ranges::find(labels, last) != labels.end()) return;
  fail(Kind::data,
       "{}: expected the label 0 or {}, which tells whether the classes of classes.txt are counted "
       "from 0 or 1, found neither; put the file of the training set beside it, or write names",
       file.path.string(), last);
}

/// The files of a set; `test` if this rank has one. Where nothing is trained and there is no
/// training set, the test set tells the classes, and `train` is that.
struct LabelledFiles {
  fs::path folder;
  RowFile train = {};
  std::optional<RowFile> test = {};
  std::vector<std::string> notes = {};
  bool are_one = false;  // a single table, of which a part is the test set
};

LabelledFiles single_table(const DatasetOptions& options) {
  const fs::path path = options.path;
  const auto format = format_of_rows(path);
  if (!format)
    fail(Kind::data, "{}: expected a table called .csv, .tsv or .jsonl; {}", path.string(),
         kRemedy);
  LabelledFiles files{.folder = path.parent_path(), .train = {path, *format}, .are_one = true};
  if (files.folder.empty()) files.folder = ".";
  if (options.needs_test) files.test = files.train;
  return files;
}

LabelledFiles find_labelled(const DatasetOptions& options) {
  if (is_table_file(options.path)) return single_table(options);
  const fs::path folder = folder_of(options);
  LabelledFiles files{.folder = folder};
  const auto has = [&](std::string_view part) { return !files_of(folder, part).empty(); };
  const bool training_tells = options.needs_train || has("train");
  if (training_tells) files.train = find_rows(folder, "train");
  if (options.needs_test) {
    const std::string part = find_test_part(has, ".*", files.notes);
    files.test = find_rows(folder, part.empty() ? "test" : part);
  }
  if (!training_tells && files.test) files.train = *files.test;
  return files;
}

/// The files say this much about a set of texts.
struct LabelledTexts {
  std::size_t train = 0, test = 0;  // texts
  LabelNumbers labels = {};         // of the training texts
  std::optional<TextClasses> classes = {};
  std::vector<std::string> notes = {};
};

/// Takes a text and a number.
using TakeText = std::function<void(const std::string&, int)>;

/// Does what read_labelled() does for a single table, whose rows are read twice: their labels
/// decide which are for the test.
LabelledTexts read_and_split(const LabelledFiles& files, const DatasetOptions& options,
                             const TakeText& train, const TakeText& test) {
  LabelledTexts texts{.notes = files.notes};
  const RowFile& file = files.train;
  std::vector<int> labels;
  const RowsRead rows = for_each_row(
      file,
      [&](Row&& row) {
        labels.push_back(texts.labels.number(row.label, file.path.string(), row.line));
      },
      &texts.notes);
  const std::vector<std::string>& found = texts.labels.labels();
  const auto names = read_class_names(files.folder);
  if (!names && !options.is_part) require_shared_labels(file, rows, found.size());
  texts.classes.emplace(found, names, file.path.string(), std::size_t{options.is_part ? 1u : 2u});
  const std::vector<bool> is_test =
      samples_for_test(labels, found, options.test_fraction, options.seed, "texts",
                       "name a folder with train.csv and test.csv");
  std::size_t next = 0;
  for_each_row(file, [&](Row&& row) {
    if (next == labels.size())
      fail(Kind::data, "{}: expected {} texts, found more when it was read again",
           file.path.string(), labels.size());
    const int label = labels[next];
    if (is_test[next++])
      test(row.text, texts.classes->find(plain_label(row.label)));
    else
      train(row.text, label);
  });
  texts.test = static_cast<std::size_t>(std::ranges::count(is_test, true));
  texts.train = rows.count - texts.test;
  return texts;
}

/// Reads all rows, since the labels of all are the classes. Where a rank has a part of what is
/// learnt, its test set may have others than its training set.
/// @param train gets texts with the numbers of their labels
/// @param test gets texts with their classes
LabelledTexts read_labelled(const LabelledFiles& files, const DatasetOptions& options,
                            const TakeText& train, const TakeText& test) {
  if (files.are_one) return read_and_split(files, options, train, test);
  LabelledTexts texts{.notes = files.notes};
  std::vector<std::size_t> counts;  // by label
  const auto number = [&](const Row& row, const RowFile& file) {
    return texts.labels.number(row.label, file.path.string(), row.line);
  };
  const RowsRead rows = for_each_row(
      files.train,
      [&](Row&& row) {
        const auto label = static_cast<std::size_t>(number(row, files.train));
        counts.resize(std::max(counts.size(), label + 1));
        ++counts[label];
        train(row.text, static_cast<int>(label));
      },
      &texts.notes);
  texts.train = rows.count;
  const auto names = read_class_names(files.folder);
  if (!names && !options.is_part && options.needs_train)
    require_shared_labels(files.train, rows, counts.size());
  if (files.test && options.is_part)
    for_each_row(*files.test, [&](Row&& row) { (void)number(row, *files.test); });
  texts.classes.emplace(texts.labels.labels(), names, files.train.path.string(),
                        std::size_t{options.is_part ? 1u : 2u});
  if (!files.test) return texts;
  const RowsRead tests = for_each_row(
      *files.test, [&](Row&& row) { test(row.text, class_in(row, *texts.classes, *files.test)); });
  texts.test = tests.count;
  if (files.test->path == files.train.path) {
    require_clear_numbers(*texts.classes, texts.labels.labels(), files.train);
    return texts;
  }
  const auto first = static_cast<std::size_t>(number(rows.first, files.train));
  require_no_heading(files.train, rows, first, counts, *files.test, tests);
  return texts;
}

TextInput input_of(const DatasetOptions& options) {
  if (options.text.vocabulary.empty())
    fail(Kind::usage,
         "expected data.vocabulary with data.name \"{}\", found none; set it to a vocab.txt, or "
         "model.path to a folder that has one",
         sets::text.name);
  return TextInput(options.text);
}

constexpr std::string_view kStreamRemedy = "set data.path to a folder with train.txt and test.txt";

/// The folder's texts for a language model.
struct StreamFiles {
  fs::path train = {};  // empty where nothing is trained
  std::optional<fs::path> test = {};
  std::vector<std::string> notes = {};
};

StreamFiles find_streams(const DatasetOptions& options) {
  const fs::path folder = folder_of(options);
  StreamFiles files;
  if (options.needs_train) files.train = find_file(folder, {"train.txt"}, kStreamRemedy);
  if (!options.needs_test) return files;
  const auto path_of = [&](std::string_view part) { return folder / (std::string(part) + ".txt"); };
  std::error_code error;
  const std::string part = find_test_part(
      [&](std::string_view name) { return fs::exists(path_of(name), error); }, ".txt", files.notes);
  files.test = part.empty() ? find_file(folder, {"test.txt"}, kStreamRemedy) : path_of(part);
  return files;
}

DatasetFacts look_at_streams(const DatasetOptions& options) {
  const StreamFiles files = find_streams(options);
  const TextInput input = input_of(options);
  DatasetFacts facts;
  facts.inputs = TokenStream::inputs_of(input);
  facts.target = TokenStream::target_of(input);
  std::uint64_t bytes = 0;  // a text has at most as many tokens
  const auto samples = [&](const fs::path& file) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    bytes += error ? 0 : size;
    return static_cast<std::size_t>(error ? 0 : size) / options.text.max_length;
  };
  facts.train = samples(files.train);
  if (files.test) facts.test = samples(*files.test);
  facts.memory_bytes = bytes * sizeof(TokenId);
  return facts;
}

DatasetPair open_streams(const DatasetOptions& options) {
  StreamFiles files = find_streams(options);
  const auto input = std::make_shared<const TextInput>(input_of(options));
  DatasetPair pair;
  const auto open = [&](const fs::path& file, std::size_t limit, std::string_view key) {
    auto stream = std::make_unique<TokenStream>(input, file, limit);
    require_limit(limit, stream->size(), key);
    return stream;
  };
  if (options.needs_train) pair.train = open(files.train, options.limit_train, "data.limit_train");
  if (files.test) pair.test = open(*files.test, options.limit_test, "data.limit_test");
  pair.texts = input;
  pair.notes = std::move(files.notes);
  return pair;
}

DatasetFacts look_at_texts(const DatasetOptions& options) {
  if (options.target == TargetKind::tokens) return look_at_streams(options);
  const LabelledFiles files = find_labelled(options);
  const TextInput input = input_of(options);
  const auto skip = [](const std::string&, int) {};
  const LabelledTexts texts = read_labelled(files, options, skip, skip);
  DatasetFacts facts;
  facts.inputs = input.specs();
  facts.train = texts.train;
  facts.test = texts.test;
  facts.class_names = texts.classes->names();
  facts.classes = static_cast<int>(facts.class_names.size());
  facts.target = class_spec(facts.classes);
  const std::uint64_t sample =
      options.text.max_length * sizeof(TokenId) + sizeof(int) + sizeof(std::size_t);
  facts.memory_bytes = (facts.train + facts.test) * sample + input.vocabulary().size() * 128;
  return facts;
}

bool is_within(std::size_t read, std::size_t limit) { return limit == 0 || read < limit; }

DatasetPair open_texts(const DatasetOptions& options) {
  if (options.target == TargetKind::tokens) return open_streams(options);
  const LabelledFiles files = find_labelled(options);
  const auto input = std::make_shared<const TextInput>(input_of(options));
  auto train_set = std::make_unique<TextSet>(input);
  auto test_set = std::make_unique<TextSet>(input);
  const auto add_to = [](TextSet& set, std::size_t limit) {
    return [&set, limit](const std::string& text, int label) {
      if (is_within(set.size(), limit)) set.add(text, label);
    };
  };
  const TakeText learn = options.needs_train ? TakeText(add_to(*train_set, options.limit_train))
                                             : [](const std::string&, int) {};
  LabelledTexts texts = read_labelled(files, options, learn, add_to(*test_set, options.limit_test));
  if (options.needs_train) require_limit(options.limit_train, texts.train, "data.limit_train");
  if (files.test) require_limit(options.limit_test, texts.test, "data.limit_test");
  const auto count = static_cast<int>(texts.classes->names().size());
  std::vector<int> numbers;
  for (const std::string& label : texts.labels.labels())
    numbers.push_back(texts.classes->find(label));
  train_set->rename_labels(numbers);
  train_set->set_classes(count);
  test_set->set_classes(count);
  DatasetPair pair;
  if (options.needs_train) pair.train = std::move(train_set);
  if (files.test) pair.test = std::move(test_set);
  pair.class_names = texts.classes->names();
  pair.texts = input;
  pair.notes = std::move(texts.notes);
  return pair;
}

std::vector<fs::path> files_of_texts(const DatasetOptions& options) {
  std::vector<fs::path> files;
  const auto add = [&](fs::path train, std::optional<fs::path> test) {
    files.push_back(std::move(train));
    if (test) files.push_back(std::move(*test));
  };
  if (options.target == TargetKind::tokens) {
    StreamFiles streams = find_streams(options);
    add(std::move(streams.train), std::move(streams.test));
    return files;
  }
  LabelledFiles rows = find_labelled(options);
  add(std::move(rows.train.path),
      rows.test && !rows.are_one ? std::optional(std::move(rows.test->path)) : std::nullopt);
  if (fs::path names = class_names_file(rows.folder); !names.empty())
    files.push_back(std::move(names));
  return files;
}

constexpr std::string_view kTextKeys[] = {"vocabulary", "max_length", "lowercase",
                                          "bucket_by_length", "test_fraction"};

}  // namespace

const DatasetRow sets::text = {
    .name = "text",
    .about =
        "labelled texts of your own: train.csv and test.csv in data.path, or .tsv, .jsonl, or "
        "one of these alone",
    .title = "texts",
    .needs_files = true,
    .is_own = true,
    .keys = kTextKeys,
    .look = look_at_texts,
    .open = open_texts,
    .files = files_of_texts};

}  // namespace eqt::data
