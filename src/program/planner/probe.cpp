// SPDX-License-Identifier: Apache-2.0
#include "planner/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/document.hpp"
#include "core/error.hpp"
#include "metrics/run_files.hpp"
#include "report/members.hpp"
#include "report/read_run.hpp"
#include "setup/build_data.hpp"

namespace eqt::planner {
namespace {

/// Fills `noise` from the records of type "noise".
void read_noise(const std::string& path, Probe& probe) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;  // a pipe would be waited for
  std::ifstream file(path, std::ios::binary);
  std::map<double, ProbedNoise> by_step;
  // A last line without its end was being written when the run was stopped.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    if (!line.starts_with(R"({"type":"noise")")) continue;
    const auto [json, words] = report::parse_lenient(line);
    if (json.is_discarded())
      fail(Kind::data, "{}: expected a record in JSON, found something else; make the run again",
           path);
    const report::Members record(json, path);
    const auto step = static_cast<double>(record.count("step"));
    const figures::Figure scale = record.figure("noise_scale");
    const double share = record.figure("noise_share").value_or(0);
    // The run went back to an earlier step: what came after it is void.
    by_step.erase(by_step.lower_bound(step), by_step.end());
    if (!scale) continue;  // with a memory it is not known
    // 0 stands for a gradient that cannot be told from its noise.
    by_step[step] = {.step = step,
                     .scale = *scale > 0 ? *scale : std::numeric_limits<double>::infinity(),
                     .share = share};
  }
  for (const auto& [step, noise] : by_step) probe.noise.push_back(noise);
}

/// A curve of errors: asymptote + factor * (steps / last)^-power.
struct PowerLaw {
  double asymptote = 0, factor = 0, power = 0;
  double residual = std::numeric_limits<double>::infinity();  // sum of squares
};

/// The best asymptote from 0 and factor for this power.
PowerLaw fitted_with(double power, std::span<const ProbedAccuracy> all, double last) {
  const auto n = static_cast<double>(all.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto abscissa = [&](const ProbedAccuracy& one) {
    return std::pow(one.step / last, -power);
  };
  for (const ProbedAccuracy& one : all) {
    const double at = abscissa(one), error = 1 - one.accuracy;
    x += at;
    y += error;
    xx += at * at;
    xy += at * error;
  }
  PowerLaw law = {.power = power};
  const double spread = n * xx - x * x;
  if (spread > 0) law.factor = (n * xy - x * y) / spread;
  law.asymptote = (y - law.factor * x) / n;
  if (law.asymptote < 0) {
    law.asymptote = 0;
    law.factor = xy / xx;
  }
  if (!(law.factor > 0)) return law;
  law.residual = 0;
  for (const ProbedAccuracy& one : all) {
    const double miss = law.asymptote + law.factor * abscissa(one) - (1 - one.accuracy);
    law.residual += miss * miss;
  }
  return law;
}

PowerLaw fitted_law(std::span<const ProbedAccuracy> all, double last) {
  constexpr double kLeastPower = 0.05, kMostPower = 4, kFactor = 1.005;
  PowerLaw best;
  for (double power = kLeastPower; power <= kMostPower; power *= kFactor) {
    const PowerLaw law = fitted_with(power, all, last);
    if (law.residual < best.residual) best = law;
  }
  return best;
}

}  // namespace

Probe read_probe(const std::string& folder) {
  const std::vector<std::string> folders = report::run_folders({folder});
  if (folders.size() != 1)
    fail(Kind::data, "{}: expected the folder of one run, found {} of them; name one of them",
         folder, folders.size());
  const report::Run run = report::read_run(folders[0]);
  if (run.emulated)
    fail(Kind::data,
         "{}: expected a probe whose ranks trained a network, found one that emulated computing "
         "(train.emulate_compute); make a run without it",
         run.folder);
  const std::string path = run.path + "/" + metrics::run_files::kConfig;
  Probe probe = {.run = run.folder,
                 .config = config::parse_config(
                     config::read_document(path, "--probe", "the config of a run"), path, {}),
                 .ranks = run.ranks,
                 .accuracies = {},
                 .noise = {}};
  if (!probe.config.synchronization.algorithm->averages_gradients)
    fail(Kind::data,
         "{}: expected a probe with synchronization.algorithm \"allreduce\", whose steps each have "
         "one batch of all ranks, found \"{}\"; make a run with it and the compressor auto",
         run.folder, probe.config.synchronization.algorithm->name);
  probe.samples = static_cast<double>(setup::samples_of_all_ranks(probe.config, run.ranks) *
                                      probe.config.train.accumulate);
  for (const report::Epoch& epoch : run.epochs)
    if (epoch.test_accuracy && epoch.step > 0)
      probe.accuracies.push_back(
          {.step = static_cast<double>(epoch.step), .accuracy = *epoch.test_accuracy});
  if (probe.accuracies.empty())
    fail(Kind::data,
         "{}: expected a probe with records of test_accuracy, found none; let it end an epoch, of "
         "a task that has an accuracy, with train.evaluate_every 1",
         run.folder);
  read_noise(run.path + "/" + metrics::run_files::kRecords, probe);
  if (probe.noise.empty())
    fail(Kind::data,
         "{}: expected a probe with records of the gradient noise scale, found none; make a run of "
         "at least two ranks with --set compressor.name=auto and no menu of rates",
         run.folder);
  return probe;
}

