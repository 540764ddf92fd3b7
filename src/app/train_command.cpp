#include "app/train_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "app/build_run.hpp"
#include "app/memory_estimate.hpp"
#include "app/run_config.hpp"
#include "app/run_folder.hpp"
#include "app/same_everywhere.hpp"
#include "app/verbs.hpp"
#include "comm/communicator.hpp"
#include "comm/session.hpp"
#include "metrics/output_file.hpp"
#include "train/fault.hpp"

namespace eqt::app {
namespace {

constexpr double kStartTimeoutSeconds = 300;  // until the config says otherwise

// An emulated step may be this much late, for want of a core to wake up on.
constexpr double kLateSeconds = 0.001;
constexpr double kLateShare = 1.02;

constexpr const char* kNoThreads =
    "this MPI library admits no calls from a second thread, so messages wait until computing is "
    "done; one with MPI_THREAD_SERIALIZED hides them";

/// [seconds per step]
double slowest_rank(const PerRank& emulate_compute) {
  if (const double* const same = std::get_if<double>(&emulate_compute)) return *same;
  return std::ranges::max(std::get<std::vector<double>>(emulate_compute));
}

/// What a rank was told to run: rank 0's file, unless it was given another one that it can read.
RunConfig config_of_this_rank(const TrainCommand& command, const std::string& first_path,
                              const std::string& first_text) {
  std::string text = first_text;
  if (command.config_path != first_path && std::ifstream(command.config_path))
    text = read_config_file(command.config_path);
  return parse_config(text, command.config_path, command.sets);
}

/// All ranks run from the same bytes: rank 0 reads the file.
RunConfig load_config(const TrainCommand& command, comm::Communicator& comm) {
  std::string text;
  comm.agree_after([&] {
    if (comm.rank() == 0) text = read_config_file(command.config_path);
  });
  text = comm.broadcast(text, 0);
  const std::string path = comm.broadcast(command.config_path, 0);
  RunConfig config;
  comm.agree_after([&] { config = config_of_this_rank(command, path, text); });
  require_same_config(config, comm);
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

/// What a reader of an emulated run should know beside its figures.
void note_emulation(const RunConfig& config, const metrics::Summary& summary, metrics::Sink& sink) {
  sink.write(metrics::NoteRecord{
      .step = summary.steps, .text = "model.pt is not written, because no network was trained"});
  const double asked = slowest_rank(config.train.emulate_compute);
  const double taken = summary.epoch_seconds.compute / static_cast<double>(summary.steps);
  if (taken <= std::max(asked + kLateSeconds, asked * kLateShare)) return;
  sink.write(metrics::NoteRecord{
      .step = summary.steps,
      .text = fmt::format("this machine was too busy for its emulated boards: the slowest rank "
                          "took {:.4f} s to wait {:.4f} s; emulate fewer ranks or slower boards",
                          taken, asked)});
}

int train_rank(const TrainCommand& command, const comm::Session& session) {
  comm::Communicator comm(session, kStartTimeoutSeconds);
  require_same_program(comm);
  const RunConfig config = load_config(command, comm);
  const std::optional<train::Fault> fault = fault_from_environment(comm);

  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<metrics::Sink> sink;
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    const std::string path = command.out.empty() ? "runs/" + config.name : command.out;
    folder = std::make_unique<RunFolder>(path, command.overwrite);
  });

  const std::uint64_t memory_bytes = require_memory(config, comm);
  const std::unique_ptr<Run> run =
      build_run(config, comm, session.allows_communication_thread(), fault);
  comm.agree_after([&] {
    sink = make_sink(command, config, folder.get());
    if (comm.rank() != 0) return;
    metrics::write_atomically(folder->file("config.json"),
                              resolved_json(settled_config(config, *run)));
    metrics::RunRecord record = describe(config, *run, comm);
    record.memory_estimate_bytes = memory_bytes;
    sink->write(record);
    if (config.synchronization.overlap && comm.size() > 1 && !session.allows_communication_thread())
      sink->write(metrics::NoteRecord{.step = 0, .text = kNoThreads});
    if (run->gossip != nullptr && !run->gossip->note.empty())
      sink->write(metrics::NoteRecord{.step = 0, .text = run->gossip->note});
    if (run->choice) sink->write(metrics::NoteRecord{.step = 0, .text = run->choice->note});
  });

  train::Trainer trainer({.comm = comm,
                          .replica = *run->replica,
                          .batches = run->batches.get(),
                          .test_set = run->data.test.get(),
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
  summary.paper_sent_bytes_per_node =
      paper_sent_bytes(config, run->replica->layout(), summary.steps);
  trainer.adopt_mean_model();
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    if (run->plan.emulated) {
      note_emulation(config, summary, *sink);
    } else {
      run->replica->save_weights(folder->file("model.pt"));
    }
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
