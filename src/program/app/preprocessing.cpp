// SPDX-License-Identifier: Apache-2.0
#include "app/preprocessing.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "data/array_set.hpp"
#include "data/text/text_input.hpp"
#include "metrics/run_files.hpp"
#include "model/replica.hpp"

namespace eqt::app {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const data::ArraySpec& spec) {
  Json json = {{"name", spec.name}, {"type", name_of(spec.type)}, {"shape", spec.shape}};
  if (spec.longest > 0) json["longest"] = spec.longest;
  if (spec.bound > 0) json["bound"] = spec.bound;
  return json;
}

/// Adds how a picture becomes the input.
void add_pictures(const data::ImageShape& shape, const data::DatasetPair& data,
                  const model::ModelRow& model, Json& json) {
  const model::Frame frame = model::frame_of(model, shape);
  json["shape"] = {shape.channels, shape.height, shape.width};
  json["scale"] = 255;
  json["mean"] = data.normalization.mean;
  json["deviation"] = data.normalization.deviation;
  json["framing"] = {{"top", frame.top},
                     {"bottom", frame.bottom},
                     {"left", frame.left},
                     {"right", frame.right},
                     {"value", 0.0}};
  json["input_shape"] = {shape.channels, shape.height + frame.top + frame.bottom,
                         shape.width + frame.left + frame.right};
  if (data.framing) {
    // The shorter side is resized to `resize`, then the middle `size` x `size` pixels are shown.
    json["picture"] = {{"channels", data.framing->channels},
                       {"size", data.framing->size},
                       {"resize", data.framing->resize},
                       {"background", 255}};
  }
  json["steps"] = {"x = picture / scale, as floats of (channels, height, width)",
                   "x = (x - mean) / deviation, by channel",
                   "framing: rows and columns of `value` around x. It is added after "
                   "normalisation, so the frame is as bright as the mean, not black"};
}

/// Adds how a text becomes the input; the vocabulary is in a file of its own.
void add_texts(const data::TextOptions& options, Json& json) {
  json["text"] = {{"vocabulary", metrics::run_files::kVocabulary},
                  {"max_length", options.max_length},
                  {"lowercase", options.lower_case}};
}

/// Adds how numbers are brought to mean 0 and deviation 1.
void add_standardization(const data::DatasetPair& data, Json& json) {
  if (data.moments.empty()) return;
  std::vector<double> mean, deviation;
  for (const data::Moments& moments : data.moments) {
    mean.push_back(moments.mean);
    deviation.push_back(moments.divisor());
  }
  json["standardize"] = name_of(data.standardize);
  json["mean"] = mean;
  json["deviation"] = deviation;
  json["steps"] = {"x = (x - mean) / deviation, along the axis that `standardize` names"};
}

}  // namespace

std::string preprocessing_json(std::string_view dataset, const data::DatasetPair& data,
                               const model::ModelRow& model) {
  const std::vector<data::ArraySpec> inputs = data.test->inputs();
  Json json;
  json["dataset"] = dataset;
  if (const auto shape = data::image_shape(inputs)) {
    add_pictures(*shape, data, model, json);
  } else {
    for (const data::ArraySpec& input : inputs) json["inputs"].push_back(json_of(input));
    add_standardization(data, json);
  }
  if (!data.columns.empty()) json["columns"] = data.columns;
  if (data.texts != nullptr) add_texts(data.texts->options(), json);
  const std::optional<data::ArraySpec> target = data.test->target();
  json["target"] = target ? json_of(*target) : Json(nullptr);
  json["class_names"] = data.class_names;
  return json.dump(2) + "\n";
}