StepsToAccuracy steps_to_accuracy(std::span<const ProbedAccuracy> accuracies, double accuracy,
                                  const std::string& run) {
  const auto reached = std::ranges::find_if(
      accuracies, [&](const ProbedAccuracy& one) { return one.accuracy >= accuracy; });
  if (reached != accuracies.end()) {
    if (reached == accuracies.begin()) return {.steps = reached->step, .at_most = true};
    const ProbedAccuracy& before = *(reached - 1);
    const double part = (accuracy - before.accuracy) / (reached->accuracy - before.accuracy);
    return {.steps = before.step + part * (reached->step - before.step)};
  }
  constexpr std::size_t kLeastEvaluations = 3;  // as many as the law has unknowns
  const double best = std::ranges::max_element(accuracies, {}, &ProbedAccuracy::accuracy)->accuracy;
  if (accuracies.size() < kLeastEvaluations)
    fail(Kind::data,
         "{}: expected a probe that reaches an accuracy of {:.4g}, or at least {} evaluations to "
         "extrapolate from, found {} and at most {:.4g}; let it train for more epochs",
         run, accuracy, kLeastEvaluations, accuracies.size(), best);
  const double last = accuracies.back().step;
  const PowerLaw law = fitted_law(accuracies, last);
  if (!std::isfinite(law.residual))
    fail(Kind::data,
         "{}: expected a probe whose accuracy rises, to extrapolate from, found {:.4g} at first "
         "and {:.4g} at the end; let it train for more epochs",
         run, accuracies.front().accuracy, accuracies.back().accuracy);
  const double error = 1 - accuracy;
  if (law.asymptote >= error)
    fail(Kind::data,
         "{}: expected a probe whose accuracy rises to {:.4g}, found evaluations that approach "
         "{:.3g} by a fitted power law; try a lower --to-accuracy, or let the probe train for more "
         "epochs",
         run, accuracy, 1 - law.asymptote);
  // An evaluation may be above the curve; the last one has not reached the target anyway.
  const double times =
      std::max(1.0, std::pow((error - law.asymptote) / law.factor, -1 / law.power));
  if (!(times <= kMostExtrapolation))
    fail(Kind::data,
         "{}: expected a probe that comes near an accuracy of {:.4g}, found at most {:.4g}, from "
         "which a fitted power law gets there after {:.3g} times its steps, more than {:g} times; "
         "let it train for more epochs",
         run, accuracy, best, times, kMostExtrapolation);
  return {.steps = times * last,
          .fitted = true,
          .asymptote = law.asymptote,
          .factor = law.factor,
          .power = law.power};
}

ProbedNoise noise_until(std::span<const ProbedNoise> noise, double steps, const std::string& run) {
  EQT_CHECK(!noise.empty(), "no records of noise");
  double before = 0, share = 0;
  std::map<double, double> steps_by_scale;
  for (std::size_t i = 0; i < noise.size() && before < steps; ++i) {
    const bool is_last = i + 1 == noise.size();
    const double until = is_last ? steps : std::min(noise[i].step, steps);
    share += (until - before) * noise[i].share;
    steps_by_scale[noise[i].scale] += until - before;
    before = until;
  }
  double below = 0, scale = 0;
  for (const auto& [found, count] : steps_by_scale) {
    scale = found;
    if ((below += count) >= steps / 2) break;
  }
  if (!std::isfinite(scale))
    fail(Kind::data,
         "{}: expected a probe whose gradients can be told from their noise, found half of its "
         "{:.0f} steps or more in which the noise hides them; make one with a larger "
         "train.batch_size or a lower optimizer.learning_rate",
         run, steps);
  return {.step = steps, .scale = scale, .share = share / steps};
}

}  // namespace eqt::planner
