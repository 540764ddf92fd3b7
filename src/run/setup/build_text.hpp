// SPDX-License-Identifier: Apache-2.0
// Config keys say how texts are read, and become the network that reads them.

#pragma once

#include <optional>
#include <string>

#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "data/dataset.hpp"
#include "model/encoder_shape.hpp"

namespace eqt::setup {

// Paths are those of a rank: {rank} and {host} in them are filled in.

/// Returns options with the vocabulary of data.vocabulary, else of model.path, else of data.path;
/// "" if none is there.
/// @throws Error{usage} if model.path has a tokenizer_config.json that contradicts data.lowercase
data::TextOptions text_options(const config::RunConfig& config, Rank rank = 0);

/// The shape that model.path states, or that the config's keys do; nothing for other networks.
/// @throws Error{data} if the folder has no config.json of such a network
std::optional<model::EncoderShape> encoder_shape(const config::RunConfig& config, Rank rank = 0);

/// The file with weights in the folder model.path; "" if it has none.
std::string pretrained_weights(const config::RunConfig& config, Rank rank = 0);

}  // namespace eqt::setup
