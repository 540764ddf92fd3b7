// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl, decisions.jsonl, timeline.jsonl and summary.json.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "metrics/decisions.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"
#include "metrics/record_json.hpp"
#include "metrics/run_files.hpp"
#include "metrics/sink.hpp"

namespace eqt::metrics {
namespace {

namespace fs = std::filesystem;

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

void remove_old(const fs::path& path) {
  // Not by fs::remove(), which also removes folders.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    fail(Kind::output, "cannot remove {} of an earlier run: {}; choose another folder with --out",
         path.string(), std::generic_category().message(errno));
}

/// Makes `folder` ready for a run and returns the path of its records.
std::string prepare(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(Kind::output, "cannot make the run folder {}: {}; choose another with --out",
         folder.string(), error.message());
  remove_old(folder / run_files::kSummary);  // it marks a complete run
  return (folder / run_files::kRecords).string();
}

/// A resumed run goes on from such a place.
struct Place {
  StepId step;      // after which
  bool epoch_open;  // the epoch that ended with it will be recorded again
};

/// True if a record is complete and stays.
bool stays(const Place& place, const Json& record) {
  if (!record.is_object() || !record.contains("type")) return false;
  const auto found = record.find("step");
  if (found == record.end()) return true;
  if (!found->is_number_unsigned()) return false;
  const StepId step = found->get<StepId>();
  if (place.epoch_open && record["type"] == "epoch") return step < place.step;
  return step <= place.step;
}

/// 0: of the whole run.
StepId step_of(const Json& record) {
  const auto found = record.find("step");
  return found == record.end() ? 0 : found->get<StepId>();
}

/// The records of a run that goes on tell this.
struct Cut {
  std::optional<int> ranks;  // of the last run record that is left
  // The steps that are taken again, and the time that they took.
  StepId steps_lost = 0;
  double seconds_lost = 0;
};

/// Counts a record that is removed, if it is a step's.
void count_loss(const Place& place, const Json& record, Cut& cut) {
  if (!record.is_object() || record.value("type", Json()) != "step") return;
  const Json step = record.value("step", Json()), seconds = record.value("seconds", Json());
  if (!step.is_number_unsigned() || !seconds.is_object()) return;
  cut.steps_lost = std::max(cut.steps_lost, step.get<StepId>() - place.step);
  const Json total = seconds.value("total", Json());
  if (total.is_number()) cut.seconds_lost += total.get<double>();
}

/// Removes the records after that place, and those that the run has gone back behind.
Cut cut_records(const std::string& path, const Place& place) {
  if (!is_there(path)) return {};
  require_no_pipe(path);
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    fail(Kind::output,
         "{}: expected a regular file or nothing, found a folder or a device; remove it or choose "
         "another folder",
         path);
  std::ifstream file(path, std::ios::binary);
  std::vector<std::pair<StepId, std::string>> kept;
  std::string line;
  Cut cut;
  while (std::getline(file, line)) {
    const Json record = Json::parse(line, nullptr, false);
    if (const auto back = back_to(record))
      std::erase_if(kept, [&](const auto& one) { return static_cast<double>(one.first) > *back; });
    if (!stays(place, record)) {
      count_loss(place, record, cut);
      continue;
    }
    if (record["type"] == "run")
      cut.ranks = record.contains("ranks") && record["ranks"].is_number_integer()
                      ? record["ranks"].get<int>()
                      : 0;
    kept.emplace_back(step_of(record), line);
  }
  // What cannot be read must not be replaced by what was read so far.
  if (!file.eof())
    fail(Kind::output,
         "cannot read {} of the run that is resumed; make it readable, or choose another folder "
         "with --out",
         path);
  std::string text;
  for (const auto& [step, one] : kept) text += one + "\n";
  write_atomically(path, text);
  return cut;
}

/// The seconds since the file was written; 0 if there is none.
double age_of(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return 0;
  const std::chrono::duration<double> age = fs::file_time_type::clock::now() - written;
  return std::max(0.0, age.count());
}

/// The lines of a file that are JSON objects, as a list; none if there is no file.
Json objects_in(const std::string& path) {
  Json objects = Json::array();
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);)
    if (Json object = Json::parse(line, nullptr, false); object.is_object())
      objects.push_back(std::move(object));
  return objects;
}

