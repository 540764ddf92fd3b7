// SPDX-License-Identifier: Apache-2.0
#include "train/folder_checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "checkpoint/memory_folder.hpp"
#include "checkpoint/restoring_visitor.hpp"
#include "checkpoint/saving_visitor.hpp"
#include "checkpoint/state_folder.hpp"
#include "comm/session.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "sync/background_thread.hpp"

namespace eqt::train {
namespace {

using checkpoint::FileHead;
using checkpoint::ManifestEntry;

/// A text that is saved with the state.
struct SavedText {
  const char* name;
  std::string_view text;
};

/// The end of a save, the same on all ranks.
struct SaveEnd {
  StepId step = 0;
  std::string failure;  // why it is not complete; empty: it is
  double work = 0;      // of the slowest rank: processor time of copying and writing [seconds]
};

/// The sets in a folder of this rank, of which the newest may be on its way there.
class Store {
 public:
  using Visit = Checkpointer::Visit;

  /// @param keep complete sets
  Store(comm::Communicator& comm, checkpoint::StateFolder folder, std::size_t keep)
      : comm_(comm), folder_(std::move(folder)), keep_(keep), writer_([this] { write(); }, [] {}) {}

  const checkpoint::StateFolder& folder() const noexcept { return folder_; }
  const std::vector<StepId>& complete() const noexcept { return complete_; }  // ascending
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }           // of the last save
  std::size_t saves() const noexcept { return saves_; }
  double pause_seconds() const noexcept { return pause_seconds_; }
  double longest_pause() const noexcept { return longest_pause_; }
  /// The step of the save whose end is not known yet.
  std::optional<StepId> pending() const {
    if (!pending_) return {};
    return pending_->step;
  }
  /// True if this rank has ended the pending save, well or not.
  bool is_written() const { return pending_ && written_; }
  /// True if there is a complete set of this step, which the run was resumed from or has saved.
  bool has_newest(StepId done) const {
    return !pending_ && !complete_.empty() && complete_.back() == done;
  }

  /// Copies the state and starts writing it. @pre nothing is pending
  /// @param pause runs since training waits
  void save(const FileHead& head, const Visit& visit, const std::vector<SavedText>& texts,
            const Stopwatch& pause) {
    // Where ranks share processors, others compute while this one waits for its turn.
    const WorkStopwatch work;
    checkpoint::SizingVisitor sizes(places_);
    visit(sizes);
    std::size_t bytes = sizes.bytes();
    for (const SavedText& text : texts) bytes += text.text.size();
    pending_ = head;
    image_.begin(head, bytes);
    for (const SavedText& text : texts)
      image_.append(text.name, checkpoint::SectionKind::text, Across::same,
                    std::as_bytes(std::span(text.text)));
    checkpoint::SavingVisitor copies(image_, places_);
    visit(copies);
    written_ = false;
    writer_.start();
    ++saves_;
    copy_work_ = work.seconds();
    const double waited = pause.seconds();
    pause_seconds_ += waited;
    longest_pause_ = std::max(longest_pause_, waited);
  }

  /// Finds out whether the pending save is complete on all ranks. Collective.
  std::optional<SaveEnd> settle() {
    if (!pending_) return {};
    writer_.finish();
    const FileHead head = *std::exchange(pending_, std::nullopt);
    SaveEnd end{.step = head.step, .failure = {}, .work = 0};
    constexpr double kMicro = 1e6;
    const auto failed = comm_.allgather(error_ ? 1 : 0);
    const auto sizes = comm_.allgather(file_bytes_), hashes = comm_.allgather(image_.hash());
    const auto micros =
        comm_.allgather(static_cast<std::uint64_t>(kMicro * (copy_work_ + write_work_)));
    end.work = static_cast<double>(*std::ranges::max_element(micros)) / kMicro;
    if (const auto first = std::ranges::find(failed, 1u); first != failed.end()) {
      obsolete_.push_back(head.step);
      const auto rank = static_cast<Rank>(first - failed.begin());
      end.failure = fmt::format("was not written on rank {}: {}", rank,
                                comm_.broadcast(error_ ? error_->what() : std::string(), rank));
      return end;
    }
    for (std::size_t rank = 0; rank < sizes.size(); ++rank)
      manifest_.push_back({static_cast<Rank>(rank), sizes[rank], hashes[rank]});
    manifest_head_ = head;
    complete_.push_back(head.step);
    retire();
    return end;
  }

