// SPDX-License-Identifier: Apache-2.0
// Records as events for TensorBoard.

#include "metrics/event_sink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"

namespace eqt::metrics {
namespace {

namespace fs = std::filesystem;

/// The time in the name of an event file; 0 if it is not one.
std::uint64_t time_in_name(const std::string& name) {
  const std::string_view prefix = kEventFiles;
  if (!name.starts_with(prefix)) return 0;
  std::uint64_t time = 0;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), time);
  return time;
}

/// Readers sort files by name, so this one sorts after the others even if the clock was changed.
std::string next_file(const std::string& folder, const EventSinkOptions& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(Kind::output, "cannot make the run folder {}: {}; choose another with --out", folder,
         error.message());
  auto time = static_cast<std::uint64_t>(std::max(0.0, options.wall()));
  for (const auto& entry : entries_of(folder)) {
    time = std::max(time, time_in_name(entry.path().filename().string()) + 1);
  }
  std::string host = options.host;
  std::ranges::replace(host, '/', '-');
  return fmt::format("{}/{}{:010}.{}", folder, kEventFiles, time, host);
}

bool is_list_of_objects(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

void add_scalars(const Json& value, const std::string& tag, std::vector<Scalar>& scalars) {
  if (value.is_number()) {
    scalars.push_back({tag, value.get<double>()});
  } else if (value.is_boolean()) {
    scalars.push_back({tag, value.get<bool>() ? 1.0 : 0.0});
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_scalars(inner, tag + "/" + key, scalars);
  } else if (value.is_array() && !is_list_of_objects(value)) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      add_scalars(value[i], fmt::format("{}/{}", tag, i), scalars);
    }
  }
}

std::string shown(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_settings(const Json& value, const std::string& name, std::vector<Setting>& settings) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      add_settings(inner, name.empty() ? key : name + "." + key, settings);
    }
  } else if (value.is_boolean()) {
    settings.push_back(
        {.name = name, .type = Setting::Type::flag, .number = value.get<bool>() ? 1.0 : 0.0});
  } else if (value.is_number()) {
    settings.push_back({.name = name, .number = value.get<double>()});
  } else if (!value.is_null()) {
    const std::string text = value.is_string() ? value.get<std::string>() : shown(value);
    settings.push_back({.name = name, .type = Setting::Type::text, .text = text});
  }
}

/// Formats JSON as a code block of Markdown.
std::string block(const Json& json) {
  return "```\n" + json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n```";
}

class EventSink final : public Sink {
 public:
  EventSink(const std::string& folder, EventSinkOptions options)
      : options_(std::move(options)), file_(next_file(folder, options_)) {
    append(version_event(wall()));
    if (options_.goes_on_after)
      append(restart_event({.wall = wall(), .step = *options_.goes_on_after + 1}));
  }

  void write(const RunRecord& record) override {
    emulated_ = record.emulated;
    simulated_ = record.simulated;
    const EventTime now = {.wall = wall(), .step = options_.goes_on_after.value_or(0)};
    Json run = json_of(record);
    const Json config = run["config"];
    run.erase("config");
    append(text_event(now, "config", block(config)));
    append(text_event(now, "run", block(marked(std::move(run)))));
    const std::string& defaults = options_.default_config_json;
    append(settings_event(
        now.wall, settings_of(config, defaults.empty() ? Json::object() : Json::parse(defaults))));
  }

  void write(const StepRecord& record) override {
    if (options_.step_records) append_scalars("step", record.step, json_of(record));
  }

  void write(const NoteRecord& record) override {
    if (record.back_to) append(restart_event({.wall = wall(), .step = *record.back_to + 1}));
    append(text_event({.wall = wall(), .step = record.step}, "notes", record.text));
  }

  void write(const NoiseRecord& record) override {
    append_scalars("noise", record.step, json_of(record));
  }

  void write(const ProfileRecord& record) override {
    append_scalars("profile", record.step, json_of(record));
  }

  void write(const EpochRecord& record) override {
    append_scalars("epoch", record.step, json_of(record));
  }

  void write(const HistogramRecord& record) override { append(histogram_event(wall(), record)); }

  void write(const ImageRecord& record) override {
    append(image_event(wall(), record, png_of(record)));
  }

  void write(const Summary& summary) override {
    append_scalars("summary", summary.steps, json_of(summary));
    append(success_event(wall()));
    file_.sync();
  }

 private:
  double wall() const { return options_.wall(); }

  void append(const std::string& event) {
    file_.write(framed(event));
    file_.require_in_place();
  }

  void append_scalars(const std::string& prefix, StepId step, Json record) {
    append(scalars_event({.wall = wall(), .step = step},
                         scalars_of(marked(std::move(record)), prefix)));
  }

  /// Marks a record as in metrics.jsonl.
  Json marked(Json record) const {
    if (emulated_) record["emulated"] = true;
    if (simulated_) record["simulated"] = true;
    return record;
  }

  EventSinkOptions options_;
  OutputFile file_;
  bool emulated_ = false, simulated_ = false;
};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::vector<Scalar> scalars_of(const Json& record, const std::string& prefix) {
  std::vector<Scalar> scalars;
  for (const auto& [key, value] : record.items()) {
    if (key != "step") add_scalars(value, prefix + "/" + key, scalars);
  }
  return scalars;
}

std::vector<Setting> settings_of(const Json& config, const Json& defaults) {
  std::vector<Setting> settings, usual;
  add_settings(config, "", settings);
  add_settings(defaults, "", usual);
  // Not std::ranges::stable_partition, which Clang 14 cannot compile with GCC 12's library.
  std::stable_partition(settings.begin(), settings.end(), [&](const Setting& setting) {
    return std::ranges::find(usual, setting) == usual.end();
  });
  return settings;
}

std::unique_ptr<Sink> make_event_sink(const std::string& folder, EventSinkOptions options) {
  return std::make_unique<EventSink>(folder, std::move(options));
}

std::unique_ptr<Sink> make_event_sink(const std::string& folder, bool step_records,
                                      const std::string& default_config_json,
                                      std::optional<StepId> goes_on_after) {
  return make_event_sink(folder, {.step_records = step_records,
                                  .default_config_json = default_config_json,
                                  .goes_on_after = goes_on_after,
                                  .host = host_name(),
                                  .wall = seconds_since_1970});
}

}  // namespace eqt::metrics
