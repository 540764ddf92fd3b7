// SPDX-License-Identifier: Apache-2.0
#include "app/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "checkpoint/memory_folder.hpp"
#include "checkpoint/restoring_visitor.hpp"
#include "config/checks.hpp"
#include "config/fields.hpp"
#include "core/error.hpp"
#include "setup/named_files.hpp"

namespace eqt::app {
namespace {

setup::SavedPosition position_in(comm::Communicator& comm, const checkpoint::SavedSet& set) {
  const auto data = checkpoint::numbers_of(comm, set, train::kSavedPosition, 3);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // larger than any run, without overflow
  const bool possible =
      data[0] < kMost && data[1] < data[2] && data[2] < kMost / 2 + 1 && set.step() < kMost;
  if (!possible) {
    throw comm::AgreedError(Kind::data,
                            fmt::format("checkpoint of step {}: expected a batch number below the "
                                        "batches of an epoch, found batch {} of {} in epoch {}",
                                        set.step(), data[1], data[2], data[0]));
  }
  const auto flags = checkpoint::numbers_of(comm, set, train::kSavedFlags, 3);
  return {.step = set.step(),
          .epoch = data[0],
          .batch = data[1],
          .batches = data[2],
          .epoch_open = flags[1] != 0};
}

/// Workers' memory is saved in one process's state, ranks' memory in several, so the two cannot be
/// converted.
void require_same_workers(comm::Communicator& comm, const checkpoint::SavedSet& set, int simulate) {
  const auto numbers = checkpoint::find_numbers(comm, set, train::kSavedWorkers, 1);
  const std::uint64_t saved = numbers ? numbers->front() : 0;
  if (saved == static_cast<std::uint64_t>(simulate)) return;
  const auto told = [](std::uint64_t workers) {
    return workers == 0 ? std::string("no --simulate") : fmt::format("--simulate {}", workers);
  };
  throw comm::AgreedError(
      Kind::usage,
      fmt::format("--resume: expected {}, as the checkpoint of step {} was saved, found {}; use "
                  "the same option, or start a new run with another --out",
                  told(saved), set.step(), told(static_cast<std::uint64_t>(simulate))));
}

const config::Fact* find(const config::Facts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &config::Fact::name);
  return found == facts.end() ? nullptr : &*found;
}

/// The files that differ, a few of them by name; "" if there are none.
std::string differing_files(const config::Facts& before, const config::Facts& now,
                            bool same_ranks) {
  constexpr std::size_t kMostNamed = 3;
  config::Facts expected, found;
  std::size_t others = 0;
  const auto compare = [&](const std::string& name) {
    const config::Fact *const old = find(before, name), *const own = find(now, name);
    const bool is_data = name.find("data.path/") != std::string::npos;
    const bool counts = is_data || (old != nullptr && own != nullptr &&
                                    (same_ranks || name != "synchronization.topology.file"));
    if (!counts || (old != nullptr && own != nullptr && *old == *own)) return;
    if (std::max(expected.size(), found.size()) == kMostNamed) {
      ++others;
      return;
    }
    if (old != nullptr) expected.push_back(*old);
    if (own != nullptr) found.push_back(*own);
  };
  for (const config::Fact& fact : now) compare(fact.name);
  for (const config::Fact& fact : before)
    if (find(now, fact.name) == nullptr) compare(fact.name);
  return config::differences(expected, found) +
         (others == 0 ? "" : fmt::format(" and {} others", others));
}

/// A run keeps the memory that it began with. "auto" of a checkpoint has no error feedback for what
/// only gains by it: older versions meant that, and this one saves "ef14" (setup::settled_config).
void keep_memory(config::RunConfig& before, config::RunConfig& now) {
  using config::ErrorFeedback;
  ErrorFeedback& was = before.synchronization.error_feedback;
  ErrorFeedback& is = now.synchronization.error_feedback;
  if (was == ErrorFeedback::automatic && config::gains_by_feedback(before))
    was = ErrorFeedback::none;
  const bool either = was == ErrorFeedback::none || was == ErrorFeedback::ef14;
  if (is == ErrorFeedback::automatic && either && config::gains_by_feedback(now)) is = was;
}

/// Returns whether the state has parts that belong to fusion buckets: measured seconds of each, or
/// differences of fragments, which are made of buckets.
bool saves_by_bucket(const config::RunConfig& config) {
  return config.compressor.adapts_grades() || config.synchronization.fragments > 1;
}

/// Returns true if a run may go on with another value of the key.
bool may_differ(const config::Field& field, const config::RunConfig& before,
                const config::RunConfig& now, bool same_ranks) {
  if (field.key == "synchronization.bucket_mib" && saves_by_bucket(before)) return false;
  if (field.on_resume != config::OnResume::may_change_with_ranks)
    return field.on_resume == config::OnResume::may_change;
  // Ranks that have taken a step in common have no state of rounds of a quorum, nor the reverse.
  const bool begins_or_ends_quorum =
      field.key == "synchronization.quorum" &&
      before.synchronization.is_asynchronous() != now.synchronization.is_asynchronous();
  return !same_ranks && !begins_or_ends_quorum;
}

}  // namespace

