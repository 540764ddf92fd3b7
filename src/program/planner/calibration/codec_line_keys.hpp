// SPDX-License-Identifier: Apache-2.0
// What is read of a compressor's speeds, from `bench codecs --json` and from calibrations. Private
// to the room.

#pragma once

#include "planner/checked_object.hpp"
#include "planner/machine_costs.hpp"

namespace eqt::planner {

/// @throws Error{usage} unless the object has a compressor and its speeds
CodecLine codec_line_of(const config::Json& json, const std::string& place, OtherKeys others);

/// Writes the same keys; those that are not known are left out.
nlohmann::ordered_json json_of(const CodecLine& line);

}  // namespace eqt::planner
