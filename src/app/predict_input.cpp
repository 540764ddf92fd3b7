// SPDX-License-Identifier: Apache-2.0
#include "app/predict_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture_list.hpp"
#include "data/text_input.hpp"
#include "text/rows.hpp"

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
  /// That of the run's test pictures; of the sets that come with the program, the whole picture.
  static data::PictureFraming framing(const data::ImageShape& shape, const Json& json) {
    data::PictureFraming framing{
        .channels = shape.channels, .size = shape.height, .resize = shape.height};
    if (json.contains("picture")) framing.resize = json.at("picture").at("resize").get<int>();
    if (shape.height != shape.width || framing.resize < framing.size)
      fail(Kind::data, "preprocessing.json: expected square pictures, found {}x{}", shape.height,
           shape.width);
    return framing;
  }

  data::PicturePreparation preparation_;
  std::vector<std::uint8_t> bytes_;
};

/// Texts, one a line of a file.
class TextLines final : public PredictInput {
 public:
  TextLines(const TrainedRun& run, const Json& json) : input_(options(run, json)) {}

  void add(const std::string& source, std::size_t most,
           const std::function<void()>& full) override {
    std::size_t number = 0;
    text::read_lines(source, [&](std::string_view line) {
      names_.push_back(fmt::format("{}:{}", source, ++number));
      waiting_.emplace_back(line);
      if (names_.size() == most) full();
    });
  }

  data::Batch take() override {
    names_.clear();
    return input_.batch_of(std::exchange(waiting_, {}));
  }

 private:
  /// As in training.
  static data::TextOptions options(const TrainedRun& run, const Json& json) {
    constexpr std::size_t kMinLength = 3, kMaxLength = 65536;  // as data.max_length
    const auto length = json.at("max_length").get<std::size_t>();
    if (length < kMinLength || length > kMaxLength)
      fail(Kind::data, "preprocessing.json: expected texts of {} to {} tokens, found {}",
           kMinLength, kMaxLength, length);
    data::TextOptions options;
    options.vocabulary = run.folder + "/vocab.txt";
    options.max_length = length;
    options.lower_case = json.at("lowercase").get<bool>();
    return options;
  }

  const data::TextInput input_;
  std::vector<std::string> waiting_;
};

}  // namespace

std::unique_ptr<PredictInput> make_predict_input(const TrainedRun& run) {
  const Json json = Json::parse(run.input.text);
  try {
    if (const auto shape = data::image_shape(run.input.inputs))
      return std::make_unique<PictureInput>(run, *shape, json);
    if (json.contains("text")) return std::make_unique<TextLines>(run, json.at("text"));
  } catch (const Json::exception&) {
    fail(Kind::data, "{}/preprocessing.json: expected what a run writes, found another form",
         run.folder);
  }
  fail(Kind::usage,
       "predict: expected a network of pictures or texts, found one of {}; export it and use it in "
       "Python",
       data::text_of(run.input.inputs));
}

}  // namespace eqt::app
