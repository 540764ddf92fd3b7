// SPDX-License-Identifier: Apache-2.0
#include "app/run_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/check_findings.hpp"
#include "app/preprocessing.hpp"
#include "app/trained_run.hpp"
#include "app/tuned_job.hpp"
#include "comm/host_facts.hpp"
#include "comm/launch.hpp"
#include "core/shipped.hpp"
#include "core/whole_file.hpp"
#include "data/catalogue.hpp"
#include "data/text/text_input.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"
#include "model/arithmetic.hpp"
#include "setup/build_model.hpp"
#include "setup/look_at_data.hpp"
#include "sync/local_sgd.hpp"
#include "train/run_statistics.hpp"

namespace eqt::app {
namespace {

namespace files = metrics::run_files;

// An emulated step may be this much longer, because no core is free when it ends.
constexpr double kLateSeconds = 0.001;
constexpr double kLateShare = 1.02;

constexpr const char* kNoThreads =
    "this MPI library allows no calls from a second thread, so messages are sent after the "
    "backward pass; a library with MPI_THREAD_SERIALIZED sends them during it";

std::string one_rank() {
  return "one rank, so nothing is sent; to start 2, put \"mpirun -np 2\" in front of this command "
         "(as root \"" +
         shipped("scripts/run_local.sh") + " --ranks 2 --\" in place of the program)";
}

constexpr const char* kHiddenProcessor =
    "this system hides /proc/cpuinfo, so LibTorch uses its slowest kernels; the last bits differ "
    "from a run that can read it";

constexpr const char* kBf16Storage =
    "this processor or LibTorch has no fast bf16 products: model.precision bf16 halves the memory "
    "of images inside the network, and convolutions compute in float32, not faster";

constexpr const char* kNoBf16 =
    "this processor or LibTorch has no fast bf16 products: this network computes in float32, as "
    "without model.precision bf16";

/// Says what a run that chooses grades knows of its links before it has seen a message.
std::string note_on_links(const std::vector<comm::Link>& links) {
  constexpr double kMegabit = 1e6 / 8;
  double rate = links.front().forward.duplex_bytes_per_second, latency = 0;
  for (const comm::Link& link : links) {
    for (const comm::LinkSpeed& speed : {link.forward, link.backward}) {
      rate = std::min(rate, speed.duplex_bytes_per_second);
      latency = std::max(latency, speed.latency_seconds);
    }
  }
  return fmt::format(
      "grades: links measured: {}, the slowest with {:.4g} Mb/s both ways at "
      "once and {:.3g} ms",
      links.size(), rate / kMegabit, 1e3 * latency);
}

/// Says what settings of local SGD's rounds do that a reader may not expect.
std::vector<std::string> notes_on_rounds(const config::RunConfig& config) {
  constexpr std::uint64_t kLongRound = 16;
  const auto& s = config.synchronization;
  const bool quadratic = !s.local_steps.count;
  const std::uint64_t least = s.local_steps.count.value_or(s.local_steps_base);
  std::vector<std::string> notes;
  if (s.outer.momentum != 0 && least < kLongRound)
    notes.push_back(fmt::format(
        "synchronization.outer.momentum multiplies what a round moves the model by {:.3g} in the "
        "long run, and is meant for rounds of {} steps and more",
        s.outer.learning_rate / (1 - s.outer.momentum), kLongRound));
  if (s.delay.count > sync::automatic_delay(least) && s.quorum == 0)
    notes.push_back(fmt::format(
        "synchronization.delay {} is more than half of the {} steps of a round: averages that come "
        "so late cost accuracy; take \"auto\" unless messages need so long",
        *s.delay.count, least));
  if (quadratic && !config.schedule.kind->changes_rate)
    notes.emplace_back(
        "synchronization.local_steps \"qsr\" with a constant learning rate: all rounds have the "
        "same number of steps; take schedule.kind cosine, step or linear");
  return notes;
}

/// [seconds per step]
double slowest_rank(const config::RunConfig& config, const metrics::Summary& summary) {
  double slowest = 0;
  for (Rank rank = 0; rank < summary.ranks; ++rank)
    slowest = std::max(
        slowest,
        model::planned_seconds(setup::emulation_of(config, rank, summary.ranks), summary.steps));
  return slowest;
}

/// Notes about an emulated run.
void note_emulation(const config::RunConfig& config, const metrics::Summary& summary,
                    metrics::Sink& sink) {
  sink.write(metrics::NoteRecord{
      .step = summary.steps, .text = "model.pt is not written, because no network was trained"});
  if (config.train.has_batches_by_rank()) return;  // their times change with their batches
  const double asked = slowest_rank(config, summary) * static_cast<double>(config.train.accumulate);
  const double taken = summary.epoch_seconds.compute / static_cast<double>(summary.steps);
  if (taken <= std::max(asked + kLateSeconds, asked * kLateShare)) return;
  sink.write(metrics::NoteRecord{
      .step = summary.steps,
      .text = fmt::format("this machine was too busy for its emulated boards: the slowest rank "
                          "took {:.4f} s to wait {:.4f} s; emulate fewer ranks or slower boards",
                          taken, asked)});
}

/// A note about a rate that messages do not have.
void note_rate(const config::CompressorConfig& compressor, const metrics::Summary& summary,
               metrics::Sink& sink) {
  constexpr double kHeld = 0.03;  // relative
  if (!compressor.rate || !summary.bits_per_value) return;
  const double asked = *compressor.rate, found = *summary.bits_per_value;
  if (std::abs(found - asked) <= kHeld * asked) return;
  sink.write(metrics::NoteRecord{
      .step = summary.steps,
      .text = fmt::format("compressor.rate: expected {} bits per value, found {:.3g} in the whole "
                          "run: {}; set another rate if bytes matter",
                          asked, found,
                          found < asked ? "gradients of many zeros need fewer"
                                        : "the largest values of short tensors take more")});
}

/// A note about a simulated run: how ranks would repeat it, and what its figures mean.
std::string note_on_simulation(const config::RunConfig& config, const setup::Run& run) {
  const int ranks = run.data.simulation->count();
  const std::string collective = run.collective_name();
  return fmt::format(
      "simulated: one process computes for {} ranks in turn, with collective {}{}, as mpirun -np "
      "{} with the same config and threads_per_rank {} would; bytes are those of all ranks, "
      "seconds those of this process",
      ranks, collective,
      config.synchronization.collective == collective::kAutomatic ? " (chosen by auto)" : "", ranks,
      run.model.threads);
}

/// Ranks see other samples of theirs in another step.
bool sees_part_of_shard(const config::RunConfig& config, const setup::Run& run, int ranks) {
  const auto shard = run.data.train_samples / static_cast<std::uint64_t>(ranks);
  return config.train.samples_per_step() < shard;
}

std::string note_on_minibatches(const config::RunConfig& config) {
  return fmt::format(
      "{} with a train.batch_size below the samples of a rank: gradients differ from step to step, "
      "so ranks hardly ever leave a message out; set it to all samples of a rank, with "
      "data.augment false",
      config.synchronization.algorithm->name);
}

/// Returns what a reader of the records should know before the first step.
std::vector<std::string> notes_on_start(const Job& job, const setup::Run& run) {
  const bool simulates = run.data.simulation != nullptr;
  const auto& synchronization = job.config.synchronization;
  std::vector<std::string> notes = run.data.sets.notes;
  if (synchronization.overlap && job.comm.size() > 1 && !job.session.allows_communication_thread())
    notes.emplace_back(kNoThreads);
  if (!model::sees_processor()) notes.emplace_back(kHiddenProcessor);
  if (!job.device.note.empty()) notes.push_back(job.device.note);
  std::ranges::copy(run.model.notes, std::back_inserter(notes));
  if (!run.sync.encoding.note.empty()) notes.push_back(run.sync.encoding.note);
  if (!job.note_on_mixed_ranks.empty()) notes.push_back(job.note_on_mixed_ranks);
  if (job.config.model.precision == model::Precision::bf16 &&
      model::bf16_arithmetic() == model::Bf16Arithmetic::storage)
    notes.emplace_back(job.config.model.name->casts ? kNoBf16 : kBf16Storage);
  if (!run.sync.algorithm.note.empty()) notes.push_back(run.sync.algorithm.note);
  if (synchronization.algorithm->lazy && sees_part_of_shard(job.config, run, job.comm.size()))
    notes.push_back(note_on_minibatches(job.config));
  std::ranges::move(notes_on_rounds(job.config), std::back_inserter(notes));
  if (simulates) notes.push_back(note_on_simulation(job.config, run));
  if (job.laboratory.link) notes.push_back(note_on_link(job.laboratory));
  if (run.messages.choice) notes.push_back(run.messages.choice->note);
  std::ranges::move(noise_notes(job.config), std::back_inserter(notes));
  std::ranges::move(optimizer_notes(job.config, run.model.replica->layout()),
                    std::back_inserter(notes));
  if (!run.messages.links.empty()) notes.push_back(note_on_links(run.messages.links));
  if (job.comm.size() == 1 && comm::launched_size() == 0 && !simulates &&
      synchronization.algorithm->exchanges())
    notes.push_back(one_rank());
  if (job.command.resume && !job.resume)
    notes.push_back(fmt::format(
        "--resume: {} has no complete checkpoint: the run starts from the beginning", job.path));
  return notes;
}

}  // namespace

std::unique_ptr<metrics::Sink> make_sink(const Job& job) {
  const config::RunConfig& config = job.config;
  std::vector<std::unique_ptr<metrics::Sink>> sinks;
  if (job.folder != nullptr) {
    std::optional<StepId> goes_on_after;
    if (job.resume) goes_on_after = job.resume->position.step;
    // A run that ended within an epoch has recorded it, and does so again at its end.
    const bool epoch_open =
        job.resume && (job.resume->position.epoch_open || job.resume->position.batch > 0);
    sinks.push_back(metrics::make_folder_sink(job.folder->path(), config.output.step_records,
                                              goes_on_after, epoch_open));
    if (config.output.tensorboard)
      sinks.push_back(metrics::make_event_sink(job.folder->path(), config.output.step_records,
                                               config::resolved_json({}), goes_on_after));
    if (!job.command.quiet) sinks.push_back(metrics::make_console_sink(config.output.progress));
  }
  return metrics::make_fan_out(std::move(sinks));
}

metrics::StartRecord describe_start(const Job& job) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  metrics::StartRecord start{.from = "the beginning",
                             .ranks = job.comm.size(),
                             .time = std::chrono::duration<double>(now).count()};
  if (job.resume) {
    start.step = job.resume->position.step;
    start.from = job.resume->resumption.set.in_memory() ? "a state in memory" : "a checkpoint";
  }
  for (std::string& host : job.comm.allgather(comm::host_name()))
    if (std::ranges::count(start.hosts, host) == 0) start.hosts.push_back(std::move(host));
  return start;
}

