// SPDX-License-Identifier: Apache-2.0
// Facts that must be the same on all ranks, as names and values that a message can show.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"
#include "core/error.hpp"

namespace eqt::config {

struct Fact {
  std::string name;   // "compressor.bits"
  std::string value;  // as a person reads it

  bool operator==(const Fact&) const = default;
};
using Facts = std::vector<Fact>;

/// Every key of the resolved config with its value as JSON, in the order of the documentation.
Facts config_facts(const RunConfig& config);

/// One text for another rank, or for a file.
std::string packed(const Facts& facts);
/// Reads packed facts. @throws Error{kind} if the text is not valid; `whose` is for the message
Facts unpacked(const std::string& text, std::string_view whose = "rank 0's settings",
               Kind kind = Kind::wire);

/// "compressor.bits 8 instead of 4, seed 2 instead of 1": each fact of `found` that differs in
/// `expected`, and each that only one of them has; "" if there are none.
std::string differences(const Facts& expected, const Facts& found);

}  // namespace eqt::config
