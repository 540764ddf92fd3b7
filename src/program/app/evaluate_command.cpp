// SPDX-License-Identifier: Apache-2.0
// The verb `evaluate`: a trained network on any data set.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <system_error>

#include "app/trained_run.hpp"
#include "app/verbs.hpp"
#include "comm/host_facts.hpp"
#include "comm/session.hpp"
#include "core/error.hpp"
#include "data/class_names.hpp"
#include "data/views.hpp"
#include "figures/draw.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"
#include "model/array_loss.hpp"
#include "model/averaged_views.hpp"
#include "report/evaluation.hpp"
#include "report/read_run.hpp"
#include "report/values.hpp"
#include "setup/build_data.hpp"
#include "setup/build_model.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kMaxPrintedClasses = 20;  // of the matrix, which is as wide as they are many

/// A subject is what is evaluated, and the data on which it is.
struct Subject {
  std::unique_ptr<model::Replica> network;
  model::Measures measures;
  std::string weights;               // the file
  std::vector<std::string> classes;  // of the network, by label; none if samples have no class
  data::DatasetPair sets;
  std::string set_name, set_path;
  bool own_set = false;              // the data of the run itself
  int ranks = 1;                     // above 1: the set is rank 0's own, of a run with so many
  std::uint64_t samples_of_all = 0;  // test samples of those ranks together, 0 = unknown
  /// These rescale, by channel, a value of the set to one that the network expects; empty: as it
  /// is.
  std::vector<std::pair<float, float>> rescale = {};  // factor, offset
  std::vector<std::size_t> labels = {};               // of the set's classes, in the network
  data::TestViews views = data::TestViews::plain;
};

/// Pictures are normalised as in the network's training, whatever the set's own figures are.
std::vector<std::pair<float, float>> rescaling(const data::Normalization& from,
                                               const data::Normalization& to) {
  if (from.mean == to.mean && from.deviation == to.deviation) return {};
  std::vector<std::pair<float, float>> by_channel;
  for (std::size_t c = 0; c < from.mean.size(); ++c)
    by_channel.emplace_back(static_cast<float>(from.deviation[c] / to.deviation[c]),
                            static_cast<float>((from.mean[c] - to.mean[c]) / to.deviation[c]));
  return by_channel;
}

/// The network's label of each of the set's classes, by their names.
std::vector<std::size_t> matched_labels(const std::vector<std::string>& network,
                                        const std::vector<std::string>& set,
                                        const std::string& set_name) {
  std::vector<std::size_t> labels;
  for (const std::string& name : set) {
    const auto found = std::ranges::find(network, name);
    if (found == network.end()) {
      data::require_unlike(network, name, "evaluate: " + set_name);
      fail(
          Kind::usage,
          "evaluate: expected a data set with the network's classes, found \"{}\" in {}, which the "
          "network does not know; name a set of the same classes",
          name, set_name);
    }
    labels.push_back(static_cast<std::size_t>(found - network.begin()));
  }
  return labels;
}

/// "0", "1", ... for classes without names.
void name_classes(std::size_t classes, std::vector<std::string>& names) {
  if (!names.empty()) return;
  for (std::size_t c = 0; c < classes; ++c) names.push_back(std::to_string(c));
}

model::Measures measures_of(const config::RunConfig& config, const model::ModelOptions& options) {
  return {.task = config.task.kind, .outputs = options.outputs};
}

/// Returns how the set of a run is read: what tells only what it learnt may be missing, and texts
/// become tokens as in training.
data::DatasetOptions tested_set(const config::RunConfig& config, const EvaluateCommand& command,
                                const TrainedRun& run) {
  data::DatasetOptions options = setup::dataset_options(config);
  options.needs_train = command.split == "train";
  options.is_part = options.is_part || !options.needs_train;
  const std::string vocabulary = run.folder + "/" + metrics::run_files::kVocabulary;
  std::error_code error;
  if (std::filesystem::is_regular_file(vocabulary, error)) options.text.vocabulary = vocabulary;
  return options;
}

/// Where each rank tested on a set of its own, the one that is read here is rank 0's.
void note_ranks(const config::RunConfig& config, const TrainedRun& run, Subject& subject) {
  if (!subject.own_set || !setup::has_local_data(config)) return;
  try {
    const report::Run records = report::read_run(run.folder);
    subject.ranks = records.ranks;
    subject.samples_of_all =
        config.data.partition.test == data::LocalTest::own ? records.test_samples : 0;
  } catch (const Error&) {  // of records that are missing or cut off; nothing else needs them
  }
}

