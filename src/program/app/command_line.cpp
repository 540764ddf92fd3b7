// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>

#include "app/analyze_options.hpp"
#include "app/verbs.hpp"
#include "codec/plugin.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"
#include "model/export.hpp"
#include "planner/cluster_file.hpp"

namespace eqt::app {
namespace {

/// Takes "0.9" as it is and "90%" as 0.9.
CLI::Validator share_or_percentage() {
  return {[](std::string& text) {
            const bool percent = text.ends_with('%');
            double number = 0;
            const bool is_number =
                CLI::detail::lexical_cast(percent ? text.substr(0, text.size() - 1) : text, number);
            if (percent) number /= 100;
            if (!is_number || !(number > 0 && number < 1))
              return fmt::format(
                  "expected an accuracy between 0 and 1, or between 0% and 100%, found {}", text);
            text = fmt::format("{}", number);
            return std::string();
          },
          "SHARE or PERCENTAGE%"};
}

/// Adds the options of `plan` to the verb; parsing fills `plan`, which has to live as long.
void add_plan_options(CLI::App& verb, planner::PlanCommand& plan) {
  add_config_options(verb, plan.config_path, plan.sets);
  verb.add_option("--cluster", plan.cluster_path,
                  "File that describes boards and links (JSON), as " + shipped("configs/clusters/"))
      ->type_name("FILE");
  verb.add_option("--ranks", plan.ranks,
                  "Numbers of ranks, with commas [powers of two, the cluster's, one board more]")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(1, planner::kMostRanks));
  verb.add_option("--vary", plan.vary,
                  "Values of a config key; repeatable: all combinations [usual compressors]")
      ->type_name("KEY=V,V,...")
      ->expected(1)
      ->take_all();
  CLI::Option* const steps =
      verb.add_option("--steps-at-1", plan.steps_at_1,
                      "Steps to a target with an unlimited batch; with --noise-scale")
          ->type_name("S")
          ->check(number_between(1, 1e15));
  CLI::Option* const scale =
      verb.add_option("--noise-scale", plan.noise_scale,
                      "Gradient noise scale of a run [samples]; with --steps-at-1")
          ->type_name("X")
          ->check(number_between(1e-9, 1e15));
  steps->needs(scale);
  scale->needs(steps);
  CLI::Option* const accuracy =
      verb.add_option("--to-accuracy", plan.to_accuracy,
                      "Choose batch, local steps and learning rate for this test accuracy, a share "
                      "or with %; with --probe")
          ->type_name("A")
          ->transform(share_or_percentage());
  CLI::Option* const probe =
      verb.add_option("--probe", plan.probe,
                      "Run folder of some epochs of the config with the compressor auto")
          ->type_name("RUN");
  accuracy->needs(probe);
  probe->needs(accuracy);
  for (CLI::Option* const other :
       {steps, scale, verb.get_option("--vary"), verb.get_option("--ranks")})
    accuracy->excludes(other);
  verb.add_option("--plot", plan.plot, "Epochs by ranks as a plot")->type_name("FILE.svg|png");
  verb.add_option("--page", plan.page, "Tables and plots as one HTML page")->type_name("FILE.html");
  verb.add_flag("--json", plan.json, "One JSON document");
  verb.add_option("--calibration", plan.calibration_path,
                  "What --calibrate wrote, or bench codecs --json printed [measured now]")
      ->type_name("FILE");
  verb.add_option("--calibrate", plan.calibrate,
                  "Plan nothing: write the measured speeds of --from to this file")
      ->type_name("FILE.json");
  verb.add_option("--from", plan.from,
                  "Run folder, or file that doctor or bench printed with --json; repeatable")
      ->type_name("PATH")
      ->expected(1)
      ->take_all();
}

/// @pre the options are parsed
/// @throws Error{usage} if a plan lacks its config or cluster, or a calibration what it is made of
void require_complete(const planner::PlanCommand& plan) {
  if (!plan.calibrate.empty() || !plan.from.empty()) {
    if (plan.calibrate.empty() || plan.from.empty())
      fail(Kind::usage,
           "command line: expected plan --calibrate FILE.json --from PATH, found only one of the "
           "two; try equant-train plan --help");
    return;
  }
  if (!plan.probe.empty() && (!plan.page.empty() || !plan.plot.empty()))
    fail(Kind::usage,
         "command line: expected plan --to-accuracy without --plot and --page, which draw schemes, "
         "found one of them; leave it out");
  if (!plan.page.empty() && !plan.page.ends_with(".html"))
    fail(Kind::usage, "command line: expected plan --page with a file that ends in .html, found {}",
         plan.page);
  if (plan.config_path.empty() || plan.cluster_path.empty())
    fail(Kind::usage,
         "command line: expected plan --config FILE --cluster FILE; try equant-train plan --help");
}

// A float32 gradient of 1 GiB; a compressor's own buffers are several times that.
constexpr std::size_t kMaxBenchValues = std::size_t{1} << 28;

void add_bench_options(CLI::App& app, bench::BenchCommand& bench) {
  app.require_subcommand(0, 1);
  CLI::App* codecs = app.add_subcommand(
      "codecs", "Per compressor: encode, decode-and-add, bits per value, variance and its bound");
  add_plugin_option(*codecs);
  codecs->add_option("--values", bench.values, "Size of the gradient [25557032]")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMaxBenchValues));
  codecs->add_option("--compressor", bench.compressors, "Only this compressor; repeatable [all]")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  codecs->add_option("--set", bench.sets, "Override a key of compressor; the last value counts")
      ->type_name("compressor.KEY=V")
      ->expected(1)
      ->take_all();
  codecs->add_flag("--json", bench.json, "Print one JSON object per line");
}