class FolderSink : public Sink {
 public:
  FolderSink(const std::string& folder, bool step_records, std::optional<Place> goes_on_after)
      : summary_path_((fs::path(folder) / run_files::kSummary).string()),
        decisions_path_((fs::path(folder) / run_files::kDecisions).string()),
        timeline_path_((fs::path(folder) / run_files::kTimeline).string()),
        starts_path_((fs::path(folder) / run_files::kStarts).string()),
        step_records_(step_records),
        stood_still_(goes_on_after ? age_of(fs::path(folder) / run_files::kRecords) : 0),
        cut_(goes_on_after ? cut_records(prepare(folder), *goes_on_after) : Cut{}),
        records_(prepare(folder),
                 goes_on_after ? OutputFile::Begin::at_end : OutputFile::Begin::empty) {
    for (const std::string& path : {decisions_path_, timeline_path_}) {
      if (!goes_on_after) {
        remove_old(path);
      } else {
        cut_records(path, *goes_on_after);
      }
    }
    if (goes_on_after) {
      starts_ = objects_in(starts_path_);
    } else {
      remove_old(starts_path_);
    }
  }

  void write(const RunRecord& record) override {
    emulated_ = record.emulated;
    simulated_ = record.simulated;
    if (cut_.ranks != record.ranks) append(json_of(record));
  }
  void write(const StartRecord& record) override {
    Json start = json_of(record);
    start["steps_lost"] = cut_.steps_lost;
    start["seconds_lost"] = stood_still_ + cut_.seconds_lost;
    starts_.push_back(std::move(start));
    // A line that was being written when a rank ended must not become part of this one.
    std::string text;
    for (const Json& one : starts_) text += text_of(one, -1);
    write_atomically(starts_path_, text);
  }
  void write(const StepRecord& record) override {
    if (step_records_) append(json_of(record));
  }
  void write(const NoteRecord& record) override {
    append(json_of(record));
    if (record.back_to && (decisions_ || is_there(decisions_path_)))
      write(DecisionRecord{.step = record.step,
                           .kind = kBackTo,
                           .values = {static_cast<double>(*record.back_to)},
                           .why = record.text});
  }
  void write(const NoiseRecord& record) override { append(json_of(record)); }
  void write(const ProfileRecord& record) override { append(json_of(record)); }
  void write(const DecisionRecord& record) override {
    if (!decisions_) decisions_.emplace(decisions_path_, OutputFile::Begin::at_end);
    decisions_->write(text_of(marked(json_of(record)), -1));
    decisions_->require_in_place();
  }
  void write(const TimelineRecord& record) override {
    if (!timeline_) timeline_.emplace(timeline_path_, OutputFile::Begin::at_end);
    timeline_->write(text_of(marked(json_of(record)), -1));
    timeline_->require_in_place();
  }
  void write(const EpochRecord& record) override { append(json_of(record)); }
  void write(const Summary& summary) override {
    records_.require_in_place();
    records_.sync();
    Json json = marked(json_of(summary));
    json["starts"] = starts_;
    write_atomically(summary_path_, text_of(json, 2));
  }

 private:
  /// Marks a record of an emulated or simulated run, so that it is not mistaken for a real one.
  Json marked(Json json) const {
    if (emulated_) json["emulated"] = true;
    if (simulated_) json["simulated"] = true;
    return json;
  }

  void append(Json json) {
    records_.write(text_of(marked(std::move(json)), -1));
    records_.require_in_place();
  }

  std::string summary_path_, decisions_path_, timeline_path_, starts_path_;
  bool step_records_;
  double stood_still_;  // since the last record of the file that is continued [seconds]
  Cut cut_;
  Json starts_ = Json::array();
  bool emulated_ = false, simulated_ = false;
  OutputFile records_;
  std::optional<OutputFile> decisions_, timeline_;  // nothing until the first one
};

}  // namespace

std::unique_ptr<Sink> make_folder_sink(const std::string& folder, bool step_records,
                                       std::optional<StepId> goes_on_after, bool epoch_open) {
  std::optional<Place> place;
  if (goes_on_after) place = {.step = *goes_on_after, .epoch_open = epoch_open};
  return std::make_unique<FolderSink>(folder, step_records, place);
}

}  // namespace eqt::metrics
