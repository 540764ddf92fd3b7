// SPDX-License-Identifier: Apache-2.0
#include "train/folder_checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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

class FolderCheckpointer final : public Checkpointer {
 public:
  FolderCheckpointer(comm::Communicator& comm, metrics::Sink& sink,
                     const FolderCheckpointerOptions& options, std::optional<Resumption> resumption)
      : comm_(comm),
        sink_(sink),
        options_(options),
        folder_(options.run_folder),
        resumption_(std::move(resumption)),
        writer_([this] { write(); }, [] {}) {
    EQT_CHECK(options.keep >= 1, "{} checkpoints to keep", options.keep);
  }

  void attach(Visit visit) override { visit_ = std::move(visit); }

  void save(StepId done) override {
    // A set is never written over: until all ranks have replaced their files it would be none.
    if (is_newest(done)) return;
    const Stopwatch pause;
    finish_pending();
    copy(done);
    writer_.start();
    ++saves_;
    pause_seconds_ += pause.seconds();
    longest_pause_ = std::max(longest_pause_, pause.seconds());
  }

  void save_and_wait(StepId done) override {
    if (is_newest(done)) return;
    if (!pending_ || pending_->step != done) save(done);
    finish_pending();
    tidy_up();
    if (complete_.empty() || complete_.back() != done)
      throw comm::AgreedError(Kind::output, failure_);
  }

  void finish() override {
    finish_pending();
    tidy_up();
    if (saves_ == 0) return;
    if (complete_.empty()) throw comm::AgreedError(Kind::output, failure_);
    note(complete_.back(),
         fmt::format("{} checkpoints of {:.1f} MB a rank paused training for {:.3g} s, at most "
                     "{:.3g} s at a time",
                     saves_, static_cast<double>(file_bytes_) / 1e6, pause_seconds_,
                     longest_pause_));
  }

  std::optional<StepId> restore_newest() override {
    finish_pending();
    std::optional<Resumption> found = std::exchange(resumption_, std::nullopt);
    if (!found) found = look();
    if (!found) return {};
    checkpoint::RestoringVisitor visitor(comm_, found->set);
    visit_(visitor);
    forget_others(*found);
    tell(*found);
    return found->set.step();
  }

 private:
  /// True if there is a complete set of this step, which the run was resumed from or has saved.
  bool is_newest(StepId done) const {
    return !pending_ && !complete_.empty() && complete_.back() == done;
  }

  std::optional<Resumption> look() {
    checkpoint::Findings findings;
    auto set = checkpoint::open_newest(comm_, folder_, findings);
    if (!set) return {};
    return Resumption{std::move(*set), std::move(findings)};
  }

  /// Removes all sets that are not older than the restored one.
  void forget_others(const Resumption& found) {
    complete_ = found.findings.older;
    complete_.push_back(found.set.step());
    manifest_.clear();
    for (const StepId step : found.findings.newer) folder_.remove(step);
    for (const StepId step : obsolete_) folder_.remove(step);
    obsolete_ = found.findings.older_fragments;
    retire();
    comm_.allgather(0);  // in a common folder no rank may write before all have removed
  }

  void tell(const Resumption& found) {
    std::string text = fmt::format("continues from the checkpoint of step {}", found.set.step());
    if (found.set.ranks() != comm_.size())
      text += fmt::format(", which {} ranks saved, on {}", found.set.ranks(), comm_.size());
    note(found.set.step(), text);
    for (const std::string& sentence : found.findings.sentences) warn(found.set.step(), sentence);
  }

  /// The part of a save for which a step waits: copying the state.
  void copy(StepId done) {
    checkpoint::SizingVisitor sizes(places_);
    visit_(sizes);
    pending_ = FileHead{.rank = comm_.rank(),
                        .ranks = comm_.size(),
                        .step = done,
                        .set = mix64(options_.start ^ mix64(saves_))};
    image_.begin(*pending_, sizes.bytes() + options_.config.size() + options_.collective.size() +
                                options_.data.size() + options_.files.size());
    const auto text = [this](const char* name, const std::string& value) {
      image_.append(name, checkpoint::SectionKind::text, Across::same,
                    std::as_bytes(std::span(value)));
    };
    text(kSavedConfig, options_.config);
    text(kSavedCollective, options_.collective);
    text(kSavedData, options_.data);
    text(kSavedFiles, options_.files);
    checkpoint::SavingVisitor copies(image_, places_);
    visit_(copies);
  }