  /// Writes the manifest and removes sets, which otherwise waits for the next save.
  /// @pre nothing is pending, or this is the writer's thread
  void tidy_up() {
    // Once per host, because its ranks have the same folder, and by one rank: if another removed
    // the set before, a rank that dies here would leave none that is known to be complete.
    if (comm_.ranks_on_this_host().front() == comm_.rank()) {
      if (!manifest_.empty()) folder_.write_manifest(manifest_head_, manifest_);
      for (const StepId step : obsolete_) folder_.remove(step);
    }
    manifest_.clear();
    obsolete_.clear();
  }

  /// After a set was restored: removes all that are not older.
  /// @param taken the step of the restored set, if it was in this folder
  void forget(const checkpoint::OtherSets& others, std::optional<StepId> taken) {
    complete_ = others.older;
    std::erase_if(complete_,
                  [&](const StepId step) { return std::ranges::count(others.newer, step) > 0; });
    if (taken) complete_.push_back(*taken);
    manifest_.clear();
    for (const StepId step : others.newer) folder_.remove(step);
    for (const StepId step : obsolete_) folder_.remove(step);
    obsolete_ = others.older_fragments;
    retire();
  }

  /// Removes all sets. @pre nothing is pending
  void remove_all() {
    for (const StepId step : complete_) folder_.remove(step);
    complete_.clear();
    tidy_up();
  }

 private:
  /// Runs on the writer's thread.
  void write() {
    const WorkStopwatch watch;  // training goes on meanwhile
    error_.reset();
    tidy_up();
    try {
      const auto bytes = image_.finish();
      file_bytes_ = bytes.size();
      folder_.write(*pending_, bytes);
    } catch (const Error& error) {
      error_.emplace(error);
    }
    write_work_ = watch.seconds();
    written_ = true;
  }

  /// Marks the oldest sets for removal if there are more than `keep`.
  void retire() {
    while (complete_.size() > keep_) {
      obsolete_.push_back(complete_.front());
      complete_.erase(complete_.begin());
    }
  }

  comm::Communicator& comm_;
  const checkpoint::StateFolder folder_;
  const std::size_t keep_;
  checkpoint::KnownPlaces places_;
  std::vector<StepId> complete_;  // on all ranks, ascending
  std::size_t saves_ = 0;
  double pause_seconds_ = 0, longest_pause_ = 0, copy_work_ = 0;

  // Used by the writer while it runs.
  std::optional<FileHead> pending_;  // what is being written
  checkpoint::StateImage image_;
  std::uint64_t file_bytes_ = 0;
  double write_work_ = 0;
  std::optional<Error> error_;
  FileHead manifest_head_;
  std::vector<ManifestEntry> manifest_;  // of the set before; empty if it is written
  std::vector<StepId> obsolete_;         // to be removed
  std::atomic<bool> written_ = false;
  sync::BackgroundThread writer_;  // last: its thread uses all of the above
};

class FolderCheckpointer final : public Checkpointer {
 public:
  FolderCheckpointer(comm::Communicator& comm, metrics::Sink& sink,
                     const FolderCheckpointerOptions& options, std::optional<Resumption> resumption)
      : comm_(comm),
        sink_(sink),
        options_(options),
        resumption_(std::move(resumption)),
        disk_(comm, checkpoint::StateFolder(options.run_folder), options.keep) {
    EQT_CHECK(options.keep >= 1, "{} checkpoints to keep", options.keep);
    if (options.memory_number != 0)
      memory_.emplace(comm, checkpoint::memory_folder(options.memory_number), 1);
    if (options.memory_seconds > 0) open_memory();
  }

