// SPDX-License-Identifier: Apache-2.0
#include "app/analyze_options.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/command_line.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "figures/gnuplot.hpp"
#include "theory/sampling.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kMaxValues = std::size_t{1} << 28;
constexpr std::size_t kMaxBucket = std::size_t{1} << 24;  // exact lengths take hours for longer
                                                          // ones
constexpr int kMaxDraws = 1'000'000;
// Eigenvalues for more ranks take minutes.
constexpr int kMaxAnalyzedRanks = 1024;

/// The names that a config key accepts.
CLI::Validator names_of(const std::string& key) {
  std::vector<std::string> names;
  for (const config::Choice& choice : config::config_choices(key)) names.push_back(choice.name);
  return CLI::IsMember(names);
}

CLI::Validator source_names() {
  std::vector<std::string> names;
  for (const theory::Source& source : theory::sources()) names.emplace_back(source.name);
  return CLI::IsMember(names);
}

CLI::Validator plot_path() {
  return CLI::Validator(
      [](const std::string& path) {
        return figures::is_plot_path(path)
                   ? std::string()
                   : fmt::format("expected a file that ends in .svg or .png, found {}", path);
      },
      "FILE");
}

void add_output(CLI::App& verb, analyze::AnalyzeOutput& output, bool plots = true) {
  verb.add_flag("--json", output.json, "Print one JSON object per line");
  if (plots)
    verb.add_option("--plot", output.plot, "Also plot the results with gnuplot, as .svg or .png")
        ->check(plot_path());
}

/// An option that is short for --set compressor.KEY=V.
void add_setting(CLI::App& verb, analyze::CompressorQuestion& question, const std::string& option,
                 const std::string& key, const std::string& about) {
  verb.add_option_function<std::string>(
          option,
          [&question, key](const std::string& value) {
            question.sets.push_back(fmt::format("compressor.{}={}", key, value));
          },
          about)
      ->type_name("V");
}

void add_compressors(CLI::App& verb, analyze::CompressorQuestion& question) {
  add_plugin_option(verb);
  verb.add_option("--compressor", question.names, "Only this compressor; repeatable [a usual set]")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  verb.add_option("--set", question.sets, "Set a key of compressor; the last value counts")
      ->type_name("compressor.KEY=V")
      ->expected(1)
      ->take_all();
  add_setting(verb, question, "--bits", "bits", "Bits per value, sign included [4]");
  add_setting(verb, question, "--bucket", "bucket_size",
              "Values that share a norm [the compressor's default]");
  add_setting(verb, question, "--norm", "norm",
              "Norm of a bucket: l2 or max, if the compressor has a choice [l2]");
  add_setting(verb, question, "--coding", "coding", "fixed, elias, huffman, rans or auto [fixed]");
}

void add_values(CLI::App& verb, analyze::ValuesQuestion& question) {
  CLI::Option* source =
      verb.add_option("--source", question.source, "Distribution of the values [normal]")
          ->check(source_names());
  CLI::Option* values = verb.add_option("--values", question.values, "Number of values [65536]")
                            ->type_name("N")
                            ->check(CLI::Range(std::size_t{1}, kMaxValues));
  verb.add_option("--seed", question.seed, "Seed of the values and of Monte-Carlo [1]")
      ->type_name("S");
  verb.add_option("--draws", question.draws, "Monte-Carlo draws [20]")
      ->type_name("K")
      ->check(CLI::Range(2, kMaxDraws));
  verb.add_option("--gradient", question.file,
                  "Read the values from a .npy file, as output.dump_gradients writes it")
      ->type_name("FILE")
      ->excludes(source)
      ->excludes(values);
}

void add_levels(CLI::App& verb, analyze::AnalyzeLevelsCommand& levels) {
  add_compressors(verb, levels.compressors);
  add_output(verb, levels.output);
}

void add_variance(CLI::App& verb, analyze::AnalyzeVarianceCommand& variance) {
  add_compressors(verb, variance.compressors);
  add_values(verb, variance.values);
  verb.add_flag("--by-tensor", variance.by_tensor, "One row per tensor of the gradient");
  add_output(verb, variance.output);
}

void add_bits(CLI::App& verb, analyze::AnalyzeBitsCommand& bits) {
  add_compressors(verb, bits.compressors);
  add_values(verb, bits.values);
  add_output(verb, bits.output);
}

void add_rates(CLI::App& verb, analyze::AnalyzeRatesCommand& rates) {
  verb.add_option("--gradient", rates.files,
                  "A .npy file, as output.dump_gradients writes it; repeatable")
      ->type_name("FILE")
      ->required();
  verb.add_option("--draws", rates.draws, "Messages of each gradient [3]")
      ->type_name("K")
      ->check(CLI::Range(1, kMaxDraws));
  add_output(verb, rates.output);
}

