// SPDX-License-Identifier: Apache-2.0
// Describes how a network's input is prepared, for a file next to its weights.

#pragma once

#include <string>
#include <string_view>

#include "data/dataset.hpp"
#include "model/catalogue.hpp"

namespace eqt::app {

/// preprocessing.json: how a picture of the set, bytes from 0 to 255, becomes this network's input.
/// A JSON object: `shape` of the picture and `input_shape` of the input (channels, height, width),
/// `scale`, `mean` and `deviation` by channel, `framing` in pixels with its value after
/// normalisation, `class_names` by label, `steps` in words.
std::string preprocessing_json(std::string_view dataset, const data::DatasetPair& data,
                               const model::ModelRow& model);

}  // namespace eqt::app
