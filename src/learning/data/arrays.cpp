// SPDX-License-Identifier: Apache-2.0
// Arrays of one's own: x_train.npy, y_train.npy, x_test.npy and y_test.npy, or train.csv and
// test.csv.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "data/array_set.hpp"
#include "data/catalogue.hpp"
#include "data/csv_table.hpp"
#include "data/files.hpp"
#include "data/test_split.hpp"
#include "data/text/text_input.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kKeys = {"target", "integers", "standardize",
                                                   "test_fraction"};

/// The two sides of the samples of training or test; `y` may be missing.
struct Part {
  std::unique_ptr<ArraySource> x, y;
  std::shared_ptr<const CsvTable> table;  // null: they are NumPy files
  std::vector<std::string> columns;       // names of those of x, if the table has names
  std::size_t count = 0;                  // of samples that are used
  std::string note = {};                  // on the table's columns
  // Tokens that x and y are both cut from: y has the one that follows each place of x.
  std::shared_ptr<const ArraySource> stream = {};
};

bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

/// Shows some places, one after another, of samples of one dimension.
class ChosenPlaces final : public ArraySource {
 public:
  ChosenPlaces(std::shared_ptr<const ArraySource> source, std::size_t first, std::size_t count)
      : source_(std::move(source)), first_(first), shape_{count} {}

  std::size_t samples() const override { return source_->samples(); }
  const std::vector<std::size_t>& shape() const override { return shape_; }
  bool whole() const override { return source_->whole(); }
  void read(std::size_t sample, std::span<double> out) const override { copy(sample, out); }
  void read(std::size_t sample, std::span<float> out) const override { copy(sample, out); }
  void read(std::size_t sample, std::span<std::int64_t> out) const override { copy(sample, out); }
  std::string place(std::size_t sample, std::size_t index) const override {
    return source_->place(sample, first_ + index);
  }
  const std::string& path() const override { return source_->path(); }

 private:
  template <typename To>
  void copy(std::size_t sample, std::span<To> out) const {
    std::vector<To> all(source_->values());
    source_->read(sample, std::span(all));
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first_), out.size(), out.begin());
  }

  std::shared_ptr<const ArraySource> source_;
  std::size_t first_;
  std::vector<std::size_t> shape_;
};

/// @throws Error{data} unless samples are rows of whole numbers
void require_tokens(const ArraySource& source) {
  if (!source.whole())
    fail(Kind::data, "{}: expected whole numbers, tokens from 0 on, found fractions; convert them",
         source.path());
  if (source.shape().size() != 1)
    fail(Kind::data,
         "{}: expected tokens of shape (samples, places), found samples of shape {}; cut a stream "
         "into samples, in Python by x[:n * places].reshape(n, places)",
         source.path(), shape_text(source.shape()));
}

/// Opens the targets of a language model. Without a file of them the token behind each place is to
/// be found, which the last place lacks.
void open_token_targets(const fs::path& targets, Part& part) {
  require_tokens(*part.x);
  if (is_there(targets)) {
    part.y = open_npy(targets);
    require_tokens(*part.y);
    if (part.y->shape() != part.x->shape())
      fail(Kind::data, "{}: expected a token for each of the {} places of {}, found {}",
           part.y->path(), part.x->values(), part.x->path(), part.y->values());
    return;
  }
  const std::size_t places = part.x->values();
  if (places < 2)
    fail(Kind::data,
         "{}: expected at least 2 tokens in each sample, the second to follow the first, found {}; "
         "write longer samples, or their targets to {}",
         part.x->path(), places, targets.string());
  part.stream = std::move(part.x);
  part.x = std::make_unique<ChosenPlaces>(part.stream, 0, places - 1);
  part.y = std::make_unique<ChosenPlaces>(part.stream, 1, places - 1);
}