  /// Runs on the writer's thread.
  void write() {
    error_.reset();
    if (!manifest_.empty()) folder_.write_manifest(manifest_head_, manifest_);
    for (const StepId step : obsolete_) folder_.remove(step);
    if (!pending_) return;
    try {
      const auto bytes = image_.finish();
      file_bytes_ = bytes.size();
      folder_.write(*pending_, bytes);
    } catch (const Error& error) {
      error_.emplace(error);
    }
  }

  /// Finds out whether the previous save is on the disks of all ranks. Collective.
  void finish_pending() {
    if (!pending_) return;
    writer_.finish();
    const FileHead head = *std::exchange(pending_, std::nullopt);
    obsolete_.clear();
    manifest_.clear();
    const auto failed = comm_.allgather(error_ ? 1 : 0);
    const auto sizes = comm_.allgather(file_bytes_), hashes = comm_.allgather(image_.hash());
    const auto first = std::ranges::find(failed, 1u);
    if (first != failed.end()) {
      fail_save(head.step, static_cast<Rank>(first - failed.begin()));
      return;
    }
    for (std::size_t rank = 0; rank < sizes.size(); ++rank)
      manifest_.push_back({static_cast<Rank>(rank), sizes[rank], hashes[rank]});
    manifest_head_ = head;
    // Once per host, because its ranks have the same disk.
    if (comm_.ranks_on_this_host().front() != comm_.rank()) manifest_.clear();
    complete_.push_back(head.step);
    retire();
  }

  /// Removes the oldest sets if there are more than `keep`.
  void retire() {
    while (complete_.size() > options_.keep) {
      obsolete_.push_back(complete_.front());
      complete_.erase(complete_.begin());
    }
  }

  void fail_save(StepId step, Rank rank) {
    const std::string sentence = comm_.broadcast(error_ ? error_->what() : std::string(), rank);
    obsolete_.push_back(step);
    failure_ = fmt::format("the checkpoint of step {} was not written on rank {}: {}", step, rank,
                           sentence);
    if (std::exchange(warned_, true)) return;
    warn(step, complete_.empty()
                   ? fmt::format("{}; training continues without a checkpoint", failure_)
                   : fmt::format("{}; training continues, and the checkpoint of step {} stays",
                                 failure_, complete_.back()));
  }

  /// Writes the manifest and removes sets, which otherwise waits for the next save. Collective.
  void tidy_up() {
    writer_.start();
    writer_.finish();
    obsolete_.clear();
    manifest_.clear();
    comm_.allgather(0);  // from then on every rank sees the files of the others
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
  const checkpoint::StateFolder folder_;
  std::optional<Resumption> resumption_;
  Visit visit_;
  checkpoint::KnownPlaces places_;

  std::vector<StepId> complete_;  // on all ranks, ascending
  std::string failure_ = "there is no checkpoint";
  bool warned_ = false;
  std::size_t saves_ = 0;
  double pause_seconds_ = 0, longest_pause_ = 0;

  // Used by the writer while it runs.
  std::optional<FileHead> pending_;  // what is being written
  checkpoint::StateImage image_;
  std::uint64_t file_bytes_ = 0;
  std::optional<Error> error_;
  FileHead manifest_head_;
  std::vector<ManifestEntry> manifest_;  // of the set before; empty if it is written
  std::vector<StepId> obsolete_;         // to be removed
  sync::BackgroundThread writer_;        // last: its thread uses all of the above
};

}  // namespace

std::unique_ptr<Checkpointer> make_folder_checkpointer(comm::Communicator& comm,
                                                       metrics::Sink& sink,
                                                       const FolderCheckpointerOptions& options,
                                                       std::optional<Resumption> resumption) {
  return std::make_unique<FolderCheckpointer>(comm, sink, options, std::move(resumption));
}

}  // namespace eqt::train
