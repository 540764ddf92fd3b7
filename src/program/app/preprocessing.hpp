// SPDX-License-Identifier: Apache-2.0
// Describes how a network's input is prepared, for a file next to its weights.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "model/catalogue.hpp"

namespace eqt::app {

/// preprocessing.json, a JSON object: `inputs` and `target` with name, type and shape, and
/// `class_names` by label. For pictures, instead of `inputs`, how bytes from 0 to 255 become this
/// network's input: `shape` of the picture, `input_shape` of the input (channels, height, width),
/// `scale`, `mean` and `deviation` by channel, `framing` in pixels with its value after
/// normalisation, `steps` in words. For texts also `text`: `vocabulary`, a file beside this one,
/// `max_length` in tokens, `lowercase`. For tables with names also `columns`, the names of a
/// sample's numbers in their order.
std::string preprocessing_json(std::string_view dataset, const data::DatasetPair& data,
                               const model::ModelRow& model);

/// This is what preprocessing.json says.
struct Preprocessing {
  std::string dataset;
  std::vector<data::ArraySpec> inputs;  // of the network
  std::optional<data::ArraySpec> target;
  data::Normalization normalization;  // of pictures
  std::vector<std::string> columns;   // of tables with names: those of a sample's numbers
  // These are of the training samples' numbers that share a mean and a deviation; empty: as they
  // are.
  std::vector<data::Moments> moments;
  data::Standardize standardize = data::Standardize::off;  // how they share
  std::vector<std::string> class_names;  // by label; none if samples have no class
  std::string text;                      // the whole file
};

/// @throws Error{data} if there is no such file or it has another form
Preprocessing read_preprocessing(const std::string& path);

/// The text for a network that adds the frame itself: `framing` is none, `input_shape` is `shape`.
std::string without_framing(const Preprocessing& preprocessing);

}  // namespace eqt::app
