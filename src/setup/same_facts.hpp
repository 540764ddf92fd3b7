// Ranks compare what they hold before they rely on it.

#pragma once

#include <string_view>

#include "comm/communicator.hpp"
#include "config/facts.hpp"

namespace eqt::setup {

/// One number a rank if all hold the same facts; rank 0's facts only if they do not.
/// @param what "the config", `remedy` what to try: for the sentence
/// @throws Error{kind} on every rank: names the first rank that differs from rank 0 and each
/// difference. Collective.
void require_same_facts(const config::Facts& mine, std::string_view what, std::string_view remedy,
                        comm::Communicator& comm, Kind kind = Kind::usage);

}  // namespace eqt::setup