  void attach(Visit visit) override { visit_ = std::move(visit); }

  void save(StepId done) override {
    // A set is never written over: until all ranks have replaced their files it would be none.
    if (disk_.has_newest(done)) return;
    const Stopwatch pause;
    settle_disk();
    disk_.save(head(done, mix64(disk_.saves())), visit_, texts(), pause);
  }

  void save_and_wait(StepId done) override {
    keep_in_memory(done);
    if (!disk_.has_newest(done)) {
      if (disk_.pending() != done) save(done);
      settle_disk();
      tidy_up();
      if (disk_.complete().empty() || disk_.complete().back() != done)
        throw comm::AgreedError(Kind::output, failure_);
    }
  }

  bool wants_memory() const override {
    return saves_in_memory_ && !memory_->pending() && since_memory_.seconds() >= memory_interval_;
  }

  void save_in_memory(StepId done) override {
    if (!saves_in_memory_ || memory_->pending() || memory_->has_newest(done)) return;
    memory_->save(head(done, mix64(~memory_->saves())), visit_, texts(), Stopwatch());
    since_memory_.restart();
  }

  bool has_unconfirmed() const override { return memory_ && memory_->is_written(); }

  void confirm_memory() override { settle_memory(); }

  void finish() override {
    settle_disk();
    tidy_up();
    if (memory_) settle_memory();
    if (saves_in_memory_) tell_pauses("states in memory", *memory_);
    if (disk_.saves() == 0) return;
    if (disk_.complete().empty()) throw comm::AgreedError(Kind::output, failure_);
    tell_pauses("checkpoints", disk_);
  }

  std::optional<StepId> restore_newest() override {
    settle_disk();
    if (memory_) settle_memory();
    std::optional<Resumption> found = std::exchange(resumption_, std::nullopt);
    if (!found) found = look();
    if (!found) return {};
    checkpoint::RestoringVisitor visitor(comm_, found->set,
                                         options_.goes_back ? &initial_ : nullptr);
    visit_(visitor);
    forget_others(*found);
    tell(*found);
    return found->set.step();
  }

 private:
  /// Keeps the state of this step in memory, and no older one: ranks that continue from the disks
  /// and lose a host before their first state in memory would go back to it. Collective.
  void keep_in_memory(StepId done) {
    if (!memory_) return;
    settle_memory();
    save_in_memory(done);
    settle_memory();
    if (!memory_->has_newest(done)) memory_->remove_all();
  }

  /// Collective.
  void open_memory() {
    std::string failure;
    try {
      checkpoint::open_memory(options_.run_folder, options_.memory_number);
    } catch (const Error& error) {
      failure = error.what();
    }
    const auto failures = comm_.allgather(failure);
    const auto first =
        std::ranges::find_if(failures, [](const auto& text) { return !text.empty(); });
    saves_in_memory_ = first == failures.end();
    if (saves_in_memory_) return;
    warn(0, fmt::format("no state is kept in the hosts' memory, because of rank {}: {}",
                        first - failures.begin(), *first));
  }

  FileHead head(StepId done, std::uint64_t save) const {
    return {.rank = comm_.rank(),
            .ranks = comm_.size(),
            .step = done,
            .set = mix64(options_.start ^ save)};
  }

  std::vector<SavedText> texts() const {
    return {{kSavedConfig, options_.config},
            {kSavedCollective, options_.collective},
            {kSavedData, options_.data},
            {kSavedFiles, options_.files}};
  }

  std::optional<Resumption> look() {
    checkpoint::Findings findings;
    auto set = checkpoint::open_newest(comm_, disk_.folder(),
                                       memory_ ? &memory_->folder() : nullptr, findings);
    if (!set) return {};
    return Resumption{std::move(*set), std::move(findings)};
  }

