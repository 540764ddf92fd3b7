// SPDX-License-Identifier: Apache-2.0
// equant-train: parses the command line and runs its command.

#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "analyze/analyze.hpp"
#include "app/command_line.hpp"
#include "app/run_folder.hpp"
#include "app/verbs.hpp"
#include "bench/bench.hpp"
#include "codec/simd.hpp"
#include "comm/session.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "doctor/doctor.hpp"
#include "planner/plan.hpp"
#include "standby/server.hpp"

namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

/// Writing to a closed pipe, or beyond a limit of the system, must fail with an error instead of
/// ending the process silently.
void take_write_errors() {
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)std::signal(SIGXFSZ, SIG_IGN);
}

/// Writing buffered output at the end can fail, too.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  eqt::fail(eqt::Kind::output,
            "expected to write the result to standard output, but writing failed; check what it is "
            "redirected to and the space left");
}

void require_free_outputs(const eqt::planner::PlanCommand& plan) {
  std::vector<std::string> inputs = plan.from;
  for (const std::string* path : {&plan.config_path, &plan.cluster_path, &plan.calibration_path})
    inputs.push_back(*path);
  for (const auto& [option, path] : {std::pair{"--plot", plan.plot}, std::pair{"--page", plan.page},
                                     std::pair{"--calibrate", plan.calibrate}})
    if (!path.empty()) eqt::app::require_free(option, path, inputs);
}

/// The error of the exception that is being handled. fmt reports failed printing as a system_error;
/// the state of the stream distinguishes it from others.
eqt::comm::Failure failure_of_this_process() {
  try {
    throw;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return eqt::comm::current_failure();
    return {eqt::Kind::output,
            fmt::format("expected to write the result to standard output, found: {}; "
                        "check what it is redirected to and the space left",
                        error.what())};
  } catch (...) {
    return eqt::comm::current_failure();
  }
}

int run(int argc, char** argv) {
  using namespace eqt;
  using namespace eqt::app;
  take_write_errors();
  try {
    codec::restrict_simd();
    load_plugins(argc, argv);
    return flushed(std::visit(
        Overloaded{
            [&](const TrainCommand& train) { return run_train(train, argc, argv); },
            [](const CheckCommand& check) { return run_check(check), 0; },
            [](const ListCommand& list) { return run_list(list), 0; },
            [](const SchemaCommand& asked) {
              return asked.cluster ? planner::print_cluster_schema() : run_schema(), 0;
            },
            [](const bench::BenchCommand& asked) { return bench::run_bench_codecs(asked), 0; },
            [&](const bench::BenchCollectivesCommand& asked) {
              return bench::run_bench_collectives(asked, argc, argv);
            },
            [](const bench::BenchConvolutionsCommand& asked) {
              return bench::run_bench_convolutions(asked), 0;
            },
            [](const analyze::AnalyzeCommand& asked) {
              const std::string plot =
                  std::visit([](const auto& a) { return a.output.plot; }, asked);
              if (!plot.empty()) require_free("--plot", plot, {});
              return analyze::run_analyze(asked), 0;
            },
            [&](const doctor::DoctorCommand& asked) {
              return doctor::run_doctor(asked, argc, argv);
            },
            [](const planner::PlanCommand& asked) {
              planner::PlanCommand command = asked;
              require_free_outputs(asked);
              if (!asked.config_path.empty())
                command.config_text = read_config_file(asked.config_path);
              return planner::run_plan(command), 0;
            },
            [](const ReportCommand& asked) {
              require_folders(asked.request.folders, "report");
              report::Request request = asked.request;
              request.defaults = config::resolved_json({});
              return fmt::print("{}", report::make_report(request)), 0;
            },
            [](const EvaluateCommand& asked) { return run_evaluate(asked), 0; },
            [](const PredictCommand& asked) { return run_predict(asked), 0; },
            [](const ExportCommand& asked) { return run_export(asked), 0; },
            [](const InitCommand& asked) { return run_init(asked), 0; },
            [](const StandbyCommand& asked) {
              return standby::serve(asked.path, asked.parent, run);
            },
            [](const PrintCommand& print) { return fmt::print("{}", print.text), 0; }},
        parse_command_line(argc, argv)));
  } catch (...) {
    const comm::Failure failure = failure_of_this_process();
    comm::print_error(failure.kind, failure.sentence);
    return static_cast<int>(failure.kind);
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
