// SPDX-License-Identifier: Apache-2.0
#include "report/read_run.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "figures/text.hpp"
#include "metrics/run_files.hpp"
#include "report/members.hpp"
#include "report/outcome.hpp"
#include "report/quantities.hpp"
#include "report/starts.hpp"
#include "report/sweep_files.hpp"

namespace eqt::report {
using figures::finite;
using figures::shortened;

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;
namespace files = metrics::run_files;

// The schema of metrics.jsonl that this program writes and reads (metrics/folder_sink.cpp).
constexpr std::uint64_t kSchema = 1;

Json parse_document(const std::string& text, const std::string& place) {
  Json json = parse_lenient(text).first;
  if (json.is_discarded())
    fail(Kind::data, "{}: expected JSON, found something else; make the run again or leave it out",
         place);
  return json;
}

/// Dotted keys of all members that are not objects.
void flatten(const Json& json, const std::string& prefix,
             std::map<std::string, std::string>& settings) {
  for (const auto& [key, value] : json.items()) {
    const std::string path = fmt::format("{}{}{}", prefix, prefix.empty() ? "" : ".", visible(key));
    if (value.is_object()) {
      flatten(value, path, settings);
    } else {
      settings[path] = visible(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

/// It becomes a part of files' names.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 32 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

double number_or_nan(Figure figure) {
  return figure.value_or(std::numeric_limits<double>::quiet_NaN());
}

metrics::PhaseSeconds phases_of(const Members& seconds) {
  metrics::PhaseSeconds phases;
  for (const metrics::PhaseRow& phase : metrics::kPhases)
    phases.*phase.seconds = number_or_nan(seconds.figure(phase.name));
  return phases;
}

metrics::PhaseSeconds seconds_of(const Members& record) {
  return phases_of(record.inside("seconds"));
}

std::vector<metrics::PhaseSeconds> rank_seconds_of(const Members& record, const Run& run) {
  const auto found = record.object().find("rank_seconds");
  if (found == record.object().end() || found->is_null()) return {};
  if (!found->is_array() || found->size() != static_cast<std::size_t>(run.ranks))
    record.fail_member("rank_seconds", "a list of seconds for each rank");
  std::vector<metrics::PhaseSeconds> all;
  for (const Json& seconds : *found) all.push_back(phases_of(Members(seconds, record.place())));
  return all;
}

Epoch epoch_of(const Members& record, const Run& run) {
  Epoch epoch;
  epoch.metrics = metrics_of(record, run);
  epoch.epoch = record.count("epoch");
  epoch.step = record.count("step");
  for (const metrics::FigureRow& row : metrics::kFigures)
    if (metrics::is_in(row, metrics::Records::epoch)) epoch.*row.value = record.figure(row.name);
  epoch.seconds = seconds_of(record);
  epoch.rank_seconds = rank_seconds_of(record, run);
  epoch.sent_bytes = record.count("sent_bytes");
  return epoch;
}

void read_histogram(const Members& record, Run& run) {
  if (record.is_null("class_histogram") || !record.object().contains("class_histogram")) return;
  const Json& ranks = record.object()["class_histogram"];
  const char* expected = "a list of samples by class for each rank";
  if (!ranks.is_array()) record.fail_member("class_histogram", expected);
  for (const Json& classes : ranks) {
    if (!classes.is_array() || classes.size() != ranks[0].size() ||
        !std::ranges::all_of(classes, [](const Json& n) { return n.is_number_unsigned(); }))
      record.fail_member("class_histogram", expected);
    run.class_histogram.push_back(classes.get<std::vector<std::uint64_t>>());
  }
}

/// The finite number behind the first `key` of a line.
Figure number_in(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  const char* const begin = line.data() + at + key.size();
  double value = 0;
  if (std::from_chars(begin, line.data() + line.size(), value).ec != std::errc{}) return {};
  return finite(value);
}

void read_grades(const Members& record, Run& run) {
  if (!record.object().contains("grades") || record.is_null("grades")) return;
  const Members grades = record.inside("grades");
  for (const char* key : {"menu", "tensors"})
    if (!grades.object().contains(key)) grades.fail_member(key, "a list of texts");
  run.grades = {.menu = grades.texts("menu"),
                .tensors = grades.texts("tensors"),
                .start = grades.count("start")};
}

/// The metrics that the run record names, in its order.
void read_metrics(const Members& record, Run& run) {
  const char* expected = "a list of metrics with name, title and direction";
  const auto found = record.object().find("metrics");
  if (found != record.object().end() && !found->is_null()) {
    if (!found->is_array()) record.fail_member("metrics", expected);
    for (const Json& item : *found) {
      if (!item.is_object()) record.fail_member("metrics", expected);
      const Members members(item, record.place());
      metrics::MetricRecord metric{.name = members.text("name"), .title = members.text("title")};
      metric.higher_is_better = members.flag("higher_is_better");
      metric.fraction = members.flag("fraction");
      if (!is_file_name(metric.name)) record.fail_member("metrics", expected);
      run.metrics.push_back(metric);
    }
  }
  if (run.metrics.empty()) run.metrics.push_back(accuracy_metric());
}

/// Runs of older programs have no list.
void read_plugins(const Members& record, Run& run) {
  const char* expected = "a list of plugins with name and hash";
  const auto found = record.object().find("plugins");
  if (found == record.object().end() || found->is_null()) return;
  if (!found->is_array()) record.fail_member("plugins", expected);
  for (const Json& item : *found) {
    if (!item.is_object()) record.fail_member("plugins", expected);
    const Members plugin(item, record.place());
    run.plugins[plugin.text("name")] = plugin.text("hash");
  }
}

void check_schema(const Members& record, const std::string& place) {
  const std::uint64_t schema = record.count("schema");
  if (schema != kSchema)
    fail(Kind::data,
         "{}: expected records of schema {}, found {}; report the run with the program that made "
         "it",
         place, kSchema, schema == 0 ? "none" : fmt::format("{}", schema));
}

/// A run that goes on with other ranks has a further record: later ones describe what follows.
void read_run_record(const Members& record, const std::string& place, Run& run) {
  check_schema(record, place);
  run.class_histogram.clear();
  run.metrics.clear();
  run.grades.reset();
  run.plugins.clear();
  run.name = record.text("name");
  run.version = record.text("version");
  run.host = record.text("host");
  run.torch = record.text("torch");
  run.simd = record.text("simd");
  run.model = record.text("model");
  run.dataset = record.text("dataset");
  run.compressor = record.text("compressor");
  run.collective = record.text("collective");
  run.algorithm = record.text("algorithm");
  const std::uint64_t ranks = record.count("ranks");
  constexpr std::uint64_t kMaxRanks = 1u << 20;
  if (ranks < 1 || ranks > kMaxRanks) record.fail_member("ranks", "a number of ranks");
  run.ranks = static_cast<int>(ranks);
  run.threads_per_rank = static_cast<int>(std::min(record.count("threads_per_rank"), kMaxRanks));
  run.parameters = record.count("parameters");
  run.train_samples = record.count("train_samples");
  run.test_samples = record.count("test_samples");
  run.steps_per_epoch = record.count("steps_per_epoch");
  run.total_steps = record.count("total_steps");
  run.memory_estimate_bytes = record.count("memory_estimate_bytes");
  run.emulated = record.flag("emulated");
  run.emulated_link = record.text("emulated_link");
  run.laboratory = record.text("laboratory");
  run.simulated = record.flag("simulated");
  if (record.object().contains("int8")) {
    const Members int8 = record.inside("int8");
    run.int8 = {.kernels = int8.text("kernels"),
                .arena_bytes = int8.count("arena_bytes"),
                .saved_bytes = int8.count("saved_bytes")};
  }
  read_histogram(record, run);
  read_metrics(record, run);
  read_plugins(record, run);
  read_grades(record, run);
  if (run.settings.empty() && record.object().contains("config"))
    flatten(record.object()["config"], "", run.settings);
}

/// Reads metrics.jsonl line by line.
class RecordReader {
 public:
  RecordReader(const fs::path& path, Run& run) : path_(path), run_(run) {}

  void read() {
    std::error_code error;
    if (!fs::is_regular_file(path_, error)) return;
    std::ifstream file(path_, std::ios::binary);
    for (std::string line; std::getline(file, line);) {
      ++number_;
      const bool cut = file.eof();  // no newline: the writer was interrupted
      if (!line.empty()) take(line, cut);
    }
    if (file.bad())
      fail(Kind::data, "{}: expected a readable file, but reading failed after line {}",
           visible(path_.string()), number_);
    run_.pauses = pauses_of(seconds_, run_.starts);
    if (run_.epochs.empty() && has_run_) read_steps();
    if (has_run_ && ranks_.size() > 1) {
      run_.settings["ranks"] = fmt::format("{}", fmt::join(ranks_, ", then "));
      run_.remarks.push_back(
          fmt::format("ran on {} ranks; bytes per rank are those of all ranks by the last number",
                      run_.settings["ranks"]));
    }
    if (rollbacks_ > 0)
      run_.remarks.push_back(
          fmt::format("went back to a checkpoint {}",
                      rollbacks_ == 1 ? std::string("once") : fmt::format("{} times", rollbacks_)));
    if (words_ > 0)
      run_.remarks.push_back(fmt::format("{} figures are NaN or infinite: gaps", words_));
  }

 private:
  static constexpr std::string_view kStepBegin = "{\"type\":\"step\"";

  std::string place() const { return fmt::format("{}:{}", visible(path_.string()), number_); }

  void take(const std::string& line, bool cut) {
    // Most lines are steps, of which nothing but the loss is needed if there is an epoch.
    if (!cut && has_run_ && line.starts_with(kStepBegin)) return add_step_loss(line);
    const auto [json, words] = parse_lenient(line);
    if (json.is_discarded()) {
      if (!cut)
        fail(Kind::data, "{}: expected a record in JSON, found \"{}\"; leave the run out", place(),
             shortened(visible(line), 40));
      run_.remarks.push_back("the last record was cut off and is left out");
      return;
    }
    words_ += words;
    const Members record(json, place());
    const std::string type = record.text("type");
    if (type == "run") {
      read_run_record(record, place(), run_);
      has_run_ = true;
      if (ranks_.empty() || ranks_.back() != run_.ranks) ranks_.push_back(run_.ranks);
    } else if (!has_run_) {
      fail(Kind::data, "{}: expected the record of the run first, found {}; leave the run out",
           place(), type.empty() ? "none" : '"' + type + '"');
    } else if (type == "epoch") {
      add_epoch(record);
    } else if (type == "note") {
      go_back(record);
    }
  }

  /// After a note that the run went back, records of later steps are void.
  void go_back(const Members& record) {
    if (!record.object().contains("back_to")) return;
    const std::uint64_t step = record.count("back_to");
    while (!run_.epochs.empty() && run_.epochs.back().step > step) run_.epochs.pop_back();
    forget_losses_after(step);
    ++rollbacks_;
  }

  void forget_losses_after(std::uint64_t step) {
    while (!run_.step_losses.empty() && run_.step_losses.back().last > step)
      run_.step_losses.pop_back();
    while (!seconds_.empty() && seconds_.back().step > step) seconds_.pop_back();
  }

  /// Takes three members from the text of a record, since there may be millions of them.
  void add_step_loss(std::string_view line) {
    constexpr std::uint64_t kMostPoints = 400;
    const Figure found = number_in(line, "\"step\":");
    if (!found || !(*found >= 1 && *found < 1e15)) return;
    const auto step = static_cast<std::uint64_t>(*found);
    forget_losses_after(step - 1);  // a step that comes again: the run went back
    const std::uint64_t each = run_.total_steps / kMostPoints + 1;
    auto& losses = run_.step_losses;
    if (losses.empty() || (step - 1) / each != (losses.back().first - 1) / each)
      losses.push_back({step, step, 0, 0});
    losses.back().last = step;
    if (const Figure seconds = number_in(line, "\"total\":")) {
      losses.back().longest = std::max(losses.back().longest, *seconds);
      seconds_.push_back({step, *seconds});
    }
    const Figure loss = number_in(line, "\"loss\":");
    if (!loss) return;
    losses.back().sum += *loss;
    ++losses.back().count;
  }

  void add_epoch(const Members& record) {
    const Epoch epoch = epoch_of(record, run_);
    if (!run_.epochs.empty() && epoch.epoch <= run_.epochs.back().epoch)
      fail(Kind::data, "{}: expected an epoch after {}, found {}; leave the run out", place(),
           run_.epochs.back().epoch, epoch.epoch);
    if (!epoch.train_loss && record.is_null("train_loss") && !run_.emulated)
      run_.remarks.push_back(
          fmt::format("the training loss of epoch {} was not finite: a gap", epoch.epoch));
    run_.epochs.push_back(epoch);
  }

  /// Only for a run without an epoch.
  void read_steps() {
    std::ifstream file(path_, std::ios::binary);
    std::map<std::uint64_t, Epoch> steps;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      if (!line.starts_with(kStepBegin)) continue;
      const Json json = parse_lenient(line).first;
      if (json.is_discarded()) continue;
      const Members record(json, visible(path_.string()));
      Epoch step;
      step.step = record.count("step");
      step.seconds = seconds_of(record);
      step.sent_bytes = record.count("sent_bytes");
      step.train_loss = record.figure("loss");
      // A step that comes again: the run went back.
      steps.erase(steps.lower_bound(step.step), steps.end());
      steps.emplace(step.step, step);
    }
    Epoch epoch;
    std::vector<Figure> losses;
    for (const auto& [number, step] : steps) {
      epoch.step = number;
      epoch.seconds += step.seconds;
      epoch.sent_bytes += step.sent_bytes;
      losses.push_back(step.train_loss);
    }
    const Spread loss = spread_of(losses);
    if (loss.known > 0) epoch.train_loss = loss.mean;
    if (epoch.step > 0) run_.epochs.push_back(epoch);
  }

  fs::path path_;
  Run& run_;
  std::size_t number_ = 0, words_ = 0, rollbacks_ = 0;
  std::vector<int> ranks_;            // as the run's records say, one after the other
  std::vector<StepSeconds> seconds_;  // of all steps
  bool has_run_ = false;
};

/// The names of the classes, which the description of the network's input has.
void read_class_names(const fs::path& folder, Run& run) {
  const Json json = parse_lenient(read_document(folder / files::kPreprocessing)).first;
  if (!json.is_object()) return;
  const auto names = json.find("class_names");
  if (names == json.end() || !names->is_array()) return;
  for (const Json& name : *names)
    run.class_names.push_back(name.is_string() ? visible(name.get_ref<const std::string&>()) : "?");
}

/// Runs on different links are not compared as if they were seeds.
void note_link(Run& run) {
  if (!run.emulated_link.empty()) {
    run.settings["link.delay"] = run.emulated_link;
    run.remarks.push_back(fmt::format(
        "messages were held (EQT_LINK={}): seconds are no measurement of the real network",
        run.emulated_link));
  }
  if (!run.laboratory.empty() && !run.settings.contains("link.rate"))
    run.settings["link.shaped"] = run.laboratory;
}

/// Returns the epoch within which the run most likely stopped and went on later: of those with a
/// start inside, if there are any, the one with the fewest seconds a step. @pre there is an epoch
Epoch& interrupted_epoch(Run& run) {
  Epoch* found = nullptr;
  std::pair<bool, double> least;
  std::uint64_t before = 0;
  for (Epoch& epoch : run.epochs) {
    const bool goes_on = std::ranges::any_of(run.starts, [&](const Start& start) {
      return start.step > before && start.step < epoch.step;
    });
    const double steps = epoch.step > before ? static_cast<double>(epoch.step - before) : 0;
    const std::pair rank(!goes_on, epoch.seconds.total / steps);
    before = epoch.step;
    if (found != nullptr && !(rank < least)) continue;
    found = &epoch;
    least = rank;
  }
  return *found;
}

/// Adds what the summary has beyond the records. Where a run stopped within an epoch and went on
/// later, the record of that epoch is only of the steps behind the stop.
void complete_epochs(const Members& summary, Run& run) {
  constexpr double kRounding = 1e-6;
  if (run.epochs.empty()) return;
  metrics::PhaseSeconds recorded;
  std::uint64_t recorded_bytes = 0;
  for (const Epoch& epoch : run.epochs) {
    recorded += epoch.seconds;
    recorded_bytes += epoch.sent_bytes;
  }
  const metrics::PhaseSeconds mean = phases_of(summary.inside("epoch_seconds"));
  const auto epochs = static_cast<double>(summary.count("epochs"));
  // A summary of an older program may lack the seconds, which are NaN then.
  if (!(epochs * mean.total > (1 + kRounding) * recorded.total)) return;
  Epoch& epoch = interrupted_epoch(run);
  for (const metrics::PhaseRow& phase : metrics::kPhases)
    epoch.seconds.*phase.seconds +=
        std::max(0.0, epochs * mean.*phase.seconds - recorded.*phase.seconds);
  epoch.rank_seconds.clear();  // nobody has those before the stop
  if (const std::uint64_t all = summary.count("sent_bytes"); all > recorded_bytes)
    epoch.sent_bytes += all - recorded_bytes;
}

}  // namespace

std::string Run::setting(const std::string& key, const std::string& otherwise) const {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

void add_defaults(const std::string& defaults, std::vector<Run>& runs) {
  if (defaults.empty()) return;
  std::map<std::string, std::string> usual;
  flatten(parse_document(defaults, "the defaults"), "", usual);
  for (const auto& [key, value] : usual) {
    const auto differs = [&](const Run& run) {
      const auto found = run.settings.find(key);
      return found != run.settings.end() && found->second != value;
    };
    if (std::ranges::none_of(runs, differs)) continue;
    for (Run& run : runs)
      if (run.settings.contains("compressor.name")) run.settings.try_emplace(key, value);
  }
}

bool is_empty(const Run& run) { return run.version.empty() && run.epochs.empty(); }

Run read_run(const std::string& folder) {
  const fs::path path(folder);
  Run run;
  run.folder = visible(folder);
  run.path = folder;
  const std::string config = read_document(path / files::kConfig);
  if (!config.empty()) {
    const Json json = parse_document(config, visible((path / files::kConfig).string()));
    flatten(Members(json, visible((path / files::kConfig).string())).object(), "", run.settings);
  }
  const std::string place = visible((path / files::kSummary).string());
  const std::string summary = read_document(path / files::kSummary);
  const Json json = summary.empty() ? Json(Json::object()) : parse_document(summary, place);
  const Members members(json, place);
  run.starts = read_starts(folder, members);
  RecordReader(path / files::kRecords, run).read();
  run.seed = run.setting("seed", "?");
  if (run.name.empty()) run.name = run.setting("name", "run");
  const std::string epochs = run.setting("train.epochs", "0");
  run.planned_epochs = std::strtoull(epochs.c_str(), nullptr, 10);
  read_beside(path, run);
  read_class_names(path, run);
  note_link(run);
  run.settings.try_emplace("ranks", fmt::format("{}", run.ranks));
  run.settings["simulated"] = run.simulated ? "simulated" : "by MPI";
  run.finished = !summary.empty();
  if (!run.finished) {
    run.outcome = outcome_so_far(run);
    return run;
  }
  complete_epochs(members, run);
  run.outcome = outcome_of(members, run);
  if (json.value("replicas_identical", Json()) == Json(false))
    run.remarks.push_back("replicas differ at the end though they should be identical");
  return run;
}

}  // namespace eqt::report
