// SPDX-License-Identifier: Apache-2.0
// Reports unknown arguments, each with a similar valid one.

#pragma once

namespace CLI {
class App;
}

namespace eqt::app {

/// Call it after parsing, even if parsing failed.
/// @throws Error{usage} for an option or word that the verb does not have, with the nearest one,
///         the config key of that name or the right form of a config file; for an option before a
///         verb, which would be ignored
void require_known_arguments(const CLI::App& program);

}  // namespace eqt::app
