// SPDX-License-Identifier: Apache-2.0
// These follow from the options of any network, in whatever precision: what it refuses, its groups
// of channels, a batch to try it on. Private to this room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batch.hpp"
#include "model/catalogue.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// @throws Error{usage} for an input, a task or options that the network cannot take
void check_options(const ModelOptions& options);

/// The number of groups of a layer; 0 for kinds without groups.
/// @param groups  as the config has it: 0 = as published
/// @throws Error{usage} if it does not divide the channels, or the kind has no groups
std::int64_t groups_for(const NormalizationRow& kind, int groups, std::int64_t channels);

/// Says of each parameter whether a pattern of model.freeze matches its name.
/// @throws Error{usage} for a pattern that matches none
std::vector<bool> frozen_parameters(std::span<const std::string> names,
                                    std::span<const std::string> patterns);
/// @throws Error{usage} if no parameter is left to train
void check_trains(std::size_t trained, std::size_t parameters);

/// @param keeps  FrozenNorms::running has a normalization to apply to
/// @throws Error{usage} if it has none
void check_keeps_statistics(bool keeps);

/// `size` equal samples, as large as the data set's can be: floats are 0, integers 1, which is a
/// token, a class and a mask's value of every set.
data::Batch example_batch(const ModelOptions& options, std::size_t size);

}  // namespace eqt::model
