// SPDX-License-Identifier: Apache-2.0
#include "app/predict_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "data/array_set.hpp"
#include "data/csv_table.hpp"
#include "data/files.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture_list.hpp"
#include "data/text/rows.hpp"
#include "data/text/text_input.hpp"
#include "metrics/run_files.hpp"

namespace eqt::app {
namespace {

using Json = nlohmann::ordered_json;

/// Samples of one array of floats.
class FloatInput : public PredictInput {
 public:
  explicit FloatInput(data::ArraySpec spec) : spec_(std::move(spec)), values_(spec_.values()) {}

  data::Batch take() override {
    data::Batch batch;
    batch.inputs.resize(1);
    const auto out = batch.inputs[0].prepare<float>(spec_, names_.size());
    std::ranges::copy(std::exchange(waiting_, {}), out.begin());
    names_.clear();
    return batch;
  }

 protected:
  /// The values of a sample that is to be filled.
  std::span<float> next() {
    waiting_.resize(waiting_.size() + values_);
    return std::span(waiting_).last(values_);
  }
  void keep(std::string name) { names_.push_back(std::move(name)); }
  void discard() { waiting_.resize(names_.size() * values_); }

  const data::ArraySpec spec_;
  const std::size_t values_;  // of a sample

 private:
  std::vector<float> waiting_;
};

/// Pictures as files of their own.
class PictureInput final : public FloatInput {
 public:
  PictureInput(const TrainedRun& run, const data::ImageShape& shape, const Json& json)
      : FloatInput(data::image_spec(shape)),
        preparation_(framing(shape, json), run.input.normalization) {}

  void add(const std::string& source, std::size_t most,
           const std::function<void()>& full) override {
    try {
      data::read_whole_file(source, bytes_);
      preparation_.prepare(bytes_, next());
    } catch (const Error& error) {
      discard();
      if (error.kind() != Kind::data) throw;
      fail(Kind::data, "{}: {}", source, error.what());
    }
    keep(source);
    if (names().size() == most) full();
  }

 private:
  // Runs write 8/7 of the size at most.
  static constexpr int kMostTimes = 16;

  /// That of the run's test pictures; of the sets that come with the program, the whole picture.
  static data::PictureFraming framing(const data::ImageShape& shape, const Json& json) {
    data::PictureFraming framing{
        .channels = shape.channels, .size = shape.height, .resize = shape.height};
    if (json.contains("picture")) framing.resize = json.at("picture").at("resize").get<int>();
    if (shape.height != shape.width)
      fail(Kind::data, "preprocessing.json: expected square pictures, found {}x{}", shape.height,
           shape.width);
    if (framing.resize < framing.size || framing.resize > kMostTimes * framing.size)
      fail(Kind::data,
           "preprocessing.json: expected pictures that are resized to {} to {} pixels, found {}",
           framing.size, kMostTimes * framing.size, framing.resize);
    return framing;
  }

  data::PicturePreparation preparation_;
  std::vector<std::uint8_t> bytes_;
};

/// Reads texts, one a line of a file. Language models learn lines behind a [SEP], and get the last
/// tokens of a long one.
class TextLines final : public PredictInput {
 public:
  TextLines(const TrainedRun& run, const Json& json)
      : streams_(run.config.task.kind->target == data::TargetKind::tokens),
        input_(options(run, json)) {
    std::vector<data::ArraySpec> found = input_.specs();
    if (streams_) found.resize(1);
    if (found == run.input.inputs) return;
    fail(Kind::data,
         "expected {}, as the network was trained on, found {} by {} and preprocessing.json; put "
         "the run's own files back",
         data::text_of(run.input.inputs), data::text_of(found), input_.options().vocabulary);
  }

  bool reads_standard_input() const override { return true; }

  void add(const std::string& source, std::size_t most,
           const std::function<void()>& full) override {
    std::size_t number = 0;
    const auto take = [&](std::string_view line) {
      names_.push_back(fmt::format("{}:{}", source, ++number));
      waiting_.push_back(streams_ ? behind_separator(line) : input_.tokens(line));
      if (names_.size() == most) full();
    };
    if (source == kStandardInput)
      data::read_standard_input(take);
    else
      data::read_lines(source, take);
  }

  std::vector<std::size_t> lengths() const override {
    std::vector<std::size_t> all;
    for (const auto& tokens : waiting_) all.push_back(tokens.size());
    return all;
  }

  data::Batch take() override {
    names_.clear();
    const std::vector<std::vector<data::TokenId>> texts = std::exchange(waiting_, {});
    const std::vector<std::span<const data::TokenId>> views(texts.begin(), texts.end());
    data::Batch batch;
    input_.write(views, batch);
    if (streams_) batch.inputs.resize(1);
    return batch;
  }

 private:
  /// Returns the options that training had.
  static data::TextOptions options(const TrainedRun& run, const Json& json) {
    constexpr std::size_t kMinLength = 3, kMaxLength = 65536;  // as data.max_length
    const auto length = json.at("max_length").get<std::size_t>();
    if (length < kMinLength || length > kMaxLength)
      fail(Kind::data, "preprocessing.json: expected texts of {} to {} tokens, found {}",
           kMinLength, kMaxLength, length);
    data::TextOptions options;
    options.vocabulary = run.folder + "/" + metrics::run_files::kVocabulary;
    options.max_length = length;
    options.lower_case = json.at("lowercase").get<bool>();
    return options;
  }

