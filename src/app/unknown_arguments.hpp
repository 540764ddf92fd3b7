// SPDX-License-Identifier: Apache-2.0
// Arguments that no option takes: each is reported with what was probably meant.

#pragma once

namespace CLI {
class App;
}

namespace eqt::app {

/// To be called after parsing, whether or not it failed.
/// @throws Error{usage} for an option or word that the verb does not know, with the nearest one,
///         the config key of that name or the right form of a config file; for an option in front
///         of a verb, which would be ignored
void require_known_arguments(const CLI::App& program);

}  // namespace eqt::app
