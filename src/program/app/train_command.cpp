// SPDX-License-Identifier: Apache-2.0
// equant-train --config FILE: one rank of a training job.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "app/gradient_observers.hpp"
#include "app/job.hpp"
#include "app/run_records.hpp"
#include "app/trained_run.hpp"
#include "app/tuned_job.hpp"
#include "app/verbs.hpp"
#include "checkpoint/memory_folder.hpp"
#include "checkpoint/state_folder.hpp"
#include "codec/plugin.hpp"
#include "comm/launch.hpp"
#include "comm/signals.hpp"
#include "core/random.hpp"
#include "core/version.hpp"
#include "metrics/run_files.hpp"
#include "setup/build_run.hpp"
#include "setup/memory_estimate.hpp"
#include "setup/named_files.hpp"
#include "setup/same_everywhere.hpp"
#include "theory/paper_volume.hpp"
#include "train/folder_checkpointer.hpp"

namespace eqt::app {
namespace {

constexpr double kInitShare = 1.4;  // of a deadline, for MPI_Init, because hosts first load the
                                    // program

/// Faults before MPI starts.
void inject_fault_at_launch() {
  const char* text = std::getenv("EQT_FAULT");
  if (text == nullptr) return;
  try {
    comm::parse_fault(text).inject(comm::Fault::Phase::launch, comm::launched_rank(), 0, {});
  } catch (const Error& error) {
    if (error.kind() == Kind::usage) return;  // all ranks report it together
    throw Error(error.kind(), fmt::format("[rank {}/{}] before MPI_Init: {}", comm::launched_rank(),
                                          comm::launched_size(), error.what()));
  }
}

/// @param messages is installed as the transport's hook if there is a fault
std::optional<comm::Fault> fault_from_environment(comm::Communicator& comm,
                                                  comm::MessageFaults& messages) {
  std::optional<comm::Fault> fault;
  comm.agree_after([&] {
    const char* text = std::getenv("EQT_FAULT");
    if (text != nullptr) fault = comm::parse_fault(text);
  });
  if (!fault) return fault;
  fault->messages = &messages;
  comm.set_send_hook(&messages);
  return fault;
}

Results results_policy(const TrainCommand& command) {
  if (command.resume) return Results::keep;
  return command.overwrite ? Results::replace : Results::refuse;
}

/// The parts of the command line that must be equal on all ranks before the config is known.
config::Facts command_facts(const TrainCommand& command) {
  const auto given = [](bool is) { return is ? "given" : "not given"; };
  config::Facts facts = {
      {"verb", "train"},
      {"--resume", given(command.resume)},
      {"--overwrite", given(command.overwrite)},
      {"--simulate", command.simulate > 0 ? fmt::format("{}", command.simulate) : "not given"}};
  std::string plugins;
  for (const codec::LoadedPlugin& plugin : codec::loaded_plugins())
    plugins +=
        fmt::format("{}{} (hash {:016x})", plugins.empty() ? "" : ", ", plugin.name, plugin.hash);
  facts.push_back({"--plugin", plugins.empty() ? "not given" : plugins});
  for (config::Fact& fact : laboratory_facts()) facts.push_back(std::move(fact));
  return facts;
}

/// On other ranks than rank 0, only checkpoints may be in the run folder.
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

/// From here on the run cannot be refused, so the results that it replaces are removed.
void remove_replaced(const std::string& path, bool resumes, RunFolder* folder,
                     comm::Communicator& comm) {
  comm.agree_after([&] {
    if (folder != nullptr) folder->begin(resumes);
    if (resumes) return;
    checkpoint::StateFolder(path).remove_all();
    checkpoint::close_memory(path);
  });  // ranks may share the folder, so none writes before all have removed
}

/// The time on rank 0, which identifies this start of the job [clock ticks]. Collective.
std::uint64_t time_of_start(comm::Communicator& comm) {
  auto now =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  comm.broadcast(std::as_writable_bytes(std::span(&now, 1)), 0);
  return now;
}

/// A run without checkpoints has one, too: it saves one if a signal stops it.
std::unique_ptr<train::Checkpointer> make_checkpointer(
    const config::RunConfig& config, const setup::Run& run, const std::string& path,
    const config::Facts& files, comm::Communicator& comm, metrics::Sink& sink,
    std::optional<Resume>& resume) {
  std::optional<train::Resumption> resumption;
  if (resume) resumption = std::move(resume->resumption);
  const std::uint64_t now = time_of_start(comm);
  std::uint64_t memory_number = resume ? resume->memory_number : 0;
  if (memory_number == 0 && config.checkpoint.memory_seconds > 0) memory_number = now;
  return train::make_folder_checkpointer(
      comm, sink,
      {.run_folder = path,
       .keep = config.checkpoint.keep,
       .start = mix64(now),
       .memory_seconds = config.checkpoint.memory_seconds,
       .memory_number = memory_number,
       .goes_back = run.divergence != nullptr && run.divergence->recovers(),
       .config = config::resolved_json(setup::settled_config(config, run)),
       .collective = run.collective_name(),
       .data = config::packed(run.data.facts),
       .files = config::packed(files)},
      std::move(resumption));
}

/// True if the run has no steps left. The same on all ranks.
bool is_finished(const std::optional<Resume>& resume, const setup::Run& run,
                 const RunFolder* folder, comm::Communicator& comm) {
  if (!resume || resume->position.step < run.plan.total_steps) return false;
  const std::uint64_t finished = folder != nullptr && folder->holds_finished_run() ? 1 : 0;
  return comm.allgather(finished)[0] != 0;
}

/// @throws Error{usage} on all ranks if a run is finished and has no checkpoint
void require_unfinished(const RunFolder* folder, comm::Communicator& comm) {
  comm.agree_after([&] {
    if (folder == nullptr || !folder->holds_finished_run()) return;
    fail(Kind::usage,
         "--resume: expected a checkpoint in {}, found a finished run without one; start a new run "
         "with another --out or --overwrite, and set checkpoint.every_epochs to be able to resume "
         "it",
         folder->path());
  });
}

/// On rank 0, which has the records; null: no observer.
std::unique_ptr<train::GradientObserver> make_observer(const config::RunConfig& config,
                                                       const setup::Run& run,
                                                       const RunFolder* folder,
                                                       metrics::Sink& sink) {
  if (folder == nullptr) return nullptr;
  std::unique_ptr<train::GradientObserver> dump, histograms;
  if (config.output.dump_gradients > 0)
    dump = make_gradient_dump(*run.model.replica, {.run_folder = folder->path(),
                                                   .every = config.output.dump_gradients,
                                                   .rank = 0,
                                                   .batch_size = config.train.batch_size});
  if (config.output.tensorboard)
    histograms =
        make_gradient_histograms(config, *run.model.replica, *run.messages.compressor, sink);
  return make_both_observers(std::move(dump), std::move(histograms));
}

/// @throws Error{usage} if the run reads what --overwrite removes
void require_inputs_stay(const config::RunConfig& config, const RunFolder& folder) {
  std::vector<setup::NamedFile> files = setup::network_files(config);
  files.push_back({"compressor.replay", config.compressor.replay});
  files.push_back({"train.replay", config.train.replay});
  for (const setup::NamedFile& file : files)
    if (folder.replaces(file.path.string()))
      fail(Kind::usage,
           "{}: expected a file outside the results that --overwrite replaces, found {}; copy it, "
           "or try another --out",
           file.name, file.path.string());
}

/// Returns what a node sends in `steps` steps of this algorithm as published tables count it. They
/// cover gossip of one message a step without compression or with the largest values, their indices
/// beside. Rounds after the last step do not count. Nothing is returned where they cover nothing,
/// as for pairs, whose exchanges follow from ranks' speeds.
std::optional<std::uint64_t> paper_sent_bytes(const config::RunConfig& config, const Layout& layout,
                                              StepId steps) {
  const sync::AlgorithmRow& algorithm = *config.synchronization.algorithm;
  if (!algorithm.mixes || algorithm.asynchronous || algorithm.mixes_direction) return {};
  const auto& compressor = config.compressor;
  const StepId rounds = steps / *config.synchronization.local_steps.count;
  if (compressor.name == codec::kNone && compressor.coding == codec::Coding::fixed)
    return rounds * theory::paper_bytes_per_step(layout, {});
  if (compressor.name == codec::kTopK && compressor.value_bits == 32)
    return rounds * theory::paper_bytes_per_step(layout, compressor.density);
  return {};
}

/// Leaves what a power failure while a file is written may leave, for EQT_FAULT.
void truncate_newest_file(const std::string& run_folder, Rank rank) {
  const checkpoint::StateFolder folder(run_folder);
  std::vector<std::string> damaged;
  for (const checkpoint::FoundFile& file : folder.list(damaged)) {
    if (file.head.rank != rank) continue;
    std::filesystem::resize_file(folder.file_path(file.head.step, file.head.rank, file.head.ranks),
                                 file.bytes / 2);
    return;
  }
}

/// Opens the run folder and the sinks. Collective.
void open_folder(Job& job) {
  const TrainCommand& command = job.command;
  comm::Communicator& comm = job.comm;
  job.path = command.out.empty() ? "runs/" + job.config.name : command.out;
  if (job.fault)
    job.fault->truncate_checkpoint = [path = job.path, rank = comm.rank()] {
      truncate_newest_file(path, rank);
    };
  comm.heartbeat("opening of the run folder");
  comm.agree_after([&] {
    job.laboratory = read_laboratory(command.simulate > 0, comm);
    if (command.simulate > 0) setup::require_simulable(job.config, command.simulate, comm);
    if (comm.rank() == 0)
      job.folder = std::make_unique<RunFolder>(job.path, results_policy(command));
    if (job.folder != nullptr) require_inputs_stay(job.config, *job.folder);
  });
  if (command.resume) job.resume = find_resume(job.config, job.path, command.simulate, comm);
  if (job.resume) {
    job.config = job.resume->config;
    return;
  }
  if (command.resume) require_unfinished(job.folder.get(), comm);
  require_no_checkpoints(command, job.path, comm);
}

/// Collective.
std::uint64_t sum_over_ranks(std::uint64_t count, comm::Communicator& comm) {
  std::array<double, 1> sum = {static_cast<double>(count)};
  comm.allreduce_sum(sum);
  return static_cast<std::uint64_t>(sum[0]);
}

/// Collective; none on all ranks if the set has nothing to skip.
std::optional<std::uint64_t> sum_of_skipped(const data::DatasetPair& sets,
                                            comm::Communicator& comm) {
  if (!sets.skipped) return {};
  return sum_over_ranks(sets.skipped(), comm);
}

/// Collective; none on all ranks without 8-bit operands.
std::optional<std::uint64_t> sum_of_clipped(const Job& job, const model::Replica& replica) {
  const auto use = replica.int8_use(job.config.train.batch_size);
  if (!use) return {};
  return sum_over_ranks(use->clipped_values, job.comm);
}

/// Trains and writes all records and results. Collective.
void train_and_record(Job& job, setup::Run& run, const config::Facts& files,
                      std::uint64_t memory_bytes) {
  comm::Communicator& comm = job.comm;
  comm.heartbeat("opening of the records");
  std::unique_ptr<metrics::Sink> sink;
  std::unique_ptr<train::GradientObserver> observer;
  const metrics::StartRecord start = describe_start(job);
  comm.agree_after([&] {
    sink = make_sink(job);
    observer = make_observer(job.config, run, job.folder.get(), *sink);
    if (comm.rank() == 0) write_start(job, run, start, memory_bytes, *sink);
  });
  const std::unique_ptr<train::Checkpointer> checkpointer =
      make_checkpointer(job.config, run, job.path, files, comm, *sink, job.resume);
  train::Trainer trainer(
      {.comm = comm,
       .replica = *run.model.replica,
       .batches = run.data.batches.get(),
       .test_set = run.data.sets.test.get(),
       .optimizer = *run.update.optimizer,
       .schedule = *run.update.schedule,
       .synchronizer = *run.sync.algorithm.synchronizer,
       .sink = *sink,
       .checkpointer = checkpointer.get(),
       .divergence = run.divergence.get(),
       .observer = observer.get(),
       .workers = run.data.simulation == nullptr ? nullptr : run.data.simulation->workers.get(),
       .balancer = run.balancer.get(),
       .timeline = run.timeline.get(),
       .best_weights = job.path + "/" + metrics::run_files::kBestWeights},
      run.plan);
  metrics::Summary summary = trainer.run();
  summary.name = job.config.name;
  summary.version = version();
  summary.compressor = job.config.compressor.name->name;
  summary.collective = run.collective_name();
  summary.algorithm = job.config.synchronization.algorithm->name;
  summary.paper_sent_bytes_per_node =
      paper_sent_bytes(job.config, run.model.replica->layout(), summary.steps);
  summary.skipped_pictures = sum_of_skipped(run.data.sets, comm);
  summary.clipped_values = sum_of_clipped(job, *run.model.replica);
  comm.heartbeat("the mean model");
  trainer.adopt_result();
  comm.heartbeat("writing of the results", true);
  if (job.fault) job.fault->inject(comm::Fault::Phase::end, comm.rank(), summary.steps, {});
  comm.agree_after([&] {
    if (comm.rank() == 0) write_end(job, run, summary, *sink);
  });
  checkpoint::close_memory(job.path);
  comm.heartbeat("closing of the run folder");
  const bool shows = job.config.output.progress != metrics::ProgressStyle::off;
  if (comm.rank() == 0 && shows && !job.command.quiet)
    fmt::print("\n{}", next_commands(job, run.plan.emulated));  // after the table
}

/// Builds the run of a job whose folder is open, and trains it. Collective.
void train_job(Job& job) {
  const TrainCommand& command = job.command;
  comm::Communicator& comm = job.comm;
  comm.heartbeat("start of the threads");
  setup::require_threads(setup::threads_for(job.config, comm, command.simulate),
                         std::max(1, command.simulate), comm);
  comm.heartbeat("choice of a device");
  job.device = setup::choose_device(job.config, comm);
  const model::Placement& placement = job.device.placement;
  comm.heartbeat("estimate of memory");
  const std::uint64_t memory_bytes =
      setup::require_memory(job.config, command.simulate, placement.cuda.has_value(), comm);
  const std::unique_ptr<setup::Run> run = setup::build_run(
      job.config, comm, job.session.allows_communication_thread(), job.fault,
      job.resume ? std::optional(job.resume->position) : std::nullopt, command.simulate, placement);
  const config::Facts files = setup::facts_of_named_files(job.config, command.simulate, comm);
  if (job.resume) {
    require_saved_files(*job.resume, files, comm);  // names them, which the data do not
    require_saved_data(job.resume->resumption.set, run->data.facts, comm);
  }
  if (is_finished(job.resume, *run, job.folder.get(), comm)) {
    if (comm.rank() == 0 && !command.quiet)
      comm::print_warning(fmt::format(
          "the run in {} is finished after {} steps; raise train.epochs or train.steps to continue",
          job.path, job.resume->position.step));
    return;
  }
  remove_replaced(job.path, job.resume.has_value(), job.folder.get(), comm);
  // From here on a signal waits until records are written, later until the step ends.
  comm::note_signals(comm::OnSignal::finish_step);
  train_and_record(job, *run, files, memory_bytes);
}

int train_rank(const TrainCommand& command, const char* program, const OwnConfig& own,
               const comm::Session& session) {
  comm::MessageFaults message_faults;  // declared before objects that point to it
  comm::Communicator comm(session, own.timeout_seconds);
  comm.heartbeat("comparison of ranks");
  setup::require_same_command(command_facts(command), comm);
  setup::require_same_program(comm);
  Job job{.command = command,
          .program = program,
          .session = session,
          .comm = comm,
          .config = share_config(command, own, comm),
          .fault = {},
          .path = {},
          .folder = {},
          .resume = {},
          .laboratory = {},
          .note_on_mixed_ranks = setup::note_on_mixed_ranks(comm),
          .device = {},
          .choice = {}};
  comm.set_timeout(job.config.synchronization.timeout_seconds);
  session.set_timeout(job.config.synchronization.timeout_seconds);
  job.fault = fault_from_environment(comm, message_faults);
  comm.heartbeat("the start");
  if (job.fault) job.fault->inject(comm::Fault::Phase::start, comm.rank(), 0, {});
  if (job.config.train.tunes() && command.resume) take_earlier_choice(job);
  open_folder(job);
  // A run that goes on has made its choice.
  if (job.config.train.tunes()) choose_by_probe(job, train_job);
  train_job(job);
  return 0;
}

}  // namespace

int run_train(const TrainCommand& command, int argc, char** argv) {
  comm::note_signals(comm::OnSignal::stop_at_once);
  setup::require_room_to_start();
  inject_fault_at_launch();
  const OwnConfig own = read_own_config(command);
  const comm::Session session(&argc, &argv, kInitShare * own.timeout_seconds);
  return comm::run_guarded(session, [&] { return train_rank(command, argv[0], own, session); });
}

}  // namespace eqt::app