void add_worst_case(CLI::App& verb, analyze::AnalyzeWorstCaseCommand& worst) {
  verb.add_option("--bits", worst.bits, "Bits per value; repeatable [2 3 4 5 6 8]")
      ->type_name("B")
      ->expected(1)
      ->take_all()
      ->check(CLI::Range(2, 8));
  verb.add_option("--bucket", worst.buckets, "Bucket size; repeatable [512 8192]")
      ->type_name("D")
      ->expected(1)
      ->take_all()
      ->check(CLI::Range(std::size_t{2}, std::size_t{1} << 30));
  add_output(verb, worst.output);
}

/// An option and the settings whose theorems use it; with any other setting it would be ignored.
struct OptionSettings {
  const char* option;
  std::vector<std::string> settings;
};

void refuse_unless(CLI::App& verb, const std::string& setting, std::vector<OptionSettings> all) {
  verb.parse_complete_callback([&verb, &setting, all = std::move(all)] {
    for (const OptionSettings& one : all)
      if (verb.count(one.option) > 0 &&
          std::ranges::find(one.settings, setting) == one.settings.end())
        fail(Kind::usage,
             "analyze convergence: expected {} only with {}, found it with {}; leave it out",
             one.option, fmt::join(one.settings, " and "), setting);
  });
}

void add_convergence(CLI::App& verb, analyze::AnalyzeConvergenceCommand& question) {
  verb.add_option("setting", question.setting, "Assumptions about the loss [nonconvex]")
      ->check(CLI::IsMember({"convex", "nonconvex", "error-feedback", "momentum", "convex-momentum",
                             "decentralised"}));
  const auto number = [&](const char* name, double& value, const char* about) {
    verb.add_option(name, value, about)->type_name("X");
  };
  number("--smoothness", question.problem.smoothness, "L: gradients differ by at most L |x - y|");
  number("--radius", question.problem.radius,
         "R: upper bound of the distance from the start to the minimum");
  number("--excess", question.problem.excess, "Upper bound of f(start) - minimum");
  number("--noise", question.problem.noise,
         "sigma^2: upper bound of a rank's E|g - gradient|^2 [0]");
  number("--second-moment", question.problem.second_moment, "B: upper bound of a rank's E|g|^2");
  number("--gradient-bound", question.problem.gradient, "G: upper bound of |gradient|");
  number("--heterogeneity", question.heterogeneity,
         "Upper bound of the mean of |rank's gradient - gradient|^2 [0]");
  verb.add_option("--error", question.error,
                  "E|C(x) - x|^2 / |x|^2 of the compressors, for error-feedback [their bounds]")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1 - 1e-9));
  number("--momentum", question.momentum, "Momentum, for momentum and convex-momentum [0.9]");
  number("--target", question.target,
         "Target for f - minimum if convex, else for the mean of |gradient|^2");
  verb.add_flag("--nesterov", question.nesterov, "Nesterov's momentum, for convex-momentum");
  verb.add_option("--ranks", question.problem.ranks, "M: ranks [1]")
      ->type_name("M")
      ->check(CLI::Range(1, kMaxAnalyzedRanks));
  verb.add_option("--topology", question.topology, "Graph, for decentralised [ring]")
      ->check(names_of("synchronization.topology.kind"));
  verb.add_option("--values", question.values, "Parameters of the model [1000000]")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMaxValues));
  add_compressors(verb, question.compressors);
  add_output(verb, question.output);
  refuse_unless(verb, question.setting,
                {{"--momentum", {"momentum", "convex-momentum"}},
                 {"--nesterov", {"convex-momentum"}},
                 {"--heterogeneity", {"decentralised"}},
                 {"--error", {"error-feedback"}},
                 {"--topology", {"decentralised"}}});
}

constexpr int kMaxBatch = 1'000'000;

void add_energy(CLI::App& verb, analyze::AnalyzeEnergyCommand& energy) {
  CLI::Option* paper =
      verb.add_flag("--paper", energy.paper, "Count as published, next to the published figures");
  verb.add_flag(
          "--measured", energy.measured,
          "Multiply-adds of this program's networks in fp32, bf16 and int8, beside modelled ones")
      ->excludes(paper);
  verb.add_option("--batch-size", energy.batch_size, "Images [32]")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxBatch));
  add_output(verb, energy.output);
}

void add_memory(CLI::App& verb, analyze::AnalyzeMemoryCommand& memory) {
  CLI::Option* paper =
      verb.add_flag("--paper", memory.paper, "Count as published, next to the published figures");
  CLI::Option* measured = verb.add_flag(
      "--measured", memory.measured,
      "Bytes of this program's networks in fp32, bf16 and int8, beside modelled ones");
  measured->excludes(paper);
  CLI::Option* batch_size = verb.add_option("--batch-size", memory.batch_size, "Images [32]")
                                ->type_name("N")
                                ->check(CLI::Range(1, kMaxBatch));
  CLI::Option* copies =
      verb.add_option("--copies", memory.copies, "Models that the algorithm remembers [2, CHOCO]")
          ->type_name("N")
          ->excludes(paper)  // which counts as in papers
          ->excludes(measured)
          ->check(CLI::Range(0, 100));
  CLI::Option* runs =
      verb.add_option("runs", memory.runs, "Run folders: what they recorded, beside modelled bytes")
          ->type_name("RUN")
          ->excludes(paper)
          ->excludes(measured)
          ->excludes(batch_size)  // theirs
          ->excludes(copies);
  add_output(verb, memory.output);
  runs->excludes("--plot");
}

