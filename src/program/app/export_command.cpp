// SPDX-License-Identifier: Apache-2.0
#include "app/export_command.hpp"

#include <fmt/format.h>

#include "app/run_folder.hpp"
#include "app/trained_run.hpp"
#include "core/error.hpp"
#include "model/export.hpp"

namespace eqt::app {
namespace {

/// In the run folder, under a name that no run writes.
std::string usual_name(const TrainedRun& run, model::ExportFormat format) {
  switch (format) {
    case model::ExportFormat::torchscript:
      return run.folder + "/model.torchscript.pt";
    case model::ExportFormat::safetensors:
      return run.folder + "/model.safetensors";
    case model::ExportFormat::state_dict:
      return run.folder + "/model.state_dict.pt";
  }
  fail(Kind::bug, "an export without a format");
}

}  // namespace

void run_export(const ExportCommand& command) {
  const TrainedRun run = open_run(command.run, command.best);
  const auto* const format = find_named<model::ExportFormat>(command.to);
  EQT_CHECK(format != nullptr, "no format is called {}", command.to);
  const bool is_script = format->value == model::ExportFormat::torchscript;
  const std::string out = command.out.empty() ? usual_name(run, format->value) : command.out;
  require_free("--out", out, files_of(run));
  model::set_threads(1);
  model::export_network(network_options(run),
                        {.format = format->value,
                         .weights = run.weights,
                         .preprocessing = is_script ? without_framing(run.input) : run.input.text,
                         .out = out});
  fmt::print("{}\n", out);
}

}  // namespace eqt::app
