// SPDX-License-Identifier: Apache-2.0
// How texts become tokens.

#pragma once

#include <cstddef>
#include <string>

namespace eqt::data {

/// The texts of a run are read with these options.
struct TextOptions {
  std::string vocabulary = {};   // file vocab.txt
  std::size_t max_length = 128;  // [tokens] with [CLS] and [SEP]; longer texts are cut
  bool lower_case = true;        // capitals and accents make no difference
};

}  // namespace eqt::data
