// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known name that is nearest to a mistyped one.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::config {

/// Number of insertions, deletions, substitutions and swaps of neighbours (each place edited once)
/// that turn `a` into `b`, ignoring case.
/// Source: optimal string alignment distance, L. Boytsov, ACM J. Exp. Algorithmics 16 (2011).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name with the smallest edit distance to `wrong`, the first of several; null if none is
/// similar, that is, if more than a third of the longer one's characters would have to change.
const std::string* close_name(std::string_view wrong, const std::vector<std::string>& names);

/// The dotted key that `wrong` most likely means, the first of several: a key with the same last
/// part in another section ("learning_rate"), an abbreviation ("optimizer.lr", "batch") or a
/// misspelling; null if no key's last part is similar.
const std::string* close_key(std::string_view wrong, const std::vector<std::string>& keys);

}  // namespace eqt::config
