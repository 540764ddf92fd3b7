// SPDX-License-Identifier: Apache-2.0
// The event sink with its clock and names as parameters, for tests.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/event_bytes.hpp"
#include "metrics/record_json.hpp"
#include "metrics/sink.hpp"

namespace eqt::metrics {

struct EventSinkOptions {
  bool step_records = true;
  std::string default_config_json = {};  // "" = unknown
  std::optional<StepId> goes_on_after = {};
  std::string host;
  std::function<double()> wall;  // [seconds since 1970]
};

/// See make_event_sink(folder, ...).
std::unique_ptr<Sink> make_event_sink(const std::string& folder, EventSinkOptions options);

/// The beginning of the names of event files, before the time.
inline constexpr const char* kEventFiles = "events.out.tfevents.";

/// Every number and boolean of a record, and of its lists of numbers, except its step: {"type":
/// "step", "seconds": {"data": 1}} gives "step/seconds/data". Null, texts and lists of objects are
/// left out.
std::vector<Scalar> scalars_of(const Json& record, const std::string& prefix);

/// Every number, text and truth value of a config, lists as JSON: {"train": {"epochs": 1}} gives
/// "train.epochs". Those that differ from `defaults` come first, because the settings that a sweep
/// varies are among them.
std::vector<Setting> settings_of(const Json& config, const Json& defaults);

}  // namespace eqt::metrics
