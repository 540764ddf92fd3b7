// Records as JSON: metrics.jsonl and summary.json. The keys are a promise to readers outside.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "metrics/output_file.hpp"
#include "metrics/sink.hpp"

namespace eqt::metrics {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Raised when a key of metrics.jsonl changes its meaning or goes.
constexpr int kSchema = 1;

constexpr const char* kRecords = "metrics.jsonl";
constexpr const char* kSummary = "summary.json";

/// JSON has no NaN and no infinity.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json number(const std::optional<double>& x) { return x ? number(*x) : Json(nullptr); }

Json json_of(const RoomSeconds& s) {
  return {{"data", number(s.data)},     {"compute", number(s.compute)},
          {"encode", number(s.encode)}, {"transfer", number(s.transfer)},
          {"decode", number(s.decode)}, {"update", number(s.update)},
          {"total", number(s.total)}};
}

/// The config as an object, so that a reader of the records need not parse twice.
Json config_of(const RunRecord& r) {
  Json config = Json::parse(r.config_json, nullptr, false);
  return config.is_discarded() ? Json(nullptr) : config;
}

Json json_of(const PartitionRecord& r) {
  if (r.kind.empty()) return nullptr;
  Json partition = {{"kind", r.kind}};
  if (r.skew) partition["skew"] = number(*r.skew);
  if (r.alpha) partition["alpha"] = number(*r.alpha);
  return partition;
}

Json json_of(const RunRecord& r) {
  const PartitionRecord& p = r.partition;
  const bool has_data = !p.kind.empty();
  return {{"type", "run"},
          {"schema", kSchema},
          {"name", r.name},
          {"version", r.version},
          {"torch", r.torch},
          {"mpi", r.mpi},
          {"host", r.host},
          {"simd", r.simd},
          {"ranks", r.ranks},
          {"threads_per_rank", r.threads_per_rank},
          {"model", r.model},
          {"dataset", r.dataset},
          {"compressor", r.compressor},
          {"collective", r.collective},
          {"collective_predicted_ms", number(r.collective_predicted_ms)},
          {"algorithm", r.algorithm},
          {"parameters", r.parameters},
          {"train_samples", r.train_samples},
          {"test_samples", r.test_samples},
          {"partition", json_of(p)},
          {"leftover_samples", has_data ? Json(p.leftover_samples) : Json(nullptr)},
          {"class_histogram", has_data ? Json(p.class_histogram) : Json(nullptr)},
          {"memory_estimate_bytes", r.memory_estimate_bytes},
          {"images_per_step", r.images_per_step},
          {"steps_per_epoch", r.steps_per_epoch},
          {"total_steps", r.total_steps},
          {"config", config_of(r)}};
}

/// Null where the list is empty: there is nothing of its kind.
template <typename T>
Json list(const std::vector<T>& values) {
  return values.empty() ? Json(nullptr) : Json(values);
}

Json list(const std::vector<EdgeRecord>& edges) {
  if (edges.empty()) return nullptr;
  Json all = Json::array();
  for (const EdgeRecord& e : edges) {
    all.push_back({{"from", e.from}, {"to", e.to}, {"bytes", e.bytes}});
  }
  return all;
}

Json count(const std::optional<std::uint64_t>& n) { return n ? Json(*n) : Json(nullptr); }

void add(const ReplicasRecord& r, Json& record) {
  record["node_test_accuracy"] = list(r.node_test_accuracy);
  record["node_test_accuracy_mean"] = number(r.node_mean());
  record["node_test_accuracy_min"] = number(r.node_min());
  record["consensus_distance"] = number(r.consensus_distance);
  record["consensus_distance_relative"] = number(r.consensus_distance_relative);
  record["evaluation_sent_bytes"] = count(r.evaluation_sent_bytes);
}

Json json_of(const StepRecord& r) {
  return {{"type", "step"},
          {"step", r.step},
          {"epoch", r.epoch},
          {"loss", number(r.loss)},
          {"learning_rate", number(r.learning_rate)},
          {"seconds", json_of(r.seconds)},
          {"sent_bytes", r.sent_bytes},
          {"received_bytes", r.received_bytes}};
}

Json json_of(const NoteRecord& r) { return {{"type", "note"}, {"step", r.step}, {"text", r.text}}; }

Json json_of(const EpochRecord& r) {
  Json epoch = {
      {"type", "epoch"},
      {"epoch", r.epoch},
      {"step", r.step},
      {"train_loss", number(r.train_loss)},
      {"test_accuracy", number(r.test_accuracy)},
      {"test_loss", number(r.test_loss)},
      {"images_per_second", number(r.images_per_second)},
      {"seconds", json_of(r.seconds)},
      {"sent_bytes", r.sent_bytes},
      {"compression_ratio", number(r.compression_ratio)},
      {"bits_per_value", number(r.bits_per_value)},
      {"quantization_variance", number(r.quantization_variance)},
      {"replicas_identical", r.replicas_identical ? Json(*r.replicas_identical) : Json(nullptr)}};
  add(r.replicas, epoch);
  return epoch;
}

Json json_of(const Summary& s) {
  Json summary = {
      {"name", s.name},
      {"version", s.version},
      {"compressor", s.compressor},
      {"collective", s.collective},
      {"algorithm", s.algorithm},
      {"ranks", s.ranks},
      {"steps", s.steps},
      {"epochs", s.epochs},
      {"parameters", s.parameters},
      {"train_loss", number(s.train_loss)},
      {"test_accuracy", number(s.test_accuracy)},
      {"best_test_accuracy", number(s.best_test_accuracy)},
      {"wall_seconds", number(s.wall_seconds)},
      {"images_per_second", number(s.images_per_second)},
      {"epoch_seconds", json_of(s.epoch_seconds)},
      {"sent_bytes", s.sent_bytes},
      {"received_bytes", s.received_bytes},
      {"dense_bytes", s.dense_bytes},
      {"compression_ratio", number(s.compression_ratio)},
      {"bits_per_value", number(s.bits_per_value)},
      {"quantization_variance", number(s.quantization_variance)},
      {"replicas_identical", s.replicas_identical ? Json(*s.replicas_identical) : Json(nullptr)},
      {"parameter_hash", s.parameter_hash},
      {"peak_rss_mib", number(s.peak_rss_mib)}};
  add(s.replicas, summary);
  summary["sent_bytes_by_edge"] = list(s.sent_bytes_by_edge);
  summary["sent_bytes_by_node"] = list(s.sent_bytes_by_node());
  summary["paper_sent_bytes_per_node"] = count(s.paper_sent_bytes_per_node);
  return summary;
}

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Makes `folder` ready for a new run and returns the path of its records.
std::string prepare(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(Kind::output, "cannot make the run folder {}: {}; choose another with --out",
         folder.string(), error.message());
  // A summary says that the run beside it is complete, so an old one must not outlive this moment.
  fs::remove(folder / kSummary, error);
  if (error)
    fail(Kind::output, "cannot remove {} of an earlier run: {}; choose another folder with --out",
         (folder / kSummary).string(), error.message());
  return (folder / kRecords).string();
}

/// Whether a record tells of something up to this step, and is whole.
bool is_up_to(StepId step, const Json& record) {
  if (!record.is_object() || !record.contains("type")) return false;
  const auto found = record.find("step");
  return found == record.end() || (found->is_number_unsigned() && found->get<StepId>() <= step);
}

/// Cuts what was written after the step. @return whether a run's record is among the rest
bool cut_records(const std::string& path, StepId step) {
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
        step_records_(step_records),
        has_run_(goes_on_after && cut_records(prepare(folder), *goes_on_after)),
        records_(prepare(folder),
                 goes_on_after ? OutputFile::Begin::at_end : OutputFile::Begin::empty) {}

  void write(const RunRecord& record) override {
    emulated_ = record.emulated;
    simulated_ = record.simulated;
    if (!has_run_) append(json_of(record));
  }
  void write(const StepRecord& record) override {
    if (step_records_) append(json_of(record));
  }
  void write(const NoteRecord& record) override { append(json_of(record)); }
  void write(const EpochRecord& record) override { append(json_of(record)); }
  void write(const Summary& summary) override {
    records_.sync();
    write_atomically(summary_path_, text_of(marked(json_of(summary)), 2));
  }

 private:
  /// No record of an emulated or simulated run can be taken for a real one's, whoever made it.
  Json marked(Json json) const {
    if (emulated_) json["emulated"] = true;
    if (simulated_) json["simulated"] = true;
    return json;
  }

  void append(Json json) { records_.write(text_of(marked(std::move(json)), -1)); }

  std::string summary_path_;
  bool step_records_;
  bool has_run_;  // the record of the run that goes on
  bool emulated_ = false, simulated_ = false;
  OutputFile records_;
};

}  // namespace

std::unique_ptr<Sink> make_folder_sink(const std::string& folder, bool step_records,
                                       std::optional<StepId> goes_on_after) {
  return std::make_unique<FolderSink>(folder, step_records, goes_on_after);
}

}  // namespace eqt::metrics