CLI::App* add_bench_collectives(CLI::App& app, bench::BenchCollectivesCommand& bench) {
  CLI::App* collectives = app.add_subcommand(
      "collectives",
      "Under mpirun, per collective: milliseconds, bytes on the wire, ratio to MPI_Allreduce");
  add_plugin_option(*collectives);
  collectives
      ->add_option("--values", bench.values,
                   "Size of the gradient; repeatable [272474 1050000 11173962]")
      ->type_name("N")
      ->expected(1)
      ->take_all()
      ->check(CLI::Range(std::size_t{1}, kMaxBenchValues));
  collectives
      ->add_option("--collective", bench.collectives,
                   "Only this collective; repeatable [all that work with the compressor]")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  collectives
      ->add_option("--set", bench.sets,
                   "Set a key of compressor or synchronization; the last value counts")
      ->type_name("KEY=V")
      ->expected(1)
      ->take_all();
  collectives->add_option("--seconds", bench.seconds, "Time for each row [3]")
      ->type_name("S")
      ->check(number_between(0, 3600));
  collectives->add_flag("--json", bench.json, "Print one JSON object per line");
  return collectives;
}

CLI::App* add_bench_convolutions(CLI::App& app, bench::BenchConvolutionsCommand& bench) {
  CLI::App* convolutions = app.add_subcommand(
      "convolutions", "The 8-bit convolutions: multiply-adds a second, share of the peak");
  convolutions
      ->add_option("--kernels", bench.kernels,
                   "Only this family of instructions; repeatable [all of this processor]")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  convolutions
      ->add_option("--model", bench.model,
                   "The layers of this network on images of 32 x 32 [of ResNet-20 and ResNet-18]")
      ->type_name("NAME");
  convolutions->add_option("--samples", bench.samples, "Samples of a call [8]")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  convolutions->add_option("--seconds", bench.seconds, "Time for each pass of a row [0.1]")
      ->type_name("S")
      ->check(number_between(0, 60));
  convolutions->add_flag("--json", bench.json, "Print one JSON object per line");
  return convolutions;
}

void require_bench_verb(const CLI::App& bench) {
  if (bench.get_subcommands().empty())
    fail(Kind::usage,
         "bench: expected codecs, collectives or convolutions, found nothing; try equant-train "
         "bench "
         "--help");
}

void add_list_options(CLI::App& app, ListCommand& list) {
  add_plugin_option(app);
  app.add_option("category", list.category)->check(CLI::IsMember(list_categories()));
  app.add_flag("--json", list.json, "As JSON");
}

constexpr int kMaxCheckedRanks = 65536;

// Each worker has a thread that loads its batches.
constexpr int kMaxSimulatedWorkers = 1024;

void add_train_options(CLI::App& app, TrainCommand& train) {
  add_config_options(app, train.config_path, train.sets);
  app.add_option("--out", train.out, "Run folder [runs/NAME]; the last one counts")
      ->type_name("DIR")
      ->take_last();
  app.add_flag("--overwrite", train.overwrite, "Replace the results in the run folder");
  app.add_flag("--resume", train.resume, "Continue from the newest checkpoint in the run folder")
      ->excludes("--overwrite");
  app.add_flag("--quiet", train.quiet, "No progress and no final table");
  app.add_option("--simulate", train.simulate,
                 "Without mpirun: one process computes what N ranks would, with the same result")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxSimulatedWorkers));
}

