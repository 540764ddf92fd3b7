#include "app/train_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "app/gradient_dump.hpp"
#include "app/gradient_histograms.hpp"
#include "app/job_config.hpp"
#include "app/preprocessing.hpp"
#include "app/resume.hpp"
#include "app/run_folder.hpp"
#include "checkpoint/state_folder.hpp"
#include "comm/communicator.hpp"
#include "comm/session.hpp"
#include "comm/signals.hpp"
#include "config/run_config.hpp"
#include "core/random.hpp"
#include "core/version.hpp"
#include "metrics/output_file.hpp"
#include "setup/build_run.hpp"
#include "setup/memory_estimate.hpp"
#include "setup/room_to_start.hpp"
#include "setup/same_everywhere.hpp"
#include "train/fault.hpp"
#include "train/folder_checkpointer.hpp"

namespace eqt::app {
namespace {

constexpr double kInitShare = 1.4;  // of a deadline for MPI_Init, where hosts load programs first

// An emulated step may be this much late, for want of a core to wake up on.
constexpr double kLateSeconds = 0.001;
constexpr double kLateShare = 1.02;

constexpr const char* kNoThreads =
    "this MPI library admits no calls from a second thread, so messages wait until computing is "
    "done; one with MPI_THREAD_SERIALIZED hides them";

constexpr const char* kOneRank =
    "one rank, so nothing is sent; to start 2, put \"mpirun -np 2\" in front of this command (as "
    "root "
    "\"scripts/run_local.sh --ranks 2 --\" in place of the program)";

constexpr const char* kHiddenProcessor =
    "this system hides /proc/cpuinfo, so LibTorch computes with its plainest kernels: slower, and "
    "the "
    "last bits differ from a run that sees its processor";

/// [seconds per step]
double slowest_rank(const config::PerRank& emulate_compute) {
  if (const double* const same = std::get_if<double>(&emulate_compute)) return *same;
  return std::ranges::max(std::get<std::vector<double>>(emulate_compute));
}

/// Faults of a process that is on its way into MPI.
void strike_at_launch() {
  const char* text = std::getenv("EQT_FAULT");
  if (text == nullptr) return;
  try {
    train::parse_fault(text).strike(train::Fault::Phase::launch, comm::launched_rank(), 0, {});
  } catch (const Error& error) {
    if (error.kind() == Kind::usage) return;  // all ranks tell it together
    throw Error(error.kind(), fmt::format("[rank {}/{}] before MPI_Init: {}", comm::launched_rank(),
                                          comm::launched_size(), error.what()));
  }
}

/// @param messages becomes the transport's hook if there is a fault
std::optional<train::Fault> fault_from_environment(comm::Communicator& comm,
                                                   train::MessageFaults& messages) {
  std::optional<train::Fault> fault;
  comm.agree_after([&] {
    const char* text = std::getenv("EQT_FAULT");
    if (text != nullptr) fault = train::parse_fault(text);
  });
  if (!fault) return fault;
  fault->messages = &messages;
  comm.set_send_hook(&messages);
  return fault;
}

/// Records are written by rank 0; the others' sink takes nothing.
std::unique_ptr<metrics::Sink> make_sink(const TrainCommand& command,
                                         const config::RunConfig& config, const RunFolder* folder,
                                         const std::optional<Resume>& resume) {
  std::vector<std::unique_ptr<metrics::Sink>> sinks;
  if (folder != nullptr) {
    std::optional<StepId> goes_on_after;
    if (resume) goes_on_after = resume->position.step;
    sinks.push_back(
        metrics::make_folder_sink(folder->path(), config.output.step_records, goes_on_after));
    if (config.output.tensorboard)
      sinks.push_back(metrics::make_event_sink(folder->path(), config.output.step_records,
                                               config::resolved_json({}), goes_on_after));
    if (!command.quiet)
      sinks.push_back(metrics::make_console_sink(metrics::progress_style(config.output.progress)));
  }
  return metrics::make_fan_out(std::move(sinks));
}

/// What a reader of an emulated run should know beside its figures.
void note_emulation(const config::RunConfig& config, const metrics::Summary& summary,
                    metrics::Sink& sink) {
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

/// How to repeat with ranks what one process played, and what it cannot tell.
std::string note_on_simulation(const config::RunConfig& config, const setup::Run& run) {
  const int ranks = run.data.simulation->count();
  const std::string collective = run.collective_name();
  return fmt::format(
      "simulated: one process plays {} ranks in turn, by {}{}, as mpirun -np {} with the same "
      "config and threads_per_rank {} would; bytes are those of all ranks, seconds of this process",
      ranks, collective,
      config.synchronization.collective == "auto" ? ", which auto stands for here" : "", ranks,
      run.model.threads);
}

Results results_policy(const TrainCommand& command) {
  if (command.resume) return Results::keep;
  return command.overwrite ? Results::replace : Results::refuse;
}

/// What ranks must have in common on their command lines before the config is known.
config::Facts command_facts(const TrainCommand& command) {
  const auto given = [](bool is) { return is ? "given" : "not given"; };
  return {{"verb", "train"},
          {"--resume", given(command.resume)},
          {"--overwrite", given(command.overwrite)},
          {"--simulate", command.simulate > 0 ? fmt::format("{}", command.simulate) : "not given"}};
}

/// Checkpoints are the only results that ranks other than the first may find in their own folders.
void require_no_checkpoints(const TrainCommand& command, const std::string& path,
                            comm::Communicator& comm) {
  comm.agree_after([&] {
    if (command.overwrite || command.resume || checkpoint::StateFolder(path).empty()) return;
    fail(Kind::usage,
         "run folder {} holds another run's checkpoints; try another --out, --resume or "
         "--overwrite",
         path);
  });
}

/// Nothing can refuse the run any more: what it replaces goes.
void remove_replaced(const std::string& path, bool resumes, RunFolder* folder,
                     comm::Communicator& comm) {
  comm.agree_after([&] {
    if (folder != nullptr) folder->begin();
    if (!resumes) checkpoint::StateFolder(path).remove_all();
  });  // ranks may share the folder: nobody writes before all have removed
}

/// Of the start of this job, unlike any other's: rank 0's clock, scrambled.
std::uint64_t draw_start(comm::Communicator& comm) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  std::uint64_t start = mix64(static_cast<std::uint64_t>(now));
  comm.broadcast(std::as_writable_bytes(std::span(&start, 1)), 0);
  return start;
}

/// Also for a run that saves nothing on its own: it does if a signal stops it.
std::unique_ptr<train::Checkpointer> make_checkpointer(
    const config::RunConfig& config, const setup::Run& run, const std::string& path,
    comm::Communicator& comm, metrics::Sink& sink, std::optional<Resume>& resume) {
  std::optional<train::Resumption> resumption;
  if (resume) resumption = std::move(resume->resumption);
  return train::make_folder_checkpointer(
      comm, sink,
      {.run_folder = path,
       .keep = config.checkpoint.keep,
       .start = draw_start(comm),
       .config = config::resolved_json(setup::settled_config(config, run)),
       .collective = run.collective_name(),
       .data = config::packed(run.data.facts)},
      std::move(resumption));
}

/// A run that has nothing left to do. The same on all ranks.
bool is_finished(const std::optional<Resume>& resume, const setup::Run& run,
                 const RunFolder* folder, comm::Communicator& comm) {
  if (!resume || resume->position.step < run.plan.total_steps) return false;
  const std::uint64_t finished = folder != nullptr && folder->holds_finished_run() ? 1 : 0;
  return comm.allgather(finished)[0] != 0;
}

/// @throws Error{usage} on all ranks where a run is finished and left nothing to go on from
void require_unfinished(const RunFolder* folder, comm::Communicator& comm) {
  comm.agree_after([&] {
    if (folder == nullptr || !folder->holds_finished_run()) return;
    fail(Kind::usage,
         "--resume: expected a checkpoint in {}, found a finished run without one; start anew with "
         "another --out or --overwrite, and set checkpoint.every_epochs to be able to go on",
         folder->path());
  });
}

/// Of rank 0, which has the records; null: nobody looks.
std::unique_ptr<train::GradientWatch> make_watch(const config::RunConfig& config,
                                                 const setup::Run& run, const RunFolder* folder,
                                                 metrics::Sink& sink) {
  if (folder == nullptr) return nullptr;
  std::unique_ptr<train::GradientWatch> dump, histograms;
  if (config.output.dump_gradients > 0)
    dump = make_gradient_dump(*run.model.replica, {.run_folder = folder->path(),
                                                   .every = config.output.dump_gradients,
                                                   .rank = 0,
                                                   .batch_size = config.train.batch_size});
  if (config.output.tensorboard)
    histograms =
        make_gradient_histograms(config, *run.model.replica, *run.messages.compressor, sink);
  return make_both_watches(std::move(dump), std::move(histograms));
}

int train_rank(const TrainCommand& command, const OwnConfig& own, const comm::Session& session) {
  train::MessageFaults message_faults;  // before what holds a pointer to it
  comm::Communicator comm(session, own.timeout_seconds);
  comm.beat("comparison of ranks");
  setup::require_same_command(command_facts(command), comm);
  setup::require_same_program(comm);
  config::RunConfig config = share_config(command, own, comm);
  comm.set_timeout(config.synchronization.timeout_seconds);
  session.set_timeout(config.synchronization.timeout_seconds);
  std::optional<train::Fault> fault = fault_from_environment(comm, message_faults);
  comm.beat("the start");
  if (fault) fault->strike(train::Fault::Phase::start, comm.rank(), 0, {});

  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<metrics::Sink> sink;
  const std::string path = command.out.empty() ? "runs/" + config.name : command.out;
  if (fault) fault->run_folder = path;
  comm.beat("opening of the run folder");
  comm.agree_after([&] {
    if (command.simulate > 0) setup::require_simulable(config, command.simulate, comm);
    if (comm.rank() == 0) folder = std::make_unique<RunFolder>(path, results_policy(command));
  });
  std::optional<Resume> resume;
  if (command.resume) resume = find_resume(config, path, command.simulate, comm);
  if (!resume) {
    if (command.resume) require_unfinished(folder.get(), comm);
    require_no_checkpoints(command, path, comm);
  } else {
    config = resume->config;
  }

  comm.beat("start of the threads");
  setup::require_threads(setup::threads_for(config, comm, command.simulate),
                         std::max(1, command.simulate), comm);
  comm.beat("estimate of memory");
  const std::uint64_t memory_bytes = setup::require_memory(config, command.simulate, comm);
  const std::unique_ptr<setup::Run> run =
      setup::build_run(config, comm, session.allows_communication_thread(), fault,
                       resume ? std::optional(resume->position) : std::nullopt, command.simulate);
  if (resume) require_saved_data(resume->resumption.set, run->data.facts, comm);
  if (is_finished(resume, *run, folder.get(), comm)) {
    if (comm.rank() == 0 && !command.quiet)
      comm::print_warning(
          fmt::format("the run in {} is finished after {} steps; raise train.epochs "
                      "or train.steps to go on",
                      path, resume->position.step));
    return 0;
  }
  remove_replaced(path, resume.has_value(), folder.get(), comm);
  // From here on there is something to wait for: records, then steps.
  comm::note_signals(comm::OnSignal::finish_step);
  comm.beat("opening of the records");
  std::unique_ptr<train::GradientWatch> watch;
  comm.agree_after([&] {
    sink = make_sink(command, config, folder.get(), resume);
    watch = make_watch(config, *run, folder.get(), *sink);
    if (comm.rank() != 0) return;
    metrics::write_atomically(folder->file("config.json"),
                              config::resolved_json(setup::settled_config(config, *run)));
    metrics::RunRecord record = setup::describe(config, *run, comm);
    record.memory_estimate_bytes = memory_bytes;
    sink->write(record);
    if (config.synchronization.overlap && comm.size() > 1 && !session.allows_communication_thread())
      sink->write(metrics::NoteRecord{.step = 0, .text = kNoThreads});
    if (!model::sees_processor())
      sink->write(metrics::NoteRecord{.step = 0, .text = kHiddenProcessor});
    if (run->sync.gossip != nullptr && !run->sync.gossip->note.empty())
      sink->write(metrics::NoteRecord{.step = 0, .text = run->sync.gossip->note});
    if (run->data.simulation != nullptr)
      sink->write(metrics::NoteRecord{.step = 0, .text = note_on_simulation(config, *run)});
    if (run->messages.choice)
      sink->write(metrics::NoteRecord{.step = 0, .text = run->messages.choice->note});
    if (comm.size() == 1 && comm::launched_size() == 0 && run->data.simulation == nullptr &&
        config.synchronization.algorithm != "none")
      sink->write(metrics::NoteRecord{.step = 0, .text = kOneRank});
    if (command.resume && !resume)
      sink->write(metrics::NoteRecord{
          .step = 0,
          .text =
              fmt::format("--resume: {} has no complete checkpoint: the run begins anew", path)});
    if (resume && !resume->note.empty())
      sink->write(metrics::NoteRecord{.step = resume->position.step, .text = resume->note});
  });
  const std::unique_ptr<train::Checkpointer> checkpointer =
      make_checkpointer(config, *run, path, comm, *sink, resume);

  train::Trainer trainer(
      {.comm = comm,
       .replica = *run->model.replica,
       .batches = run->data.batches.get(),
       .test_set = run->data.sets.test.get(),
       .optimizer = *run->update.optimizer,
       .schedule = *run->update.schedule,
       .synchronizer = *run->sync.synchronizer,
       .sink = *sink,
       .checkpointer = checkpointer.get(),
       .divergence = run->divergence.get(),
       .watch = watch.get(),
       .workers = run->data.simulation == nullptr ? nullptr : run->data.simulation->workers.get()},
      run->plan);
  metrics::Summary summary = trainer.run();
  summary.name = config.name;
  summary.version = version();
  summary.compressor = config.compressor.name;
  summary.collective = run->collective_name();
  summary.algorithm = config.synchronization.algorithm;
  summary.paper_sent_bytes_per_node =
      setup::paper_sent_bytes(config, run->model.replica->layout(), summary.steps);
  comm.beat("the mean model");
  trainer.adopt_mean_model();
  comm.beat("writing of the results", true);
  if (fault) fault->strike(train::Fault::Phase::end, comm.rank(), summary.steps, {});
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    if (run->plan.emulated) {
      note_emulation(config, summary, *sink);
    } else {
      metrics::write_atomically(folder->file("preprocessing.json"),
                                preprocessing_json(config.data.name, run->data.sets));
      run->model.replica->save_weights(folder->file("model.pt"));
    }
    comm.beat("writing of the summary", true);
    sink->write(summary);
  });
  comm.beat("closing of the run folder");
  return 0;
}

}  // namespace

int run_train(const TrainCommand& command, int argc, char** argv) {
  comm::note_signals(comm::OnSignal::stop_at_once);
  setup::require_room_to_start();
  strike_at_launch();
  const OwnConfig own = read_own_config(command);
  const comm::Session session(&argc, &argv, kInitShare * own.timeout_seconds);
  return comm::run_guarded(session, [&] { return train_rank(command, own, session); });
}

}  // namespace eqt::app