const data::Dataset& set_of(const Subject& subject, const EvaluateCommand& command) {
  return command.split == "train" ? *subject.sets.train : *subject.sets.test;
}

/// Gives arrays of tokens, which may lack some, those of the network.
/// @throws Error{data} if they have others
void settle_tokens(const TrainedRun& run, data::DatasetPair& sets) {
  const std::int64_t known = run.input.target ? run.input.target->bound : 0;
  if (sets.tokens == 0 || known == 0) return;
  if (sets.tokens > known)
    fail(Kind::data,
         "evaluate: expected tokens below {}, as the network was trained on, found {}; name "
         "another data set",
         known, sets.tokens - 1);
  data::settle_tokens(sets, known);
}

Subject subject_of_run(const EvaluateCommand& command) {
  const TrainedRun run = open_run(command.target, command.best);
  const std::string path = command.config_path.empty()
                               ? run.folder + "/" + metrics::run_files::kConfig
                               : command.config_path;
  config::RunConfig config = parse_trained_config(read_config_file(path), path, command.sets);
  config.task = run.config.task;
  config.data.standardize = run.config.data.standardize;
  const data::DatasetOptions options = tested_set(config, command, run);
  Subject subject{.network = load_network(run, command.threads),
                  .measures = measures_of(config, network_options(run)),
                  .weights = run.weights,
                  .classes = run.input.class_names,
                  .sets = data::open_dataset(options),
                  .set_name = std::string(config.data.name->name),
                  .set_path = options.path,
                  .own_set = config.data == run.config.data};
  note_ranks(config, run, subject);
  settle_tokens(run, subject.sets);
  const data::Dataset& set = set_of(subject, command);
  subject.views = setup::test_views(config, set);
  const std::vector<data::ArraySpec> inputs = set.inputs();
  if (inputs != run.input.inputs)
    fail(Kind::usage,
         "evaluate: expected a data set with {}, as the network was trained on, found {} in {}; "
         "name another data set",
         data::text_of(run.input.inputs), data::text_of(inputs), subject.set_name);
  if (!run.input.columns.empty() && !subject.sets.columns.empty() &&
      subject.sets.columns != run.input.columns)
    fail(Kind::data,
         "evaluate: expected the columns {}, as the network was trained on, found {} in {}; name "
         "the columns alike and in the same order",
         fmt::join(run.input.columns, ", "), fmt::join(subject.sets.columns, ", "),
         subject.set_path);
  if (!run.input.moments.empty()) data::standardize(subject.sets, run.input.moments);
  subject.rescale = rescaling(subject.sets.normalization, run.input.normalization);
  const auto classes = static_cast<std::size_t>(set.classes());
  name_classes(classes, subject.classes);
  name_classes(classes, subject.sets.class_names);
  subject.labels = matched_labels(subject.classes, subject.sets.class_names, subject.set_name);
  return subject;
}

Subject subject_of_weights(const EvaluateCommand& command) {
  std::error_code error;
  if (command.config_path.empty() && !std::filesystem::exists(command.target, error))
    fail(Kind::usage,
         "evaluate: expected --config FILE with a file of weights, or a run folder, found nothing "
         "at {}; {}",
         command.target, nearest_or(command.target, "name what --out was given"));
  if (command.config_path.empty())
    fail(Kind::usage,
         "evaluate: expected --config FILE with the network and the data set of the weights {}, "
         "found none; name it, or name a run folder",
         command.target);
  if (command.best)
    fail(Kind::usage, "evaluate: expected a run folder with --best, found {}; leave it out",
         command.target);
  const config::RunConfig config = parse_trained_config(read_config_file(command.config_path),
                                                        command.config_path, command.sets);
  Subject subject{.network = nullptr,
                  .measures = {},
                  .weights = command.target,
                  .classes = {},
                  .sets = data::open_dataset(setup::dataset_options(config)),
                  .set_name = std::string(config.data.name->name),
                  .set_path = setup::place_of(config.data.path, 0)};
  const data::Dataset& set = *subject.sets.test;
  const model::ModelOptions options =
      setup::network_for(config, {set.inputs(), set.target(), set.classes()});
  subject.measures = measures_of(config, options);
  subject.views = setup::test_views(config, set);
  subject.classes = subject.sets.class_names;
  name_classes(static_cast<std::size_t>(set.classes()), subject.classes);
  model::set_threads(command.threads > 0 ? command.threads : comm::online_cores());
  const OwnNetworkDeadline deadline(config);
  subject.network = model::make_replica(options);
  subject.network->load_weights(command.target);
  subject.labels.resize(subject.classes.size());
  std::iota(subject.labels.begin(), subject.labels.end(), std::size_t{0});
  return subject;
}

