// SPDX-License-Identifier: Apache-2.0
#include "app/preprocessing.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "model/replica.hpp"

namespace eqt::app {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const data::ArraySpec& spec) {
  return {{"name", spec.name}, {"type", name_of(spec.type)}, {"shape", spec.shape}};
}

/// How a picture becomes the input.
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
  }
  const std::optional<data::ArraySpec> target = data.test->target();
  json["target"] = target ? json_of(*target) : Json(nullptr);
  json["class_names"] = data.class_names;
  return json.dump(2) + "\n";
}

}  // namespace eqt::app