Part open_npy_part(const fs::path& folder, const std::string& name, const DatasetOptions& options) {
  Part part;
  part.x = open_npy(folder / ("x_" + name + ".npy"));
  const fs::path targets = folder / ("y_" + name + ".npy");
  if (options.target == TargetKind::tokens)
    open_token_targets(targets, part);
  else if (options.target != TargetKind::any || is_there(targets))
    part.y = open_npy(targets);
  return part;
}

/// Returns a note on what a reader of the table may not expect; "" if there is nothing.
std::string note_on_columns(const CsvTable& table, const std::vector<std::size_t>& targets,
                            bool has_index, const DatasetOptions& options) {
  std::string note;
  if (has_index) note = "column 1 is left out, which has no name and the numbers of rows";
  if (options.columns.empty() && targets.front() + 1 != table.columns)
    note += fmt::format("{}the target is column {} {}, by its name", note.empty() ? "" : "; ",
                        targets.front() + 1, shown(table.names[targets.front()]));
  return note.empty() ? note : table.path + ": " + note;
}

Part open_csv_part(const fs::path& file, const DatasetOptions& options) {
  if (options.target == TargetKind::tokens)
    fail(
        Kind::usage,
        "data.name \"arrays\": expected x_train.npy and x_test.npy of tokens for a language model, "
        "found the table {}; write NumPy files, or set data.name to \"text\"",
        file.string());
  Part part;
  part.table = std::make_shared<const CsvTable>(read_csv(file));
  const std::vector<std::size_t> targets =
      columns_called(*part.table, options.columns, "data.target");
  const bool has_index = part.table->has_index();
  std::vector<std::size_t> features;
  for (std::size_t column = has_index ? 1 : 0; column < part.table->columns; ++column)
    if (std::ranges::find(targets, column) == targets.end()) features.push_back(column);
  if (features.empty())
    fail(Kind::data, "{}: expected columns besides those of data.target, found {} in all",
         file.string(), part.table->columns);
  if (!part.table->names.empty())
    for (const std::size_t column : features) part.columns.push_back(part.table->names[column]);
  part.note = note_on_columns(*part.table, targets, has_index, options);
  part.x = make_csv_source(part.table, features);
  part.y = make_csv_source(part.table, targets);
  return part;
}

/// Some rows of another source.
class ChosenRows final : public ArraySource {
 public:
  ChosenRows(std::unique_ptr<ArraySource> source, std::vector<std::size_t> rows)
      : source_(std::move(source)), rows_(std::move(rows)) {}

  std::size_t samples() const override { return rows_.size(); }
  const std::vector<std::size_t>& shape() const override { return source_->shape(); }
  bool whole() const override { return source_->whole(); }
  void read(std::size_t sample, std::span<double> out) const override {
    source_->read(rows_[sample], out);
  }
  void read(std::size_t sample, std::span<float> out) const override {
    source_->read(rows_[sample], out);
  }
  void read(std::size_t sample, std::span<std::int64_t> out) const override {
    source_->read(rows_[sample], out);
  }
  std::string place(std::size_t sample, std::size_t index) const override {
    return source_->place(rows_[sample], index);
  }
  const std::string& path() const override { return source_->path(); }

 private:
  std::unique_ptr<ArraySource> source_;
  std::vector<std::size_t> rows_;
};

/// The rows of a table without a test set that are for training, or for the test.
Part open_table_part(bool trains, const DatasetOptions& options) {
  Part part = open_csv_part(options.path, options);
  const std::size_t samples = part.y->samples();
  std::vector<int> labels(samples);
  std::vector<std::string> classes = {"the table"};
  std::string place;
  if (options.target == TargetKind::classes) {
    const ArrayTargets targets = read_targets(*part.y, options.target, samples);
    labels.assign(targets.integers.begin(), targets.integers.end());
    classes.clear();
    // A class is named without the table's path, so that a copy elsewhere is split in the same way.
    for (int label = 0; label < targets.classes; ++label) classes.push_back(std::to_string(label));
    place = part.y->path() + ", class ";
  }
  const std::vector<bool> is_test =
      samples_for_test(labels, classes, options.test_fraction, options.seed, "rows",
                       "name a folder with train.csv and test.csv", place);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < samples; ++row)
    if (is_test[row] != trains) rows.push_back(row);
  part.x = std::make_unique<ChosenRows>(std::move(part.x), rows);
  part.y = std::make_unique<ChosenRows>(std::move(part.y), std::move(rows));
  return part;
}

