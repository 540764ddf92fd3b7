#include "app/train_command.hpp"

#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "app/build_run.hpp"
#include "app/run_config.hpp"
#include "app/run_folder.hpp"
#include "app/verbs.hpp"
#include "comm/communicator.hpp"
#include "comm/session.hpp"
#include "metrics/output_file.hpp"
#include "train/fault.hpp"

namespace eqt::app {
namespace {

constexpr double kStartTimeoutSeconds = 300;  // until the config says otherwise

/// All ranks run from the same bytes: rank 0 reads the file.
RunConfig load_config(const TrainCommand& command, comm::Communicator& comm) {
  std::string text;
  comm.agree_after([&] {
    if (comm.rank() == 0) text = read_config_file(command.config_path);
  });
  text = comm.broadcast(text, 0);
  RunConfig config;
  comm.agree_after([&] { config = parse_config(text, command.config_path, command.sets); });
  comm.set_timeout(config.synchronization.timeout_seconds);
  return config;
}

std::optional<train::Fault> fault_from_environment(comm::Communicator& comm) {
  std::optional<train::Fault> fault;
  comm.agree_after([&] {
    const char* text = std::getenv("EQT_FAULT");
    if (text != nullptr) fault = train::parse_fault(text);
  });
  return fault;
}

/// Records are written by rank 0; the others' sink takes nothing.
std::unique_ptr<metrics::Sink> make_sink(const TrainCommand& command, const RunConfig& config,
                                         const RunFolder* folder) {
  std::vector<std::unique_ptr<metrics::Sink>> sinks;
  if (folder != nullptr) {
    sinks.push_back(metrics::make_folder_sink(folder->path(), config.output.step_records));
    if (!command.quiet)
      sinks.push_back(metrics::make_console_sink(metrics::progress_style(config.output.progress)));
  }
  return metrics::make_fan_out(std::move(sinks));
}

int train_rank(const TrainCommand& command, const comm::Session& session) {
  comm::Communicator comm(session, kStartTimeoutSeconds);
  const RunConfig config = load_config(command, comm);
  const std::optional<train::Fault> fault = fault_from_environment(comm);

  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<metrics::Sink> sink;
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    const std::string path = command.out.empty() ? "runs/" + config.name : command.out;
    folder = std::make_unique<RunFolder>(path, command.overwrite);
  });

  const std::unique_ptr<Run> run =
      build_run(config, comm, session.allows_communication_thread(), fault);
  comm.agree_after([&] {
    sink = make_sink(command, config, folder.get());
    if (comm.rank() != 0) return;
    metrics::write_atomically(folder->file("config.json"), resolved_json(config));
    sink->write(describe(config, *run, comm));
  });

  train::Trainer trainer({.comm = comm,
                          .replica = *run->replica,
                          .batches = *run->batches,
                          .test_set = *run->data.test,
                          .optimizer = *run->optimizer,
                          .schedule = *run->schedule,
                          .synchronizer = *run->synchronizer,
                          .sink = *sink},
                         run->plan);
  metrics::Summary summary = trainer.run();
  summary.name = config.name;
  summary.version = version();
  summary.compressor = config.compressor.name;
  summary.collective = run->collective_name();
  summary.algorithm = config.synchronization.algorithm;
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    run->replica->save_weights(folder->file("model.pt"));
    sink->write(summary);
  });
  return 0;
}

}  // namespace

int run_train(const TrainCommand& command, int argc, char** argv) {
  const comm::Session session(&argc, &argv);
  return comm::run_guarded(session, [&] { return train_rank(command, session); });
}

}  // namespace eqt::app
