// SPDX-License-Identifier: Apache-2.0
// The medians of a run's steps, and when its gradients were ready.

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "figures/statistics.hpp"
#include "metrics/run_files.hpp"
#include "planner/calibration/calibration_sources.hpp"
#include "report/members.hpp"
#include "report/read_run.hpp"

namespace eqt::planner {
namespace {

// The first step allocates memory; the second may still choose kernels.
constexpr std::uint64_t kFirstStep = 3;
constexpr double kMostSeconds = 1e6;

/// Figures of all steps, by kind.
struct Steps {
  std::vector<double> compute, update, sent_bytes;
  std::optional<Profile> profile{};
};

double seconds_in(const report::Members& seconds, const char* key, bool above_0 = false) {
  const figures::Figure figure = seconds.figure(key);
  if (!figure || !(*figure >= 0 && *figure <= kMostSeconds) || (above_0 && *figure == 0))
    seconds.fail_member(key, above_0 ? "seconds above 0 and at most 1e6" : "seconds from 0 to 1e6");
  return *figure;
}

Profile profile_in(const report::Members& record) {
  Profile profile = {.forward = seconds_in(record, "forward_seconds", true),
                     .backward = seconds_in(record, "backward_seconds")};
  const auto& json = record.object();
  if (!json.contains("slices") || !json["slices"].is_array())
    record.fail_member("slices", "a list of tensors");
  for (const auto& item : json["slices"]) {
    const report::Members slice(item, record.place());
    profile.slices.push_back(
        {.name = slice.text("slice"), .ready = seconds_in(slice, "ready_seconds", true)});
    if (profile.slices.back().name.empty()) slice.fail_member("slice", "the name of a tensor");
  }
  return profile;
}

Steps steps_of(const std::string& path) {
  Steps steps;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return steps;  // a pipe would be waited for
  std::ifstream file(path, std::ios::binary);
  std::size_t number = 0;
  // A last line without its end was being written when the run was stopped.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    ++number;
    const bool profile = line.starts_with(R"({"type":"profile")");
    if (!profile && !line.starts_with(R"({"type":"step")")) continue;
    const auto [json, words] = report::parse_lenient(line);
    const std::string place = fmt::format("{}:{}", path, number);
    if (json.is_discarded())
      fail(Kind::data, "{}: expected a record in JSON, found something else; leave the run out",
           place);
    const report::Members record(json, place);
    if (profile) {
      steps.profile = profile_in(record);
      continue;
    }
    if (record.count("step") < kFirstStep) continue;
    const report::Members seconds = record.inside("seconds");
    steps.compute.push_back(seconds_in(seconds, "compute"));
    steps.update.push_back(seconds_in(seconds, "update"));
    steps.sent_bytes.push_back(static_cast<double>(record.count("sent_bytes")));
  }
  return steps;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::uint64_t count_setting(const report::Run& run, const char* key) {
  const std::string text = run.setting(key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0)
    fail(Kind::data,
         "{}: expected a config whose {} is a number from 1, found \"{}\"; leave the run out",
         run.folder, key, text);
  return value;
}

}  // namespace

RunTimes run_times(const std::string& folder) {
  const report::Run run = report::read_run(folder);
  if (run.emulated)
    fail(Kind::data,
         "{}: expected a run whose ranks computed, found one that emulated computing "
         "(train.emulate_compute); make a run without it",
         run.folder);
  if (run.setting("train.batch_sizes", "null") != "null")
    fail(Kind::data,
         "{}: expected a run with equal batches, found one with train.batch_sizes {}; make a run "
         "without the key",
         run.folder, run.setting("train.batch_sizes"));
  Steps steps = steps_of(run.path + "/" + metrics::run_files::kRecords);
  if (steps.compute.empty() || !(median(steps.compute) > 0))
    fail(Kind::data,
         "{}: expected records of steps from step {} on, found none; make a run of some more steps "
         "with output.step_records true",
         run.folder, kFirstStep);
  // The computing of a simulation is that of all ranks, one after the other.
  const double parts =
      static_cast<double>(count_setting(run, "train.accumulate")) * (run.simulated ? run.ranks : 1);
  return {.run = run.folder,
          .host = run.host.empty() ? "unknown" : run.host,
          .model = run.setting("model.name", "unknown"),
          .precision = run.setting("model.precision", "fp32"),
          .dataset = run.setting("data.name", "unknown"),
          .parameters = std::max<std::uint64_t>(run.parameters, 1),
          .threads_per_rank = static_cast<std::uint64_t>(std::max(run.threads_per_rank, 1)),
          .batch_size = count_setting(run, "train.batch_size"),
          .steps = steps.compute.size(),
          .step_seconds = median(steps.compute) / parts,
          .update_seconds = median(steps.update),
          .sent_bytes = median(steps.sent_bytes) / run.ranks,
          .profile = std::move(steps.profile)};
}

}  // namespace eqt::planner
