// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl, decisions.jsonl, timeline.jsonl and summary.json.

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "metrics/decisions.hpp"
#include "metrics/output_file.hpp"
#include "metrics/record_json.hpp"
#include "metrics/sink.hpp"
#include "metrics/timeline.hpp"

namespace eqt::metrics {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecords = "metrics.jsonl";
constexpr const char* kSummary = "summary.json";

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
  remove_old(folder / kSummary);  // it marks a complete run
  return (folder / kRecords).string();
}

/// True if a record is complete and its step is not after this one.
bool is_up_to(StepId step, const Json& record) {
  if (!record.is_object() || !record.contains("type")) return false;
  const auto found = record.find("step");
  return found == record.end() || (found->is_number_unsigned() && found->get<StepId>() <= step);
}

/// Removes the records after the step. @return true if the rest contains a run record
bool cut_records(const std::string& path, StepId step) {
  require_no_pipe(path);
  std::ifstream file(path, std::ios::binary);
  std::string kept, line;
  bool has_run = false;
  while (std::getline(file, line)) {
    const Json record = Json::parse(line, nullptr, false);
    if (!is_up_to(step, record)) continue;
    has_run |= record["type"] == "run";
    kept += line + "\n";
  }
  write_atomically(path, kept);
  return has_run;
}

class FolderSink : public Sink {
 public:
  FolderSink(const std::string& folder, bool step_records, std::optional<StepId> goes_on_after)
      : summary_path_((fs::path(folder) / kSummary).string()),
        decisions_path_((fs::path(folder) / kDecisions).string()),
        timeline_path_((fs::path(folder) / kTimeline).string()),
        step_records_(step_records),
        has_run_(goes_on_after && cut_records(prepare(folder), *goes_on_after)),
        records_(prepare(folder),
                 goes_on_after ? OutputFile::Begin::at_end : OutputFile::Begin::empty) {
    for (const std::string& path : {decisions_path_, timeline_path_}) {
      if (!goes_on_after) {
        remove_old(path);
      } else if (fs::exists(path)) {
        cut_records(path, *goes_on_after);
      }
    }
  }

  void write(const RunRecord& record) override {
    emulated_ = record.emulated;
    simulated_ = record.simulated;
    if (!has_run_) append(json_of(record));
  }
  void write(const StepRecord& record) override {
    if (step_records_) append(json_of(record));
  }
  void write(const NoteRecord& record) override { append(json_of(record)); }
  void write(const NoiseRecord& record) override { append(json_of(record)); }
  void write(const ProfileRecord& record) override { append(json_of(record)); }
  void write(const DecisionRecord& record) override {
    if (!decisions_) decisions_.emplace(decisions_path_, OutputFile::Begin::at_end);
    decisions_->write(text_of(marked(json_of(record)), -1));
    decisions_->require_in_place();
  }
  void write(const TimelineRecord& record) override {
    if (!timeline_) timeline_.emplace(timeline_path_, OutputFile::Begin::at_end);
    timeline_->write(text_of(json_of(record), -1));
    timeline_->require_in_place();
  }
  void write(const EpochRecord& record) override { append(json_of(record)); }
  void write(const Summary& summary) override {
    records_.require_in_place();
    records_.sync();
    write_atomically(summary_path_, text_of(marked(json_of(summary)), 2));
  }

 private:
  /// Marks every record of an emulated or simulated run, so that none is mistaken for a real one.
  Json marked(Json json) const {
    if (emulated_) json["emulated"] = true;
    if (simulated_) json["simulated"] = true;
    return json;
  }

  void append(Json json) {
    records_.write(text_of(marked(std::move(json)), -1));
    records_.require_in_place();
  }

  std::string summary_path_, decisions_path_, timeline_path_;
  bool step_records_;
  bool has_run_;  // the run's record is in the file that is continued
  bool emulated_ = false, simulated_ = false;
  OutputFile records_;
  std::optional<OutputFile> decisions_, timeline_;  // nothing until the first one
};

}  // namespace

std::unique_ptr<Sink> make_folder_sink(const std::string& folder, bool step_records,
                                       std::optional<StepId> goes_on_after) {
  return std::make_unique<FolderSink>(folder, step_records, goes_on_after);
}

}  // namespace eqt::metrics
