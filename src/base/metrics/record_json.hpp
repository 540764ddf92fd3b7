// SPDX-License-Identifier: Apache-2.0
// Records as JSON objects. Other programs rely on the keys.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "metrics/records.hpp"

namespace eqt::metrics {

using Json = nlohmann::ordered_json;

/// Numbers that are not finite become null.
Json json_of(const RunRecord& record);
Json json_of(const StartRecord& record);
Json json_of(const StepRecord& record);
Json json_of(const NoteRecord& record);
Json json_of(const DecisionRecord& record);
Json json_of(const NoiseRecord& record);
Json json_of(const ProfileRecord& record);
Json json_of(const TimelineRecord& record);
Json json_of(const EpochRecord& record);
Json json_of(const Summary& summary);

/// The step to which the run went back, if a line of these files says so: what was recorded of
/// later ones is void.
std::optional<double> back_to(const Json& line);

}  // namespace eqt::metrics