std::string settle_resumed_config(const config::RunConfig& saved, const std::string& collective,
                                  bool same_ranks, config::RunConfig& now) {
  config::RunConfig before = saved;
  if (const auto* const row = collective::CollectiveRow::all().find(collective)) {
    before.synchronization.collective = *row;
    if (now.synchronization.collective == collective::kAutomatic)
      now.synchronization.collective = *row;
  }
  keep_memory(before, now);
  std::string changed, refused;
  for (const config::Field& field : config::fields()) {
    const std::string found = field.read(now).dump(), expected = field.read(before).dump();
    if (found == expected) continue;
    std::string& list = may_differ(field, before, now, same_ranks) ? changed : refused;
    list +=
        fmt::format("{}{} {} instead of {}", list.empty() ? "" : ", ", field.key, found, expected);
  }
  if (!refused.empty()) {
    fail(Kind::usage,
         "--resume: expected the config of the checkpoint where it changes what the saved state "
         "means, found {}; restore these values, or start a new run with another --out",
         refused);
  }
  if (changed.empty()) return "";
  std::string note = "the run continues with " + changed;
  if (before.model.precision != now.model.precision)
    note += "; the checkpoint's parameters are float32, as with any model.precision";
  return note;
}

std::optional<Resume> find_resume(const config::RunConfig& config, const std::string& run_folder,
                                  int simulate, comm::Communicator& comm) {
  checkpoint::Findings findings;
  const auto numbers = comm.allgather(checkpoint::number_in_memory(run_folder));
  const std::uint64_t number = *std::ranges::max_element(numbers);  // the newest, as it is a time
  std::optional<checkpoint::StateFolder> memory;
  if (number != 0) memory = checkpoint::memory_folder(number);
  auto set = checkpoint::open_newest(comm, checkpoint::StateFolder(run_folder),
                                     memory ? &*memory : nullptr, findings);
  if (!set) return {};
  require_same_workers(comm, *set, simulate);
  const std::string saved = checkpoint::text_of(comm, *set, train::kSavedConfig);
  const std::string collective = checkpoint::text_of(comm, *set, train::kSavedCollective);
  const setup::SavedPosition position = position_in(comm, *set);
  Resume resume{.resumption = {std::move(*set), std::move(findings)},
                .position = position,
                .config = config,
                .note = {},
                .memory_number = number};
  comm.agree_after([&] {
    resume.note = settle_resumed_config(config::parse_config(saved, "the checkpoint's config", {}),
                                        collective, resume.resumption.set.ranks() == comm.size(),
                                        resume.config);
  });
  return resume;
}

void require_saved_data(const checkpoint::SavedSet& set, const config::Facts& now,
                        comm::Communicator& comm) {
  const std::string saved = checkpoint::text_of(comm, set, train::kSavedData);
  comm.agree_after([&] {
    const std::string origin = fmt::format("what the checkpoint of step {} has", set.step());
    const std::string found = config::differences(config::unpacked(saved, origin, Kind::data), now);
    if (!found.empty())
      fail(Kind::data,
           "--resume: expected the data that the checkpoint of step {} was trained on, found {}; "
           "set data.path to the same files, or start a new run with another --out",
           set.step(), found);
  });
}

void require_saved_files(Resume& resume, const config::Facts& now, comm::Communicator& comm) {
  const checkpoint::SavedSet& set = resume.resumption.set;
  const auto saved = checkpoint::find_text(comm, set, train::kSavedFiles);
  if (!saved) return;  // of an older version
  comm.agree_after([&] {
    const std::string origin = fmt::format("what the checkpoint of step {} has", set.step());
    const config::Facts before = config::unpacked(*saved, origin, Kind::data);
    const bool same_ranks = set.ranks() == comm.size();
    const std::string found = differing_files(before, now, same_ranks);
    if (!found.empty())
      fail(Kind::data,
           "--resume: expected the files that the checkpoint of step {} was trained with, found "
           "{}; put them back, or start a new run with another --out",
           set.step(), found);
  });
  std::string pieces;
  for (const config::Fact& fact : now)
    if (setup::is_of_pieces(fact)) pieces += (pieces.empty() ? "" : ", ") + fact.name;
  if (pieces.empty()) return;
  resume.note += (resume.note.empty() ? "" : "; ") + ("compared in pieces alone: " + pieces);
}

}  // namespace eqt::app
