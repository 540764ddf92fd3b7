// SPDX-License-Identifier: Apache-2.0
#include "app/plan_options.hpp"

#include <CLI/CLI.hpp>

#include "app/command_line.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"
#include "planner/cluster_file.hpp"

namespace eqt::app {
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

void require_complete(const planner::PlanCommand& plan) {
  if (!plan.calibrate.empty() || !plan.from.empty()) {
    if (plan.calibrate.empty() || plan.from.empty())
      fail(Kind::usage,
           "command line: expected plan --calibrate FILE.json --from PATH, found only one of the "
           "two; try equant-train plan --help");
    return;
  }
  if (!plan.page.empty() && !plan.page.ends_with(".html"))
    fail(Kind::usage, "command line: expected plan --page with a file that ends in .html, found {}",
         plan.page);
  if (plan.config_path.empty() || plan.cluster_path.empty())
    fail(Kind::usage,
         "command line: expected plan --config FILE --cluster FILE; try equant-train plan --help");
}

}  // namespace eqt::app