void write_start(const Job& job, const setup::Run& run, const metrics::StartRecord& start,
                 std::uint64_t memory_bytes, metrics::Sink& sink) {
  metrics::write_atomically(job.folder->file(files::kConfig),
                            config::resolved_json(setup::settled_config(job.config, run)));
  if (job.config.model.name->users_own && !run.plan.emulated)
    metrics::write_atomically(job.folder->file(files::kOwnNetwork),
                              *setup::published_network(job.config).script);
  const std::string& model = job.config.model.path;
  if (job.config.model.name->from_folder && !model.empty() && !run.plan.emulated)
    metrics::write_atomically(job.folder->file(files::kEncoder),
                              read_whole_file(setup::place_of(model, 0) + "/config.json",
                                              {.what = "the shape of a network",
                                               .max_bytes = std::uint64_t{1} << 20,
                                               .remedy = "check model.path"}));
  metrics::RunRecord record = setup::describe(job.config, run, job.comm);
  if (job.laboratory.link) record.emulated_link = comm::text_of(*job.laboratory.link);
  record.laboratory = job.laboratory.shaped;
  record.memory_estimate_bytes = memory_bytes;
  sink.write(record);
  sink.write(start);
  if (job.choice) {
    const planner::TunedRecipe& recipe = job.choice->recipe;
    write_choice(job);
    sink.write(metrics::DecisionRecord{
        .step = 0,
        .kind = "recipe",
        .values = {static_cast<double>(recipe.batch_size), static_cast<double>(recipe.local_steps),
                   recipe.learning_rate, static_cast<double>(recipe.steps)},
        .why = sentence_of(*job.choice)});
  }
  for (const std::string& note : notes_on_start(job, run))
    sink.write(metrics::NoteRecord{.step = 0, .text = note});
  if (job.resume && !job.resume->note.empty())
    sink.write(metrics::NoteRecord{.step = job.resume->position.step, .text = job.resume->note});
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string next_commands(const Job& job, bool emulated) {
  const config::RunConfig& config = job.config;
  const std::string run = shell_word(job.path);
  const bool predicts = config.task.kind == model::tasks::classification ||
                        config.task.kind == model::tasks::multi_label ||
                        config.task.kind == model::tasks::regression;
  const bool of_arrays = config.data.name == data::sets::arrays;
  const bool of_texts = config.data.name == data::sets::text;
  std::vector<std::pair<std::string, std::string>> commands;
  if (!emulated) commands.emplace_back("evaluate " + run, "accuracy by class, confusion matrix");
  commands.emplace_back("report " + run, "tables, plots and one HTML page");
  if (emulated)
    commands.emplace_back("--config " + shell_word(job.path + "/" + files::kConfig) + " --out DIR",
                          "the same run again");
  else if (predicts)
    commands.emplace_back("predict " + run +
                              (of_arrays  ? " x_new.npy"
                               : of_texts ? " texts.txt"
                                          : " picture.png"),
                          "what the network says of new samples");
  else
    commands.emplace_back("export " + run + " --to torchscript", "for torch.jit.load");
  std::size_t widest = 0;
  for (const auto& [words, about] : commands) widest = std::max(widest, words.size());
  std::string text = fmt::format("The run is in {}. Next:\n", run);
  for (const auto& [words, about] : commands)
    text += fmt::format("  {} {:<{}}  # {}\n", shell_word(job.program), words, widest, about);
  return text;
}

void write_end(const Job& job, const setup::Run& run, metrics::Summary summary,
               metrics::Sink& sink) {
  if (run.plan.emulated) {
    note_emulation(job.config, summary, sink);
  } else {
    metrics::write_atomically(
        job.folder->file(files::kPreprocessing),
        preprocessing_json(job.config.data.name->name, run.data.sets, *job.config.model.name));
    if (run.data.sets.texts != nullptr)
      metrics::write_atomically(job.folder->file(files::kVocabulary),
                                run.data.sets.texts->vocabulary().file());
    run.model.replica->save_weights(job.folder->file(files::kLastWeights));
    // A file of weights is made in memory, which can be more than training took.
    summary.peak_rss_mib = std::max(summary.peak_rss_mib.value_or(0), train::peak_rss_mib());
  }
  note_rate(job.config.compressor, summary, sink);
  job.comm.heartbeat("writing of the summary", true);
  sink.write(summary);
}

}  // namespace eqt::app