/// @param name of the part: "train", or what find_test_part() found
Part open_folder_part(const std::string& name, const DatasetOptions& options) {
  const fs::path folder = options.path, table = folder / (name + ".csv");
  const fs::path x = folder / ("x_" + name + ".npy");
  if (!is_there(x) && !is_there(table))
    fail(Kind::data,
         "expected {} and y_{}.npy, or {}, found neither; check data.path, and that this host has "
         "the files",
         x.string(), name, table.string());
  return is_there(x) ? open_npy_part(folder, name, options) : open_csv_part(table, options);
}

/// Does what open_folder_part() does, also where a single table has both parts.
Part open_part(const std::string& name, const DatasetOptions& options) {
  if (options.path.empty())
    fail(Kind::usage,
         "data.name \"arrays\": expected data.path, found none; set it to the folder with "
         "x_train.npy, y_train.npy, x_test.npy and y_test.npy, or with train.csv and test.csv");
  const bool trains = name == "train";
  Part part = is_table_file(options.path) ? open_table_part(trains, options)
                                          : open_folder_part(name, options);
  const std::size_t samples = part.x->samples();
  if (samples == 0) fail(Kind::data, "{}: expected samples, found none", part.x->path());
  if (part.x->values() == 0)
    fail(Kind::data, "{}: expected numbers in each sample, found samples of shape {}",
         part.x->path(), shape_text(part.x->shape()));
  if (part.y != nullptr && part.y->samples() != samples)
    fail(Kind::data, "{}: expected a target for each of the {} samples of {}, found {}",
         part.y->path(), samples, part.x->path(), part.y->samples());
  const std::size_t limit = trains ? options.limit_train : options.limit_test;
  require_limit(limit, samples, trains ? "data.limit_train" : "data.limit_test");
  part.count = limit == 0 ? samples : limit;
  return part;
}

/// The name of the test part: "test" if there is none.
std::string test_part(const fs::path& folder, std::vector<std::string>& notes) {
  const auto has = [&](std::string_view part) {
    return is_there(folder / fmt::format("x_{}.npy", part)) ||
           is_there(folder / fmt::format("{}.csv", part));
  };
  const std::string name = find_test_part(has, "", notes);
  return name.empty() ? "test" : name;
}

/// The columns of both tables must mean the same.
void require_same_names(const CsvTable& train, const CsvTable& test) {
  if (train.names == test.names) return;
  std::size_t column = 0;
  const std::size_t common = std::min(train.names.size(), test.names.size());
  while (column < common && train.names[column] == test.names[column]) ++column;
  const auto name = [&](const CsvTable& table) {
    return column < table.names.size() ? shown(table.names[column]) : std::string("no name");
  };
  fail(Kind::data, "{}: expected the names of columns of {}, where column {} is {}, found {}",
       test.path, train.path, column + 1, name(train), name(test));
}

/// @throws Error{data} where samples of one part are no samples of the other
void require_same_form(const Part& train, const Part& test) {
  if (train.table != nullptr && test.table != nullptr)
    require_same_names(*train.table, *test.table);
  const bool follows = train.stream != nullptr;
  if (follows != (test.stream != nullptr))
    fail(Kind::data,
         "{}: expected a file of targets beside it, as {} has one, found none; write it, or delete "
         "the other one to learn which token follows",
         (follows ? train : test).x->path(), (follows ? test : train).x->path());
  const auto compare = [](const ArraySource* a, const ArraySource* b) {
    const bool same =
        (a == nullptr) == (b == nullptr) && (a == nullptr || a->shape() == b->shape());
    if (same) return;
    const auto form = [](const ArraySource* source) {
      return source == nullptr ? std::string("none") : shape_text(source->shape());
    };
    fail(Kind::data, "{}: expected samples of shape {} as in {}, found {}",
         b == nullptr ? "the test set" : b->path(), form(a),
         a == nullptr ? "the training set" : a->path(), form(b));
  };
  compare(train.x.get(), test.x.get());
  compare(train.y.get(), test.y.get());
}