void rescale(const std::vector<std::pair<float, float>>& by_channel, data::Batch& batch) {
  if (by_channel.empty()) return;
  const std::span<float> images = batch.inputs.front().get<float>();
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto [factor, offset] = by_channel[i % by_channel.size()];  // channels last
    images[i] = images[i] * factor + offset;
  }
}

/// Adds the samples of a batch whose targets are classes.
void count_confusion(const data::Batch& batch, const data::Array& outputs,
                     report::Evaluated& result) {
  const std::size_t classes = result.classes.size();
  const std::span<const float> all = outputs.get<float>();
  const std::span<const std::int64_t> targets = batch.targets.get<std::int64_t>();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto logits = all.subspan(i * classes, classes);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
    ++result.confusion.at(static_cast<std::size_t>(targets[i]))[best];
  }
}

report::Evaluated evaluate(const EvaluateCommand& command, const Subject& subject) {
  const data::Dataset& set = set_of(subject, command);
  report::Evaluated result{.network = subject.weights,
                           .dataset = subject.set_name,
                           .path = subject.set_path,
                           .split = command.split,
                           .samples = set.size(),
                           .ranks = subject.ranks,
                           .metrics = {},
                           .classes = {},
                           .confusion = {}};
  const bool has_matrix = subject.measures.task == model::tasks::classification;
  if (has_matrix) {
    result.classes = subject.classes;
    result.confusion.assign(result.classes.size(),
                            std::vector<std::uint64_t>(result.classes.size()));
  }
  // This is the loss of the matrix' outputs, which are computed only once.
  const model::ArrayLoss loss({.kind = subject.measures.task}, subject.measures.outputs);
  model::Evaluation sums;
  data::Batch batch;
  data::Array outputs;
  std::vector<std::size_t> indices;
  model::AveragedViews views(subject.views);
  for (std::size_t begin = 0; begin < set.size(); begin += command.batch) {
    indices.resize(std::min(command.batch, set.size() - begin));
    std::iota(indices.begin(), indices.end(), begin);
    set.read(indices, std::nullopt, batch);
    rescale(subject.rescale, batch);
    if (has_matrix) {
      for (std::int64_t& target : batch.targets.get<std::int64_t>())
        target = static_cast<std::int64_t>(subject.labels.at(static_cast<std::size_t>(target)));
    }
    if (!has_matrix && !views.differ()) {
      sums += subject.network->evaluate(batch);
      continue;
    }
    views.predict(*subject.network, batch, outputs);
    if (has_matrix) count_confusion(batch, outputs, result);
    sums += loss.evaluate(outputs.get<float>(), batch.targets);
  }
  if (!std::isfinite(sums.loss_sum))
    fail(Kind::diverged, "evaluate: expected a finite loss, found {}; the weights {} are of no use",
         sums.loss_sum, subject.weights);
  result.metrics.emplace_back("loss", sums.loss());
  for (const metrics::MetricRecord& metric : subject.measures.of(&sums))
    if (std::isfinite(metric.value) && metric.name != "loss")
      result.metrics.emplace_back(metric.name, metric.value);
  return result;
}

/// Tables that lie there without an evaluation are somebody's own.
void require_no_others(const std::string& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::path(folder) / report::kEvaluationFile)) return;
  for (const char* name : {"classes.csv", "confusion.csv", "confusion.svg", "confusion.png"})
    if (fs::exists(fs::path(folder) / name))
      fail(Kind::usage,
           "evaluate: expected an evaluation in {}, or none of its files, found {} alone; move it "
           "away, or choose another folder with --out",
           folder, name);
}

