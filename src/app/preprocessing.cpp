// SPDX-License-Identifier: Apache-2.0
#include "app/preprocessing.hpp"

#include <nlohmann/json.hpp>

#include "model/replica.hpp"

namespace eqt::app {

std::string preprocessing_json(std::string_view dataset, const data::DatasetPair& data,
                               const model::ModelRow& model) {
  const data::ImageShape shape = data.test->shape();
  const model::Frame frame = model::frame_of(model, shape);
  nlohmann::ordered_json json;
  json["dataset"] = dataset;
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
  json["class_names"] = data.class_names;
  json["steps"] = {"x = picture / scale, as floats of (channels, height, width)",
                   "x = (x - mean) / deviation, by channel",
                   "framing: rows and columns of `value` around x. It is added after "
                   "normalisation, so the frame is as bright as the mean, not black"};
  return json.dump(2) + "\n";
}

}  // namespace eqt::app