void add_check_options(CLI::App& app, CheckCommand& check) {
  add_config_options(app, check.config_path, check.sets);
  app.add_flag("--full", check.full, "Print every key, not only those that decide the others");
  app.add_option("--ranks", check.ranks, "Ranks whose data and memory are looked at, on stderr [2]")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxCheckedRanks));
}

void add_doctor_options(CLI::App& app, doctor::DoctorCommand& doctor) {
  app.add_option("--seconds", doctor.seconds, "Time for measuring all links [2]")
      ->type_name("S")
      ->check(number_between(0.1, 600));
  app.add_option("--threads", doctor.threads, "Assume this threads_per_rank [cores / ranks]")
      ->type_name("T")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", doctor.json, "One JSON document");
}

void add_report_options(CLI::App& app, report::Request& request) {
  app.add_option("DIR", request.folders,
                 "Run folders, or folders of run folders, as sweeps make them")
      ->type_name("")
      ->required();
  app.add_option("--out", request.out, "Folder of the report [DIR/report, of the first DIR]")
      ->type_name("FOLDER");
  app.add_flag("--overwrite", request.overwrite,
               "Replace files of the folder that no report has written");
  app.add_option("--table", request.tables,
                 "A published table with our runs next to it; repeatable")
      ->expected(1)
      ->take_all()
      ->check(CLI::IsMember(report::table_names()));
  app.add_option("--baseline", request.baseline.row,
                 "Row with which all others are compared [each its nearest float32]")
      ->type_name("ROW");
  app.add_option(
         "--margin", request.baseline.margin,
         "Differences below it do not matter: points of an accuracy, per cent of a loss [0.5]")
      ->type_name("M")
      ->check(number_between(0.001, 100));
  app.add_option("--steps", request.steps,
                 "Steps of the timeline of ranks, A:B [the last of those recorded]")
      ->type_name("A:B");
  CLI::Option* json = app.add_flag("--json", request.json, "One JSON document on stdout");
  app.add_option("--format", request.format, "Format of the tables on stdout")
      ->capture_default_str()
      ->check(CLI::IsMember(report::answer_formats()))
      ->excludes(json);
}

void add_threads_option(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "Computing threads [as many as there are cores]")
      ->type_name("T")
      ->check(CLI::Range(1, 1024));
}

void add_best_flag(CLI::App& app, bool& best) {
  app.add_flag("--best", best, "The weights of the best evaluation, not the last ones");
}

constexpr std::size_t kMaxSamplesAtOnce = 65536;

void add_batch_option(CLI::App& app, std::size_t& batch) {
  app.add_option("--batch", batch, "Samples that are computed at a time")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kMaxSamplesAtOnce));
}

void add_evaluate_options(CLI::App& app, EvaluateCommand& evaluate) {
  app.add_option("RUN", evaluate.target, "A run folder, or a file of weights with --config")
      ->type_name("")
      ->required();
  add_config_options(app, evaluate.config_path, evaluate.sets);
  app.add_option("--split", evaluate.split, "Which part of the data set")
      ->capture_default_str()
      ->check(CLI::IsMember({"test", "train"}));
  app.add_option("--out", evaluate.out,
                 "Folder of tables and picture [RUN/evaluation; of weights: none]")
      ->type_name("FOLDER");
  add_batch_option(app, evaluate.batch);
  add_threads_option(app, evaluate.threads);
  add_best_flag(app, evaluate.best);
}

std::vector<std::string> export_formats() {
  std::vector<std::string> names;
  for (const auto& row : model::names_of(model::ExportFormat{})) names.emplace_back(row.name);
  return names;
}

void add_export_options(CLI::App& app, ExportCommand& command) {
  app.add_option("RUN", command.run, "A run folder")->type_name("")->required();
  app.add_option("--to", command.to, "The format")
      ->capture_default_str()
      ->check(CLI::IsMember(export_formats()));
  app.add_option("--out", command.out, "The file [model.ENDING in the run folder]")
      ->type_name("FILE");
  add_best_flag(app, command.best);
}