namespace {

constexpr FileLimits kFile{.what = "what a run writes about its network's input",
                           .max_bytes = std::uint64_t{64} << 20,
                           .remedy = "train again, or name a file of weights with --config"};

[[noreturn]] void malformed(const std::string& path, std::string_view reason) {
  fail(Kind::data,
       "{}: expected what a run writes about its network's input, found {}; train again, or name a "
       "file of weights with --config",
       path, reason);
}

data::ArraySpec spec_of(const Json& json) {
  const auto name = json.at("type").get<std::string>();
  const auto* const type = find_named<data::ElementType>(name);
  data::ArraySpec spec{.name = json.at("name"),
                       .type = type == nullptr ? data::ElementType::float32 : type->value,
                       .shape = json.at("shape").get<std::vector<std::int64_t>>(),
                       .longest = json.value("longest", std::int64_t{0}),
                       .bound = json.value("bound", std::int64_t{0})};
  return spec;
}

/// A network for it could be built without too much memory.
bool is_usable(const data::ArraySpec& spec) {
  constexpr std::int64_t kMaxValues = std::int64_t{1} << 28;
  std::int64_t values = 1;
  for (const std::int64_t side : spec.shape) {
    const std::int64_t extent = side < 0 ? spec.longest : side;
    if (extent < 1 || extent > kMaxValues / values) return false;
    values *= extent;
  }
  return spec.bound >= 0;
}

bool is_usable(const Preprocessing& found) {
  if (found.inputs.empty()) return false;
  for (const data::ArraySpec& input : found.inputs)
    if (!is_usable(input)) return false;
  if (found.target && !is_usable(*found.target)) return false;
  const auto images = data::image_shape(found.inputs);
  const auto channels = static_cast<std::size_t>(images ? images->channels : 0);
  const auto& [mean, deviation] = found.normalization;
  if (mean.size() != channels || deviation.size() != channels) return false;
  for (std::size_t i = 0; i < channels; ++i)
    if (!data::fits_float32(mean[i], deviation[i])) return false;
  return true;
}

/// The figures of add_standardization().
void read_standardization(const Json& json, const std::string& path, Preprocessing& found) {
  const auto name = json.at("standardize").get<std::string>();
  const auto mean = json.at("mean").get<std::vector<double>>();
  const auto deviation = json.at("deviation").get<std::vector<double>>();
  const auto* const kind = find_named<data::Standardize>(name);
  const std::vector<std::int64_t>& sides = found.inputs.at(0).shape;
  if (kind == nullptr || kind->value == data::Standardize::off || sides.empty())
    malformed(path, "a way to standardize that is unknown");
  const std::vector<std::size_t> shape(sides.begin(), sides.end());
  const std::size_t groups = data::StandardGroups(kind->value, shape).count();
  if (mean.size() != groups || deviation.size() != groups)
    malformed(path, "another number of means and deviations than its input has");
  for (std::size_t i = 0; i < groups; ++i) {
    if (!data::fits_float32(mean[i], deviation[i]))
      malformed(path, "a mean or deviation that is no such number");
    found.moments.push_back({.count = 1, .mean = mean[i], .squares = deviation[i] * deviation[i]});
  }
  found.standardize = kind->value;
}

void read_pictures(const Json& json, Preprocessing& found) {
  const auto shape = json.at("shape").get<std::array<int, 3>>();
  found.inputs = {data::image_spec({shape[0], shape[1], shape[2]})};
  found.normalization.mean = json.at("mean").get<std::vector<double>>();
  found.normalization.deviation = json.at("deviation").get<std::vector<double>>();
}

}  // namespace

Preprocessing read_preprocessing(const std::string& path) {
  Preprocessing found;
  found.text = read_whole_file(path, kFile);
  try {
    const Json json = Json::parse(found.text);
    found.dataset = json.at("dataset");
    if (json.contains("inputs")) {
      for (const Json& input : json.at("inputs")) found.inputs.push_back(spec_of(input));
      found.columns = json.value("columns", std::vector<std::string>());
    } else {
      read_pictures(json, found);
    }
    if (json.contains("target") && !json.at("target").is_null())
      found.target = spec_of(json.at("target"));
    found.class_names = json.at("class_names").get<std::vector<std::string>>();
    if (!is_usable(found)) malformed(path, "values that no network has");
    if (json.contains("standardize")) read_standardization(json, path, found);
  } catch (const Json::exception&) {
    malformed(path, "no such JSON");
  }
  return found;
}

std::string without_framing(const Preprocessing& preprocessing) {
  Json json = Json::parse(preprocessing.text);
  if (!json.contains("framing")) return preprocessing.text;
  json["framing"] = {{"top", 0}, {"bottom", 0}, {"left", 0}, {"right", 0}, {"value", 0.0}};
  json["input_shape"] = json["shape"];
  if (json.contains("steps") && json["steps"].size() > 2)
    json["steps"][2] = "framing: none, the network adds its frame itself";
  return json.dump(2) + "\n";
}

}  // namespace eqt::app