/// Numbers of rows are easily taken for classes.
void require_shared_classes(const Part& train, const ArrayTargets& targets,
                            const DatasetOptions& options) {
  constexpr std::size_t kFewSamples = 20;
  std::vector<std::int64_t> labels = targets.integers;
  const bool any = options.target != TargetKind::classes || options.is_part;
  if (any || labels.size() < kFewSamples) return;
  std::ranges::sort(labels);
  if (std::ranges::adjacent_find(labels) != labels.end()) return;
  fail(Kind::data,
       "{}: expected classes that several samples have, found a class of its own for each of {} "
       "samples; set data.target to the column of the class, or task.kind to \"regression\"",
       train.y->path(), labels.size());
}

/// Returns the vocabulary of all samples of the part, also of those that are not used.
std::int64_t vocabulary_of(const Part& part) {
  if (part.stream != nullptr) return vocabulary_of(*part.stream, false);
  return std::max(vocabulary_of(*part.x, false), vocabulary_of(*part.y, true));
}

ArrayTargets targets_of(const Part& part, const DatasetOptions& options) {
  if (part.y == nullptr) return {};
  if (options.target != TargetKind::tokens)
    return read_targets(*part.y, options.target, part.count);
  ArrayTargets targets;
  targets.spec = ArraySpec{.name = part.stream != nullptr ? std::string(kNext) : "targets",
                           .type = ElementType::int64,
                           .shape = {static_cast<std::int64_t>(part.y->values())},
                           .bound = vocabulary_of(part)};
  return targets;
}

/// Both sets are said to have the tokens of both.
void settle_vocabulary(ArrayTargets& training, ArrayTargets& testing) {
  if (!training.spec || !testing.spec) return;
  training.spec->bound = testing.spec->bound = std::max(training.spec->bound, testing.spec->bound);
}

/// A test set's classes must be those of training, except on a rank that has only a part of both.
void settle_classes(const Part& test, const DatasetOptions& options, ArrayTargets& training,
                    ArrayTargets& testing) {
  if (options.target == TargetKind::tokens) return settle_vocabulary(training, testing);
  if (options.target != TargetKind::classes) return;
  const auto strange = std::ranges::find_if(
      testing.integers, [&](std::int64_t label) { return label >= training.classes; });
  if (strange != testing.integers.end() && !options.is_part)
    fail(Kind::data,
         "{}: expected a class in [0, {}), as the training set has them, found {}; correct the "
         "label or add such samples to the training set",
         test.y->place(static_cast<std::size_t>(strange - testing.integers.begin()), 0),
         training.classes, *strange);
  const int classes = std::max(training.classes, testing.classes);
  training.classes = testing.classes = classes;
  training.spec = testing.spec = class_spec(classes);
}

std::unique_ptr<ArraySet> make_set(Part part, ArrayTargets targets, const DatasetOptions& options) {
  const bool tokens = options.target == TargetKind::tokens;
  if (tokens) targets.tokens = std::move(part.y);
  if (options.integers && !part.x->whole())
    fail(Kind::data,
         "{}: expected whole numbers with data.integers true, found fractions; set it to false",
         part.x->path());
  const std::int64_t vocabulary = tokens ? targets.spec->bound : 0;
  return std::make_unique<ArraySet>(std::move(part.x), std::move(targets),
                                    ArraySet::Options{.count = part.count,
                                                      .integers = options.integers || tokens,
                                                      .standardize = options.standardize,
                                                      .tokens = vocabulary});
}

