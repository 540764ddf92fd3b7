// SPDX-License-Identifier: Apache-2.0
// What runs have in common, in words.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/run.hpp"

namespace eqt::report {

using TextOf = std::function<std::string(const Run&)>;

/// The values of all runs, each once, in order of appearance: "a, b and 3 more";
/// values that contain commas are separated by semicolons.
std::string values_of(const std::vector<const Run*>& runs, const TextOf& of);

/// A key of the config.
TextOf setting(const char* key);

/// model.normalization; "" of a network without such layers.
std::string normalization_of(const Run& run);

/// The name of a compressor for people: "float32" for "none".
std::string compressor_words(const std::string& name);

/// " at 16 x 16 pixels" of pictures that were made smaller, otherwise "".
std::string pixels_of(const Run& run);

/// True if what its data.path holds is the user's own, whatever the data set's name.
bool has_own_data(const Run& run);

/// Begins the names of a run's rows in a table of several runs: "its title: "; "" of the only run.
std::string row_prefix(const Run& run, const std::vector<Run>& runs);

/// The last folder of a path, which may end in a slash.
std::string last_name(const std::string& path);

/// "20000 training, 10000 test", or that there are none.
std::string samples_of(const Run& run);

}  // namespace eqt::report