void add_topology(CLI::App& verb, analyze::AnalyzeTopologyCommand& topology) {
  verb.add_option("--kind", topology.kinds, "Only this kind; repeatable [all]")
      ->type_name("KIND")
      ->expected(1)
      ->take_all()
      ->check(names_of("synchronization.topology.kind"));
  verb.add_option("--ranks", topology.ranks, "Ranks; repeatable [4 8 16 32 64]")
      ->type_name("N")
      ->expected(1)
      ->take_all()
      ->check(CLI::Range(1, kMaxAnalyzedRanks));
  verb.add_flag("--directed", topology.directed, "Ring: send to the next rank only");
  verb.add_option("--weights", topology.weights, "Rule of the mixing matrix [auto]")
      ->check(names_of("synchronization.topology.weights"));
  verb.add_option("--rows", topology.rows, "Rows of a torus or mesh [as square as possible]")
      ->type_name("R")
      ->check(CLI::Range(1, kMaxAnalyzedRanks));
  verb.add_option("--file", topology.file, "Read the graph from a JSON file")->type_name("FILE");
  add_output(verb, topology.output);
}

void add_volume(CLI::App& verb, analyze::AnalyzeVolumeCommand& volume) {
  CLI::Option* model =
      verb.add_option("--model", volume.model, "Network, as published [a table of papers]")
          ->type_name("NAME");
  const auto about_a_run = [&](const char* name, auto& value, const char* about, auto least,
                               auto most) {
    verb.add_option(name, value, about)
        ->type_name("N")
        ->check(CLI::Range(least, most))
        ->needs(model);
  };
  constexpr std::size_t kOne = 1, kMany = 1'000'000'000, kMaxRanks = 65536;
  verb.add_option("--normalization", volume.normalization, "Normalization layers [batchnorm]")
      ->type_name("NAME")
      ->needs(model);
  about_a_run("--ranks", volume.ranks, "Nodes [8]", kOne, kMaxRanks);
  about_a_run("--samples", volume.samples, "Samples of the training set [50000]", kOne, kMany);
  about_a_run("--batch-size", volume.batch_size, "Samples per node and step [32]", kOne, kMany);
  about_a_run("--epochs", volume.epochs, "Passes over the training set [200]", kOne, kMany);
  about_a_run("--density", volume.density, "Fraction of the values that is sent [all, as float32]",
              0.0, 1.0);
  about_a_run("--edges", volume.edges, "Neighbours that a node sends to [1]", kOne, kMaxRanks);
  verb.add_flag("--paper", volume.paper, "Count only as papers do");
  add_output(verb, volume.output, false);
}

}  // namespace

/// A command per verb; the parsed verb chooses one.
struct AnalyzeOptions::State {
  CLI::App* analyze = nullptr;
  std::string names;  // of the verbs, for the message
  std::vector<std::pair<CLI::App*, std::function<analyze::AnalyzeCommand()>>> verbs;

  template <typename Options>
  void add(const char* name, const char* about, void (*options)(CLI::App&, Options&)) {
    CLI::App* verb = analyze->add_subcommand(name, about);
    const auto question = std::make_shared<Options>();
    options(*verb, *question);
    verbs.emplace_back(verb, [question]() -> analyze::AnalyzeCommand { return *question; });
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
};

AnalyzeOptions::AnalyzeOptions(CLI::App& program) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.analyze = program.add_subcommand(
      "analyze", "Compute what theory predicts, and compare it with measurements");
  state.analyze->require_subcommand(0, 1);
  state.add("levels", "Level tables: bounds, the worst vector and its variance, best tables",
            add_levels);
  state.add("variance", "Relative variance: exact, Monte-Carlo through the codec, and bounds",
            add_variance);
  state.add("bits", "Code lengths: exact expectation, bounds, entropy, measured, published",
            add_bits);
  state.add("rates", "Error against bits of all compressors, on gradients, beside Shannon's bound",
            add_rates);
  state.add("worst-case", "Worst-case variance of published and elastic tables by bits and bucket",
            add_worst_case);
  state.add("convergence", "Steps and bits to a target, with and without quantising",
            add_convergence);
  state.add("energy", "Energy of a training step or an inference, by counting operations",
            add_energy);
  state.add("memory", "Memory of a training step or an inference", add_memory);
  state.add("topology",
            "Per graph: spectral gap, contraction, degree; without options a standard table",
            add_topology);
  state.add("volume", "Bytes that a node sends in a run, as papers count them and on the wire",
            add_volume);
}

AnalyzeOptions::~AnalyzeOptions() = default;

bool AnalyzeOptions::parsed() const { return state_->analyze->parsed(); }

analyze::AnalyzeCommand AnalyzeOptions::command() const {
  for (const auto& [verb, question] : state_->verbs)
    if (verb->parsed()) return question();
  fail(Kind::usage, "analyze: expected one of {}, found nothing; try equant-train analyze --help",
       state_->names);
}

}  // namespace eqt::app
