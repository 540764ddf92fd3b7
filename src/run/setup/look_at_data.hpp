// SPDX-License-Identifier: Apache-2.0
// These functions tell what a run's data is like before it is opened, and from config keys how
// texts are read, and by which network.

#pragma once

#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "data/catalogue.hpp"
#include "data/dataset.hpp"
#include "data/views.hpp"
#include "model/encoder_shape.hpp"

namespace eqt::setup {

/// `path` with the rank's number for {rank} and this host's name for {host}.
std::string place_of(const std::string& path, Rank rank);

/// Returns which data set a config means to a rank, and how it is read.
data::DatasetOptions dataset_options(const config::RunConfig& config, Rank rank = 0);

/// Says what a network sees of the pictures of a set that it is evaluated on.
/// @throws Error{usage} where there are no views whose outputs can be averaged
data::TestViews test_views(const config::RunConfig& config, const data::Dataset& set);

/// True if every rank reads a set of its own.
bool has_local_data(const config::RunConfig& config);

/// Returns the facts of a rank's data on this machine. There are none if a rank's own set is not
/// here, or if several ranks with own sets have no folder each, so that they are meant for several
/// hosts. For own sets, classes are those of all ranks, samples and memory the largest's.
/// @throws Error{usage}, Error{data} as DatasetRow::look
std::optional<data::DatasetFacts> look_at_data_here(const config::RunConfig& config, int ranks);

/// Returns the facts of all ranks' data together; ranks other than 0 look only if they have their
/// own.
/// @param simulate ranks that this process plays; 0: it is one
/// @throws Error{usage}, Error{data} on every rank. Collective.
data::DatasetFacts look_at_data(const config::RunConfig& config, int simulate,
                                comm::Communicator& comm);

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
