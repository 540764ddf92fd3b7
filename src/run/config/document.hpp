// SPDX-License-Identifier: Apache-2.0
// Strict reading of a JSON document: every mistake is a sentence with its place.

#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace eqt::config {

using Json = nlohmann::json;

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDocumentDepth = 16;  // the config itself is three deep

/// The text of a file that `named` (a key, an option) names and that is to hold `what` ("a graph"):
/// at most kMaxDocumentBytes, and one more if it is too large.
/// @throws Error{usage} if there is no such file, or it cannot be read
std::string read_document(const std::string& path, std::string_view named, std::string_view what);

/// Parses a JSON object; "// ..." up to the end of a line and "/* ... */" are comments. `what` it
/// is, for messages: "config".
/// @throws Error{usage} if the text is too large, malformed (with line and column), nested too
/// deeply, not an object, or holds a key twice (with its dotted name).
Json parse_document(const std::string& text, const std::string& origin,
                    std::string_view what = "config");

/// A JSON value of any type, without comments, else as parse_document() reads one; discarded if
/// `text` is no JSON.
/// @throws Error{usage} if it is too large, nested too deeply or holds a key twice
Json parse_value(const std::string& text, const std::string& origin);

/// `value` as JSON on one line, cut to a length that suits a message; any bytes are allowed.
std::string shown(const Json& value);

/// `text` in quotes for a message, as shown() does.
std::string shown_text(const std::string& text);

}  // namespace eqt::config