void add_predict_options(CLI::App& app, PredictCommand& predict) {
  app.add_option("RUN", predict.run, "A run folder")->type_name("")->required();
  app.add_option(
         "FILE", predict.files,
         "Pictures, arrays (.npy, .csv) or texts, one a line; - is standard input: texts, or "
         "names of files [-]")
      ->type_name("");
  app.add_option("--out", predict.out, "File of the JSON lines, - for standard output [-]")
      ->type_name("FILE");
  add_batch_option(app, predict.batch);
  add_threads_option(app, predict.threads);
  add_best_flag(app, predict.best);
}

void add_init_options(CLI::App& app, InitCommand& init) {
  constexpr int kMostPaths = 2;
  app.add_option("PATH", init.paths,
                 "A folder of data, a table, a TorchScript network (.pt), or data and the network "
                 "for them")
      ->type_name("")
      ->required()
      ->expected(1, kMostPaths);
  app.add_option("--out", init.out, "The config, a new file [NAME.json]")->type_name("FILE");
}

/// To each verb that has not named it: a line that works with one verb works with the next.
void add_plugin_everywhere(CLI::App& app) {
  const std::vector<CLI::App*> verbs = app.get_subcommands(nullptr);
  for (CLI::App* const verb : verbs) add_plugin_everywhere(*verb);
  if (verbs.empty() && app.get_option_no_throw("--plugin") == nullptr) add_plugin_option(app);
}

/// False if help was requested. @throws Error{usage}
bool parsed(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ParseError& error) {
    require_known_arguments(app);
    fail(Kind::usage, "command line: {}; try equant-train --help", error.what());
  }
  require_known_arguments(app);
  return true;
}