  /// Removes all sets that are not older than the restored one.
  void forget_others(const Resumption& found) {
    const auto taken = [&](bool in_memory) -> std::optional<StepId> {
      if (found.set.in_memory() != in_memory) return {};
      return found.set.step();
    };
    disk_.forget(found.findings.on_disk, taken(false));
    if (memory_) memory_->forget(found.findings.in_memory, taken(true));
    // Hosts that were away may have older ones, to which ranks that lose a host would go back.
    if (memory_ && !memory_->has_newest(found.set.step())) memory_->remove_all();
    comm_.allgather(0);  // in a common folder no rank may write before all have removed
  }

  void tell(const Resumption& found) {
    std::string text =
        fmt::format("continues from the {} of step {}",
                    found.set.in_memory() ? "state in memory" : "checkpoint", found.set.step());
    if (found.set.ranks() != comm_.size())
      text += fmt::format(", which {} ranks saved, on {}", found.set.ranks(), comm_.size());
    note(found.set.step(), text);
    for (const std::string& sentence : found.findings.sentences) warn(found.set.step(), sentence);
  }

  /// Collective.
  void settle_disk() {
    const auto end = disk_.settle();
    if (!end || end->failure.empty()) return;
    failure_ = fmt::format("the checkpoint of step {} {}", end->step, end->failure);
    if (std::exchange(warned_, true)) return;
    warn(end->step, disk_.complete().empty()
                        ? fmt::format("{}; training continues without a checkpoint", failure_)
                        : fmt::format("{}; training continues, and the checkpoint of step {} stays",
                                      failure_, disk_.complete().back()));
  }

  /// Collective.
  void settle_memory() {
    constexpr double kShare = 0.01;  // of a processor's time, which states in memory may take
    const auto end = memory_->settle();
    if (!end) return;
    memory_->tidy_up();
    memory_interval_ = std::max(options_.memory_seconds, end->work / kShare);
    if (end->failure.empty() || std::exchange(warned_of_memory_, true)) return;
    warn(end->step, fmt::format("the state in memory of step {} {}; training continues, and later "
                                "states are tried",
                                end->step, end->failure));
  }

  /// Writes the manifest and removes sets, which otherwise waits for the next save. Collective.
  void tidy_up() {
    disk_.tidy_up();
    comm_.allgather(0);  // from then on every rank sees the files of the others
  }

  void tell_pauses(const char* what, const Store& store) {
    if (store.saves() == 0) return;
    note(store.complete().empty() ? 0 : store.complete().back(),
         fmt::format("{} {} of {:.1f} MB a rank paused training for {:.3g} s, at most {:.3g} s at "
                     "a time",
                     store.saves(), what, static_cast<double>(store.file_bytes()) / 1e6,
                     store.pause_seconds(), store.longest_pause()));
  }

  void note(StepId step, const std::string& text) {
    if (comm_.rank() == 0) sink_.write(metrics::NoteRecord{.step = step, .text = text});
  }

  void warn(StepId step, const std::string& text) {
    note(step, text);
    if (comm_.rank() == 0) comm::print_warning(text);
  }

  comm::Communicator& comm_;
  metrics::Sink& sink_;
  const FolderCheckpointerOptions options_;
  std::optional<Resumption> resumption_;
  checkpoint::InitialParts initial_;
  Visit visit_;
  Store disk_;
  std::optional<Store> memory_;
  bool saves_in_memory_ = false;
  Stopwatch since_memory_;                            // since the last state in memory
  double memory_interval_ = options_.memory_seconds;  // [seconds]
  std::string failure_ = "there is no checkpoint";
  bool warned_ = false, warned_of_memory_ = false;
};

}  // namespace

std::unique_ptr<Checkpointer> make_folder_checkpointer(comm::Communicator& comm,
                                                       metrics::Sink& sink,
                                                       const FolderCheckpointerOptions& options,
                                                       std::optional<Resumption> resumption) {
  return std::make_unique<FolderCheckpointer>(comm, sink, options, std::move(resumption));
}

}  // namespace eqt::train
