// SPDX-License-Identifier: Apache-2.0
#include "planner/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "comm/host_facts.hpp"
#include "config/compressor_settings.hpp"
#include "config/document.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "data/catalogue.hpp"
#include "figures/draw.hpp"
#include "planner/calibration/calibrate.hpp"
#include "planner/calibration/calibration.hpp"
#include "planner/calibration/from_calibration.hpp"
#include "planner/plans.hpp"
#include "planner/probe.hpp"
#include "planner/tuning.hpp"
#include "setup/look_at_data.hpp"
#include "setup/memory_estimate.hpp"

namespace eqt::planner {
namespace {

/// Facts of the data set, if they can be told without its files.
std::optional<data::DatasetFacts> facts_of(const config::RunConfig& config) {
  try {
    return config.data.name->look(setup::dataset_options(config));
  } catch (const Error& error) {
    if (error.kind() != Kind::data && error.kind() != Kind::usage) throw;
    return {};
  }
}

std::optional<std::uint64_t> samples_of(const config::RunConfig& config,
                                        const std::optional<data::DatasetFacts>& facts) {
  const std::uint64_t limit = config.data.limit_train;
  if (!facts || facts->train == 0) return limit > 0 ? std::optional(limit) : std::nullopt;
  if (limit > facts->train)
    fail(Kind::usage,
         "plan: expected data.limit_train between 0 (all) and {}, the samples of the data set, "
         "found {}",
         facts->train, limit);
  return limit > 0 ? limit : facts->train;
}

/// Boards whose ranks differ in speed by more than a tenth.
bool is_uneven(const ClusterFile& file) {
  std::vector<double> speeds;
  for (std::size_t b = 0; b < file.facts.size(); ++b)
    speeds.push_back(file.facts[b].flops.value_or(1 / file.cluster.boards[b].step_seconds));
  const bool comparable = std::ranges::all_of(file.facts, [&](const BoardFacts& facts) {
    return facts.flops.has_value() == file.facts[0].flops.has_value();
  });
  const auto [least, most] = std::ranges::minmax_element(speeds);
  return comparable && *most > 1.1 * *least;
}

/// Returns the numbers of ranks that were asked for, else those that may tell most.
std::vector<int> ranks_of(const PlanCommand& command, const ClusterFile& file) {
  if (!command.ranks.empty()) return command.ranks;
  const int all = file.cluster.ranks();
  std::set<int> ranks = {all, all + file.cluster.boards.back().ranks};
  for (int n = 1; n < all; n *= 2) ranks.insert(n);
  return {ranks.begin(), ranks.end()};
}

bool is_float32(const Scheme& scheme) {
  const config::RunConfig::Compressor& compressor = scheme.config.compressor;
  return compressor.name == codec::kNone && compressor.coding == codec::Coding::fixed;
}

/// Holds names of schemes that a number of ranks does not fit, by the number and the reason.
using Unfit = std::map<std::pair<int, std::string>, std::vector<std::string>>;

/// Plans a scheme for each number of ranks that fits it, and adds the others to `unfit`.
/// @param whole  its plan for the whole cluster
/// @throws Error{usage} for a number that was asked for and does not fit
std::vector<PlannedRun> plan_by_ranks(const PlanCommand& command, const std::vector<int>& numbers,
                                      const PlannedRun& whole, const Scheme& scheme,
                                      const ClusterFile& file, const Subject& subject,
                                      Unfit& unfit) {
  std::vector<PlannedRun> runs;
  for (const int ranks : numbers) {
    try {
      runs.push_back(ranks == whole.ranks ? whole
                                          : plan_run(scheme, first_ranks(file, ranks), subject));
    } catch (const Error& error) {
      if (error.kind() != Kind::usage || !command.ranks.empty()) throw;
      unfit[{ranks, error.what()}].push_back(scheme.name);
    }
  }
  return runs;
}

/// Leaves out the numbers of ranks that no scheme has a plan for, and says which do not fit.
void leave_out(const Unfit& unfit, Plans& plans) {
  std::erase_if(plans.ranks, [&](int ranks) {
    return std::ranges::none_of(
        plans.by_ranks, [&](const auto& runs) { return find_ranks(runs, ranks) != nullptr; });
  });
  for (const auto& [number, schemes] : unfit) {
    const auto& [ranks, reason] = number;
    plans.left_out.push_back(fmt::format(
        "{} {}{}: {}", ranks, ranks == 1 ? "rank" : "ranks",
        schemes.size() == plans.whole.size() ? "" : fmt::format(" ({})", fmt::join(schemes, "; ")),
        reason));
  }
}

Plans plan_all(const PlanCommand& command, const ClusterFile& file, std::vector<Scheme>& schemes,
               const Subject& subject) {
  Plans plans;
  plans.ranks = ranks_of(command, file);
  Unfit unfit;
  std::vector<Scheme> planned;
  for (Scheme& scheme : schemes) {
    try {
      PlannedRun run = plan_run(scheme, file, subject);
      std::vector<PlannedRun> others =
          plan_by_ranks(command, plans.ranks, run, scheme, file, subject, unfit);
      run.first_epochs = first_epochs_of(run, scheme, file, subject);
      plans.whole.push_back(std::move(run));
      plans.by_ranks.push_back(std::move(others));
      planned.push_back(std::move(scheme));
    } catch (const Error& error) {
      // One of several that the config's other keys do not suit.
      if (error.kind() != Kind::usage || schemes.size() == 1) throw;
      plans.left_out.push_back(fmt::format("{}: {}", scheme.name, error.what()));
    }
  }
  schemes = std::move(planned);
  if (schemes.empty())
    fail(Kind::usage, "plan: no scheme has a plan; the last said: {}", plans.left_out.back());
  leave_out(unfit, plans);
  for (std::size_t s = 0; s < schemes.size(); ++s) {
    if (seconds_a_sample(plans.whole[s]) < seconds_a_sample(plans.whole[plans.best]) * kFaster)
      plans.best = s;
    if (!plans.float32 && is_float32(schemes[s])) plans.float32 = s;
  }
  // Where other settings differ as well, it is not compression that pays.
  for (const Scheme& scheme : schemes) {
    config::RunConfig plain = scheme.config;
    if (plans.float32) plain.compressor = schemes[*plans.float32].config.compressor;
    plans.compresses.push_back(!is_float32(scheme) && plans.float32 &&
                               plain == schemes[*plans.float32].config);
  }
  for (std::size_t s = 0; s < schemes.size(); ++s)
    plans.break_even.push_back(
        plans.float32 && *plans.float32 != s && file.cluster.ranks() > 1
            ? break_even_megabits(schemes[s], schemes[*plans.float32], file, subject)
            : std::nan(""));
  int boards = 0;
  for (const forecast::Boards& kind : file.cluster.boards) boards += kind.count;
  if (boards == 1) return plans;
  plans.one_board = plan_one_board(schemes[plans.best], file, subject);
  for (std::size_t s = 0; s < schemes.size(); ++s)
    plans.pays_from.push_back(
        paying_megabits(plans.whole[s], *plans.one_board, schemes[s], file, subject));
  return plans;
}

constexpr const char* kConfig =
    R"({"model": {"name": "resnet18"}, "data": {"name": "cifar10"}, "train": {"batch_size": 64}})";
constexpr const char* kOrigin = "the config of the recommendation";

}  // namespace

void run_plan(const PlanCommand& command) {
  if (!command.calibrate.empty()) return calibrate(command.from, command.calibrate);
  const std::string cluster_text =
      config::read_document(command.cluster_path, "--cluster", "a cluster");
  ClusterFile file = parse_cluster(cluster_text, command.cluster_path);
  Calibration calibration;
  if (!command.calibration_path.empty())
    calibration = parse_calibration(
        config::read_document(command.calibration_path, "--calibration",
                              "what plan --calibrate wrote or bench codecs --json printed"),
        command.calibration_path);
  const ClusterFile as_written = file;
  std::vector<std::string> remarks =
      complete(file, command.cluster_path, calibration,
               config::parse_config(command.config_text, command.config_path, command.sets));
  std::vector<Scheme> schemes = schemes_of(command.config_text, command.config_path, command.sets,
                                           command.vary, is_uneven(file));
  const config::RunConfig& config = schemes.front().config;
  CodecSpeeds codecs = calibration.codec_speeds(command.calibration_path);
  std::ranges::move(differences(calibration, comm::processor_name(), version()),
                    std::back_inserter(remarks));
  std::set<std::string> grades;
  for (const Scheme& scheme : schemes)
    grades.insert(config::note_on_grades(scheme.config.compressor));
  std::ranges::copy_if(grades, std::back_inserter(remarks),
                       [](const std::string& note) { return !note.empty(); });
  const auto facts = facts_of(config);
  PlannedNetwork network = network_of(config, facts);
  MachineCosts machine = calibration.machine();
  const std::string moments = take_moments(network, calibration, config, machine.guessed);
  if (!moments.empty()) remarks.push_back(moments);
  Subject subject = {.network = network,
                     .codecs = codecs,
                     .machine = std::move(machine),
                     .samples = samples_of(config, facts),
                     .steps_at_1 = command.steps_at_1,
                     .noise_scale = command.noise_scale};
  if (facts && !config.train.is_emulated() && command.probe.empty()) {
    const setup::MemoryEstimate estimate = setup::estimate_memory(config, *facts, 1, 1);
    subject.other_memory = estimate.program + estimate.data_set + estimate.activations;
  }
  if (!command.probe.empty()) {
    Tuning tuning = tune({.config_text = command.config_text,
                          .config_path = command.config_path,
                          .sets = command.sets,
                          .cluster = as_written,
                          .cluster_path = command.cluster_path,
                          .calibration = calibration,
                          .facts = facts,
                          .subject = subject,
                          .accuracy = command.to_accuracy},
                         read_probe(command.probe));
    remarks.push_back(note_on_codecs(subject));
    if (const std::string guessed = note_on_guesses(subject); !guessed.empty())
      remarks.push_back(guessed);
    std::ranges::move(remarks, std::back_inserter(tuning.notes));
    return print_tuning(tuning, command.json);
  }
  Plans plans = plan_all(command, file, schemes, subject);
  mark_fronts(plans, file);
  std::vector<std::string> notes = notes_of(plans, file, subject);
  notes.insert(notes.begin(), remarks.begin(), remarks.end());
  command.json ? print_json(plans, file, notes) : print_text(plans, file, notes);
  if (!command.page.empty()) write_page(command.page, plans, file, notes);
  figures::draw_if_asked(command.plot, [&] { return drawing_of(plans); });
}

double step_seconds_of(const std::string& folder) { return run_times(folder).step_seconds; }

TunedRecipe tune_job(const std::string& config_text, const std::string& origin,
                     const ClusterFile& cluster, const std::string& probe,
                     const std::optional<MeasuredBatch>& smaller, double accuracy) {
  const config::RunConfig config = config::parse_config(config_text, origin, {});
  Calibration calibration;
  calibration.runs.push_back(run_times(probe));
  if (smaller) {
    RunTimes other = calibration.runs.front();
    other.batch_size = smaller->batch_size;
    other.step_seconds = smaller->step_seconds;
    calibration.runs.push_back(std::move(other));
  }
  CodecSpeeds codecs = calibration.codec_speeds("");
  const auto facts = facts_of(config);
  PlannedNetwork network = network_of(config, facts);
  MachineCosts machine = calibration.machine();
  take_moments(network, calibration, config, machine.guessed);
  const std::vector<std::string> no_sets;
  const Tuning tuning = tune({.config_text = config_text,
                              .config_path = origin,
                              .sets = no_sets,
                              .cluster = cluster,
                              .cluster_path = "the hosts of this job",
                              .calibration = calibration,
                              .facts = facts,
                              .subject = {.network = network,
                                          .codecs = codecs,
                                          .machine = std::move(machine),
                                          .samples = samples_of(config, facts)},
                              .accuracy = accuracy},
                             read_probe(probe));
  const Candidate& choice = tuning.choice();
  return {.sentence = sentence_of(tuning),
          .sets = choice.sets,
          .batch_size = choice.batch,
          .local_steps = choice.local_steps,
          .steps = static_cast<std::uint64_t>(choice.target_steps),
          .learning_rate = choice.rate};
}

void print_cluster_schema() { fmt::print("{}", cluster_schema()); }

Recommendation recommend(const ClusterFile& cluster, CodecSpeeds& codecs) {
  // In the order of what they lose.
  const std::vector<Scheme> schemes =
      schemes_of(kConfig, kOrigin, {}, {"compressor.name=none,bf16,e-elastiquant"}, false);
  const PlannedNetwork network =
      network_of(schemes[0].config,
                 schemes[0].config.data.name->look(setup::dataset_options(schemes[0].config)));
  const Subject subject = {.network = network, .codecs = codecs, .machine = {}, .samples = {}};
  Plans plans;
  for (const Scheme& scheme : schemes) plans.whole.push_back(plan_run(scheme, cluster, subject));
  plans.float32 = 0;
  plans.one_board = plan_one_board(schemes[0], cluster, subject);
  for (std::size_t s = 0; s < schemes.size(); ++s)
    plans.pays_from.push_back(
        paying_megabits(plans.whole[s], *plans.one_board, schemes[s], cluster, subject));
  const auto seconds = [](const PlannedRun& run) { return run.forecast.mean_seconds; };
  const double fastest = seconds(*std::ranges::min_element(plans.whole, {}, seconds));
  const auto place = std::ranges::find_if(
      plans.whole, [&](const PlannedRun& run) { return seconds(run) <= (1 + kTie) * fastest; });
  plans.best = static_cast<std::size_t>(place - plans.whole.begin());
  const PlannedRun& best = *place;
  Recommendation result = {.compressor = best.scheme,
                           .collective = best.collective,
                           .step_seconds = seconds(best),
                           .float32_step_seconds = seconds(plans.whole[0]),
                           .sentence = {}};
  const std::string with =
      plans.best == 0
          ? fmt::format(
                "On these links ResNet-18 with batches of 64 needs no compression: {:.3g} s "
                "a step by {} in float32, by forecast.",
                result.step_seconds, result.collective)
          : fmt::format(
                "On these links, for ResNet-18 with batches of 64: {} by {}, overlapped: "
                "{:.3g} s a step; float32 {:.3g} s, by forecast.",
                result.compressor, result.collective, result.step_seconds,
                result.float32_step_seconds);
  const std::string more = more_boards_sentence(plans, cluster);
  result.sentence = one_board_is_fastest(plans)
                        ? fmt::format("For ResNet-18 with batches of 64 {} {}", more, with)
                        : fmt::format("{} {}", with, more);
  return result;
}

}  // namespace eqt::planner