  std::vector<data::TokenId> behind_separator(std::string_view line) const {
    std::vector<data::TokenId> tokens = input_.words(line);
    tokens.insert(tokens.begin(), input_.vocabulary().end());
    const std::size_t most = input_.options().max_length;
    if (tokens.size() > most)
      tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(most));
    return tokens;
  }

  const bool streams_;
  const data::TextInput input_;
  std::vector<std::vector<data::TokenId>> waiting_;
};

/// Rows of NumPy files and tables.
class ArrayInput final : public PredictInput {
 public:
  explicit ArrayInput(const Preprocessing& input) : input_(input), spec_(input.inputs.front()) {}

  void add(const std::string& source, std::size_t most,
           const std::function<void()>& full) override {
    std::size_t first = 0;  // number of the first row: of tables its line
    std::unique_ptr<data::ArraySource> values = open(source, first);
    require_form(*values);
    const std::size_t rows = values->samples();
    set_.emplace(std::move(values), data::ArrayTargets(),
                 data::ArraySet::Options{.count = rows,
                                         .integers = spec_.type == data::ElementType::int64,
                                         .standardize = input_.standardize,
                                         .tokens = spec_.bound});
    if (!input_.moments.empty()) set_->standardize_by(input_.moments);
    (void)set_->measure();  // all numbers are finite
    for (std::size_t begin = 0; begin < rows; begin += most) {
      indices_.resize(std::min(most, rows - begin));
      std::iota(indices_.begin(), indices_.end(), begin);
      for (const std::size_t row : indices_)
        names_.push_back(fmt::format("{}:{}", source, first + row));
      full();
    }
  }

  data::Batch take() override {
    data::Batch batch;
    set_->read(indices_, std::nullopt, batch);
    names_.clear();
    return batch;
  }

 private:
  std::unique_ptr<data::ArraySource> open(const std::string& path, std::size_t& first) const {
    if (std::filesystem::path(path).extension() != ".csv") return data::open_npy(path);
    const auto table = std::make_shared<const data::CsvTable>(data::read_csv(path));
    first = table->first_line;
    return data::make_csv_source(table, features(*table));
  }

  /// Finds columns by name if training's table and this one have names; else returns all columns.
  std::vector<std::size_t> features(const data::CsvTable& table) const {
    std::vector<std::size_t> features;
    if (input_.columns.empty() || table.names.empty()) {
      features.resize(table.columns);
      std::iota(features.begin(), features.end(), std::size_t{0});
      return features;
    }
    for (const std::string& name : input_.columns) {
      const auto found = std::ranges::find(table.names, name);
      if (found == table.names.end())
        fail(Kind::data,
             "{}: expected a column {}, as the training set has it, found {} columns of other "
             "names; add it",
             table.path, data::shown(name), table.columns);
      features.push_back(static_cast<std::size_t>(found - table.names.begin()));
    }
    return features;
  }

  /// @throws Error{data} unless its samples are those of the network
  void require_form(const data::ArraySource& source) const {
    std::vector<std::size_t> shape = source.shape();
    if (shape.empty()) shape = {1};
    if (!std::ranges::equal(shape, spec_.shape, {},
                            [](std::size_t side) { return static_cast<std::int64_t>(side); }))
      fail(
          Kind::data,
          "{}: expected samples that fit {}, as in training, found the shape {}; leave targets out",
          source.path(), data::text_of(spec_), data::shape_text(shape));
    if (spec_.type == data::ElementType::int64 && !source.whole())
      fail(Kind::data, "{}: expected whole numbers, as in training, found fractions; round them",
           source.path());
    if (spec_.bound == 0) return;
    if (const std::int64_t tokens = data::vocabulary_of(source, false); tokens > spec_.bound)
      fail(Kind::data, "{}: expected tokens below {}, as in training, found {}; leave them out",
           source.path(), spec_.bound, tokens - 1);
  }

  const Preprocessing input_;
  const data::ArraySpec& spec_;
  std::optional<data::ArraySet> set_;  // the file at hand
  std::vector<std::size_t> indices_;   // its samples that wait
};

/// One array, in which each sample has as many numbers as any other.
bool is_array(const std::vector<data::ArraySpec>& inputs) {
  return inputs.size() == 1 && inputs.front().type != data::ElementType::uint8 &&
         std::ranges::none_of(inputs.front().shape, [](std::int64_t side) { return side < 0; });
}

}  // namespace

std::unique_ptr<PredictInput> make_predict_input(const TrainedRun& run) {
  const Json json = Json::parse(run.input.text);
  try {
    if (const auto shape = data::image_shape(run.input.inputs))
      return std::make_unique<PictureInput>(run, *shape, json);
    if (json.contains("text")) return std::make_unique<TextLines>(run, json.at("text"));
    if (is_array(run.input.inputs)) return std::make_unique<ArrayInput>(run.input);
  } catch (const Json::exception&) {
    fail(Kind::data, "{}/preprocessing.json: expected what a run writes, found another form",
         run.folder);
  }
  fail(
      Kind::usage,
      "predict: expected a network of pictures, texts or one array, found one of {}; export it and "
      "use it in Python",
      data::text_of(run.input.inputs));
}

}  // namespace eqt::app
