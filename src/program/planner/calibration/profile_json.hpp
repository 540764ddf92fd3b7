// SPDX-License-Identifier: Apache-2.0
// The keys of a run's `profile` in a calibration. Private to the room.

#pragma once

#include <nlohmann/json.hpp>

#include "planner/calibration/calibration.hpp"
#include "planner/checked_object.hpp"

namespace eqt::planner {

inline constexpr Key kProfileKeys[] = {
    {"forward_seconds", Key::Type::number, "until the first gradient is ready", true, 0, true, 1e6},
    {"backward_seconds", Key::Type::number, "from then on", true, 0, false, 1e6},
    {"slices", Key::Type::list, "tensors, the last one first", true},
};

/// @throws Error{usage} as CheckedObject
Profile profile_of(const CheckedObject& object);
nlohmann::ordered_json json_of(const Profile& profile);

}  // namespace eqt::planner