/// The verbs with their options, and what was asked once they are parsed.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app), analyze_options_(app) {
    app.footer("Train: mpirun -np N equant-train --config FILE   Keys: " + shipped("docs/keys.md") +
               ", equant-train schema");
    app.require_subcommand(0, 1);
    add_train_options(app, train_);
    app.add_flag("--version", version_, "Print version and libraries");
    add_check_options(*check_verb_, check_);
    add_list_options(*list_verb_, list_);
    add_plugin_option(*schema_verb_);
    schema_verb_->add_flag("--cluster", schema_.cluster, "Of the cluster files of plan");
    add_bench_options(*bench_verb_, bench_);
    collectives_verb_ = add_bench_collectives(*bench_verb_, bench_collectives_);
    convolutions_verb_ = add_bench_convolutions(*bench_verb_, bench_convolutions_);
    add_doctor_options(*doctor_verb_, doctor_);
    add_plan_options(*plan_verb_, plan_);
    add_report_options(*report_verb_, report_.request);
    add_evaluate_options(*evaluate_verb_, evaluate_);
    add_predict_options(*predict_verb_, predict_);
    add_export_options(*export_verb_, export_);
    add_init_options(*init_verb_, init_);
    standby_verb_->add_option("SOCKET", standby_.path, "Where equant-standby finds it")
        ->type_name("")
        ->required();
    standby_verb_->add_option("--parent", standby_.parent, "Ends with its parent, if that is PID")
        ->type_name("PID")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    add_plugin_everywhere(app);
  }

  /// @pre the options are parsed
  /// @throws Error{usage} where a verb lacks what it needs
  Command command() const {
    if (version_) return PrintCommand{version_text()};
    if (list_verb_->parsed()) return list_;
    if (schema_verb_->parsed()) return schema_;
    if (manual_verb_->parsed()) return PrintCommand{manual_page(app_)};
    if (completion_verb_->parsed()) return PrintCommand{bash_completion(app_)};
    if (doctor_verb_->parsed()) return doctor_;
    if (plan_verb_->parsed()) {
      require_complete(plan_);
      return plan_;
    }
    if (report_verb_->parsed()) return report_;
    if (evaluate_verb_->parsed()) return evaluate_;
    if (predict_verb_->parsed()) return predict_;
    if (export_verb_->parsed()) return export_;
    if (init_verb_->parsed()) return init_;
    if (standby_verb_->parsed()) return standby_;
    if (analyze_options_.parsed()) return analyze_options_.command();
    if (bench_verb_->parsed()) {
      require_bench_verb(*bench_verb_);
      if (collectives_verb_->parsed()) return bench_collectives_;
      if (convolutions_verb_->parsed()) return bench_convolutions_;
      return bench_;
    }
    const bool checks = check_verb_->parsed();
    if ((checks ? check_.config_path : train_.config_path).empty())
      fail(Kind::usage, "command line: expected --config FILE; try equant-train --help");
    if (checks) return check_;
    return train_;
  }

 private:
  // Help lists the verbs in this order.
  CLI::App& app_;
  CLI::App* init_verb_ =
      app_.add_subcommand("init", "Write a config for the data or the network that is there");
  CLI::App* check_verb_ = app_.add_subcommand("check", "Validate a config and print it resolved");
  CLI::App* list_verb_ = app_.add_subcommand("list", "Names that configs may use");
  CLI::App* schema_verb_ = app_.add_subcommand("schema", "JSON Schema of the config");
  CLI::App* bench_verb_ = app_.add_subcommand(
      "bench", "Speed and error of compressors, collectives, 8-bit convolutions");
  AnalyzeOptions analyze_options_;
  CLI::App* doctor_verb_ = app_.add_subcommand(
      "doctor", "Hosts, cores, links and libraries of a job; run it under mpirun");
  CLI::App* plan_verb_ = app_.add_subcommand(
      "plan", "Seconds, bytes, joules and memory on a cluster that is not here, by scheme");
  CLI::App* report_verb_ = app_.add_subcommand(
      "report", "Tables, plots and one HTML page from run folders; seeds become mean ± deviation");
  CLI::App* evaluate_verb_ = app_.add_subcommand(
      "evaluate", "A trained network on any data set: accuracy by class, confusion matrix");
  CLI::App* predict_verb_ =
      app_.add_subcommand("predict", "A trained network on files: a JSON object a line");
  CLI::App* export_verb_ = app_.add_subcommand(
      "export", "A trained network as TorchScript, ONNX, safetensors or state dict");
  CLI::App* standby_verb_ = app_.add_subcommand(
      "standby", "Loads the libraries and waits; run_hosts.sh --elastic starts ranks from it");
  CLI::App* manual_verb_ = app_.add_subcommand("manual", "Print the manual page (roff)");
  CLI::App* completion_verb_ =
      app_.add_subcommand("completion", "Print the completion script for bash");
  const CLI::App* collectives_verb_ = nullptr;
  const CLI::App* convolutions_verb_ = nullptr;

  bool version_ = false;
  TrainCommand train_;
  CheckCommand check_;
  ListCommand list_;
  planner::PlanCommand plan_;
  SchemaCommand schema_;
  bench::BenchCommand bench_;
  bench::BenchCollectivesCommand bench_collectives_;
  bench::BenchConvolutionsCommand bench_convolutions_;
  doctor::DoctorCommand doctor_;
  ReportCommand report_;
  EvaluateCommand evaluate_;
  PredictCommand predict_;
  ExportCommand export_;
  InitCommand init_;
  StandbyCommand standby_;
};

}  // namespace

CLI::Validator number_between(double least, double most) {
  return {[=](std::string& text) {
            double number = 0;
            const bool right =
                CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
            return right ? ""
                         : fmt::format("expected a number from {:g} to {:g}, found {}", least, most,
                                       text);
          },
          fmt::format("FLOAT in [{:g} - {:g}]", least, most)};
}

void add_plugin_option(CLI::App& app) {
  app.add_option_function<std::vector<std::string>>(
         "--plugin", [](const std::vector<std::string>&) {},
         "Shared object with your own compressor; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
}

void add_config_options(CLI::App& app, std::string& path, std::vector<std::string>& sets) {
  add_plugin_option(app);
  app.add_option("--config", path, "Config file (JSON)")->type_name("FILE");
  app.add_option("--set", sets, "Override a config key; the last value counts")
      ->type_name("KEY=JSON")
      ->expected(1)
      ->take_all();
}

void load_plugins(int argc, char** argv) {
  constexpr std::string_view kOption = "--plugin", kWithValue = "--plugin=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == kOption && i + 1 < argc) codec::load_plugin(argv[++i]);
    if (word.starts_with(kWithValue))
      codec::load_plugin(std::string(word.substr(kWithValue.size())));
  }
}

Command parse_command_line(int argc, char** argv) {
  CLI::App app("Trains a network on every MPI rank and averages compressed gradients.",
               "equant-train");
  CommandLine line(app);
  if (!parsed(app, argc, argv)) return PrintCommand{app.help()};
  return line.command();
}

}  // namespace eqt::app
