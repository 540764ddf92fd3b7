// SPDX-License-Identifier: Apache-2.0
#include "app/starts.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "comm/host_facts.hpp"
#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "metrics/output_file.hpp"
#include "metrics/record_json.hpp"
#include "metrics/run_files.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Times since 1970 [seconds].
double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double age_of(const fs::path& file) {
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  if (error) return 0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

/// The names of all hosts, in the order of their lowest ranks. Collective.
std::vector<std::string> hosts_of(comm::Communicator& comm) {
  std::vector<std::string> hosts;
  for (std::string& host : comm.allgather(comm::host_name()))
    if (std::ranges::count(hosts, host) == 0) hosts.push_back(std::move(host));
  return hosts;
}

/// Adds the steps that were recorded after `start.step`, and the time that they took.
void count_losses(const std::string& records, metrics::StartRecord& start) {
  std::size_t end = records.size();
  while (end > 0) {
    const std::size_t before = records.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const std::string_view line = std::string_view(records).substr(begin, end - begin);
    end = begin == 0 ? 0 : begin - 1;
    if (line.find("\"step\"") == std::string_view::npos) continue;
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object() || record.value("type", "") != "step") continue;
    const Json step = record.value("step", Json());
    if (!step.is_number_unsigned() || step.get<StepId>() <= start.step) return;
    if (start.steps_lost == 0) start.steps_lost = step.get<StepId>() - start.step;
    const Json seconds = record.value("seconds", Json());
    if (seconds.is_object() && seconds.value("total", Json()).is_number())
      start.seconds_lost += seconds["total"].get<double>();
  }
}

/// Reads one line of starts.jsonl. @return false if it is another text
bool take_start(const std::string& line, metrics::StartRecord& start) {
  try {
    const Json record = Json::parse(line);
    start = {.step = record.at("step").get<StepId>(),
             .from = record.at("from").get<std::string>(),
             .ranks = record.at("ranks").get<int>(),
             .hosts = record.at("hosts").get<std::vector<std::string>>(),
             .steps_lost = record.at("steps_lost").get<StepId>(),
             .seconds_lost = record.at("seconds_lost").get<double>(),
             .time = record.at("time").get<double>()};
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string path_of(const std::string& run_folder) {
  return run_folder + "/" + metrics::run_files::kStarts;
}

std::string text_of_file(const std::string& path, std::uint64_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  try {
    return read_whole_file(path, {.what = "records of a run", .max_bytes = most, .remedy = "-"});
  } catch (const Error&) {
    return "";  // what was lost is then unknown, which is no reason to end the run
  }
}

}  // namespace

metrics::StartRecord describe_start(const std::string& run_folder, const Resume* resume,
                                    comm::Communicator& comm) {
  metrics::StartRecord start{
      .from = "the beginning", .ranks = comm.size(), .hosts = hosts_of(comm), .time = now()};
  if (resume == nullptr) return start;
  start.step = resume->position.step;
  start.from = resume->resumption.set.in_memory() ? "a state in memory" : "a checkpoint";
  if (comm.rank() != 0) return start;
  const std::string records = run_folder + "/" + metrics::run_files::kRecords;
  constexpr std::uint64_t kMostRecords = std::uint64_t{4} << 30;
  const std::string text = text_of_file(records, kMostRecords);
  if (text.empty()) return start;
  start.seconds_lost = std::max(0.0, age_of(records));
  count_losses(text, start);
  return start;
}

std::vector<metrics::StartRecord> note_start(const std::string& run_folder,
                                             const metrics::StartRecord& start) {
  constexpr std::uint64_t kMostStarts = std::uint64_t{64} << 20;
  const std::string path = path_of(run_folder);
  std::vector<metrics::StartRecord> starts;
  std::string text;
  if (start.from != "the beginning") text = text_of_file(path, kMostStarts);
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    metrics::StartRecord earlier;
    if (!take_start(line, earlier)) continue;
    starts.push_back(std::move(earlier));
    kept += line + "\n";
  }
  starts.push_back(start);
  metrics::write_atomically(path, kept + metrics::json_of(start).dump() + "\n");
  return starts;
}

}  // namespace eqt::app