/// @return the names of the files
std::vector<std::string> write_files(const report::Evaluated& result, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(Kind::output, "evaluate: cannot make the folder {}: {}; choose another with --out", folder,
         error.message());
  require_no_others(folder);
  std::vector<std::string> names = {report::kEvaluationFile};
  const auto write = [&](const std::string& name, const std::string& text) {
    metrics::write_atomically(folder + "/" + name, text);
  };
  write(report::kEvaluationFile, report::evaluation_json(result));
  if (result.classes.empty()) return names;
  for (const figures::Table& table :
       {report::class_table(result), report::confusion_table(result)}) {
    write(table.name + ".csv", figures::as_csv(table));
    names.push_back(table.name + ".csv");
  }
  if (result.classes.size() > report::kMaxDrawnClasses) return names;
  const figures::Drawn drawn =
      figures::draw_all({report::confusion_drawing(result, "confusion")}, folder);
  names.insert(names.end(), drawn.files.begin(), drawn.files.end());
  for (const std::string& sentence : drawn.failed) comm::print_warning(sentence);
  return names;
}

void print(const report::Evaluated& result, const Subject& subject) {
  fmt::print("{}: {} samples", result.set_text(), result.samples);
  for (const auto& [name, value] : result.metrics) fmt::print(", {} {:.4f}", name, value);
  fmt::print("\n");
  if (result.ranks > 1)
    fmt::print(
        "These are the samples of one rank alone, since each of {} ranks has a set of its own{}; "
        "--set data.path=FOLDER evaluates another rank's.\n",
        result.ranks,
        subject.samples_of_all > 0 && result.split == "test"
            ? fmt::format(", and the run was tested on all {} together", subject.samples_of_all)
            : "");
  if (result.classes.empty()) return;
  fmt::print("\n{}", figures::as_text(report::class_table(result)));
  if (result.classes.size() <= kMaxPrintedClasses)
    fmt::print("\n{}", figures::as_text(report::confusion_table(result)));
}

/// Returns true if set, network and part of the set are the same: the later evaluation then takes
/// the earlier one's place.
bool is_same_subject(const report::Evaluated& a, const report::Evaluated& b) {
  const auto file = [](const std::string& path) { return std::filesystem::path(path).filename(); };
  return a.dataset == b.dataset && a.path == b.path && a.split == b.split &&
         file(a.network) == file(b.network);
}

/// True unless the folder has the evaluation of something else.
bool is_free(const std::string& folder, const report::Evaluated& result) {
  try {
    const auto found = report::read_evaluation(folder);
    return !found || is_same_subject(*found, result);
  } catch (const Error&) {
    return false;
  }
}

/// Makes a folder's name of letters, digits, "-", "_" and "."; the end of `text` stays.
std::string folder_name(std::string text) {
  constexpr std::size_t kLongest = 40;
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.';
    if (!plain) c = '-';
  }
  if (text.size() > kLongest) text.erase(0, text.size() - kLongest);
  if (text.starts_with('.')) text.front() = '-';
  return text;
}

/// Returns where an evaluation of a run is kept: that of its own test set by its last weights in
/// the folder `evaluation` itself, those of other sets in folders of their own below, so that none
/// replaces another.
std::string usual_folder(const EvaluateCommand& command, const Subject& subject,
                         const report::Evaluated& result) {
  const std::string base = command.target + "/" + report::kEvaluationFolder;
  if (subject.own_set && command.split == "test" && !command.best) return base;
  const std::string set = report::last_name(result.path);
  const std::string name = folder_name(fmt::format("{}-{}{}", set.empty() ? result.dataset : set,
                                                   result.split, command.best ? "-best" : ""));
  for (int number = 1;; ++number) {
    std::string folder = base + "/" + name + (number == 1 ? "" : fmt::format("-{}", number));
    if (is_free(folder, result)) return folder;
  }
}

}  // namespace

void run_evaluate(const EvaluateCommand& command) {
  const bool is_run = std::filesystem::is_directory(command.target);
  const Subject subject = is_run ? subject_of_run(command) : subject_of_weights(command);
  const report::Evaluated result = evaluate(command, subject);
  print(result, subject);
  const std::string out = !command.out.empty() ? command.out
                          : is_run             ? usual_folder(command, subject, result)
                                               : std::string();
  if (!out.empty()) fmt::print("\n{}: {}\n", out, fmt::join(write_files(result, out), ", "));
}

}  // namespace eqt::app
