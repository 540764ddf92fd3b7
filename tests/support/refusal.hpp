// SPDX-License-Identifier: Apache-2.0
// The sentence of an error that a test expects, and a look at its words.

#pragma once

#include <string>
#include <utility>

#include "core/error.hpp"
#include "support/catch.hpp"

namespace eqt::test {

/// The sentence of the Error of this kind that `work` must throw; "" after a failed check where it
/// throws none. Sentences have one line.
template <typename Work>
std::string refusal(Kind kind, Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    INFO(sentence);
    CHECK(error.kind() == kind);
    CHECK(sentence.find('\n') == std::string::npos);
    return sentence;
  }
  FAIL_CHECK("no error was thrown");
  return "";
}

/// Checks that the sentence has this part.
inline bool says(const std::string& sentence, const std::string& part) {
  INFO(sentence);
  INFO(part);
  const bool found = sentence.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace eqt::test
