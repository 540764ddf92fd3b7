// What must be the same on all ranks, as names and values that a message can show.

#pragma once

#include <string>
#include <vector>

#include "app/config/run_config.hpp"

namespace eqt::app {

struct Fact {
  std::string name;   // "compressor.bits"
  std::string value;  // as a person reads it

  bool operator==(const Fact&) const = default;
};
using Facts = std::vector<Fact>;

/// Every key of the resolved config with its value as JSON, in the order of the documentation.
Facts config_facts(const RunConfig& config);

/// One text for another rank.
std::string packed(const Facts& facts);
/// The facts that another rank packed. @throws Error{wire} if it is no such text.
Facts unpacked(const std::string& text);

/// "compressor.bits 8 instead of 4, seed 2 instead of 1": each fact of `found` that is another in
/// `expected`, and each that only one of them has; "" if there is none.
std::string differences(const Facts& expected, const Facts& found);

}  // namespace eqt::app
