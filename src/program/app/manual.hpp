// SPDX-License-Identifier: Apache-2.0
// The manual page and the shell completion, from the tables of options and config keys.

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace eqt::app {

/// The manual page of `program` with all of its verbs, in the notation of man (roff).
std::string manual_page(const CLI::App& program);

/// A script for bash that completes verbs, options, config keys and the names that they accept.
std::string bash_completion(const CLI::App& program);

}  // namespace eqt::app
