// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/profile_json.hpp"

#include <fmt/format.h>

namespace eqt::planner {
namespace {

using nlohmann::ordered_json;

constexpr Key kSliceKeys[] = {
    {"slice", Key::Type::text, "name of the tensor", true},
    {"ready_seconds", Key::Type::number, "since the start of the forward pass", true, 0, true, 1e6},
};

}  // namespace

Profile profile_of(const CheckedObject& object) {
  Profile profile = {.forward = object.number("forward_seconds", 0),
                     .backward = object.number("backward_seconds", 0)};
  const config::Json& slices = object.list("slices");
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const CheckedObject slice(slices[i], kSliceKeys,
                              fmt::format("{}.slices[{}]", object.place(), i));
    profile.slices.push_back(
        {.name = slice.text("slice"), .ready = slice.number("ready_seconds", 0)});
  }
  return profile;
}

ordered_json json_of(const Profile& profile) {
  ordered_json slices = ordered_json::array();
  for (const Profile::Slice& slice : profile.slices)
    slices.push_back({{"slice", slice.name}, {"ready_seconds", slice.ready}});
  return {{"forward_seconds", profile.forward},
          {"backward_seconds", profile.backward},
          {"slices", std::move(slices)}};
}

}  // namespace eqt::planner