DatasetPair open_arrays(const DatasetOptions& options) {
  DatasetPair pair;
  Part train =
      open_part(options.needs_train ? "train" : test_part(options.path, pair.notes), options);
  ArrayTargets training = targets_of(train, options);
  if (options.needs_train) require_shared_classes(train, training, options);
  std::unique_ptr<ArraySet> test_set;
  if (options.needs_test && options.needs_train) {
    Part test = open_part(test_part(options.path, pair.notes), options);
    ArrayTargets testing = targets_of(test, options);
    require_same_form(train, test);
    settle_classes(test, options, training, testing);
    test_set = make_set(std::move(test), std::move(testing), options);
    (void)test_set->measure();  // all numbers are finite
  }
  if (!train.note.empty()) pair.notes.push_back(train.note);
  if (train.table == nullptr && !options.columns.empty())
    pair.notes.emplace_back("data.target has no effect on NumPy files");
  if (options.target == TargetKind::tokens) pair.tokens = training.spec->bound;
  pair.columns = std::move(train.columns);
  for (int label = 0; label < training.classes; ++label)
    pair.class_names.push_back(std::to_string(label));
  std::unique_ptr<ArraySet> train_set = make_set(std::move(train), std::move(training), options);
  pair.moments = train_set->measure();
  pair.standardize = options.standardize;
  pair.train = std::move(train_set);
  pair.test = std::move(test_set);
  if (!pair.moments.empty()) standardize(pair, pair.moments);
  if (!options.needs_train) std::swap(pair.train, pair.test);
  return pair;
}

DatasetFacts look_at_arrays(const DatasetOptions& options) {
  DatasetOptions whole = options;
  whole.limit_train = whole.limit_test = 0;
  Part train = open_part("train", whole);
  ArrayTargets training = targets_of(train, whole);
  require_shared_classes(train, training, whole);
  DatasetFacts facts;
  facts.train = train.count;
  const auto memory_of = [](const Part& part, const ArrayTargets& targets) {
    const std::size_t table = part.table == nullptr ? 0 : part.table->values.size();
    return table * sizeof(double) + targets.integers.size() * sizeof(std::int64_t) +
           targets.floats.size() * sizeof(float);
  };
  facts.memory_bytes = memory_of(train, training);
  if (whole.needs_test) {
    std::vector<std::string> notes;
    const Part test = open_part(test_part(whole.path, notes), whole);
    ArrayTargets testing = targets_of(test, whole);
    require_same_form(train, test);
    settle_classes(test, whole, training, testing);
    facts.test = test.count;
    facts.memory_bytes += memory_of(test, testing);
  }
  facts.target = training.spec;
  facts.classes = training.classes;
  facts.inputs = make_set(std::move(train), std::move(training), whole)->inputs();
  return facts;
}

std::vector<fs::path> files_of_arrays(const DatasetOptions& options) {
  const fs::path folder = options.path;
  if (is_table_file(folder)) return {folder};
  std::vector<fs::path> files;
  std::vector<std::string> parts = {"train"}, notes;
  if (options.needs_test) parts.push_back(test_part(folder, notes));
  for (const std::string& name : parts) {
    const fs::path x = folder / ("x_" + name + ".npy"), y = folder / ("y_" + name + ".npy");
    files.push_back(is_there(x) ? x : folder / (name + ".csv"));
    if (is_there(x) && is_there(y)) files.push_back(y);
  }
  return files;
}

}  // namespace

const DatasetRow sets::arrays = {
    .name = "arrays",
    .about =
        "your own numbers: x_train.npy, y_train.npy, x_test.npy, y_test.npy of data.path, or "
        "train.csv and test.csv, or one table",
    .title = "arrays",
    .needs_files = true,
    .is_own = true,
    .keys = kKeys,
    .look = look_at_arrays,
    .open = open_arrays,
    .files = files_of_arrays};

}  // namespace eqt::data
