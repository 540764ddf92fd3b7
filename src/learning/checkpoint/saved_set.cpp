// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saved_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace eqt::checkpoint {
namespace {

// Longer files are sent in several messages, for no limit of MPI is below this.
constexpr std::size_t kMaxBytesAtOnce = std::size_t{256} << 20;

/// All files of one set have these values in common.
struct SetName {
  StepId step = 0;
  int ranks = 1;
  std::uint64_t set = 0;

  auto operator<=>(const SetName&) const = default;
};

/// Ranks exchange these values about a file.
struct ListedFile {
  std::uint64_t step = 0, set = 0, bytes = 0, hash = 0;
  std::int32_t rank = 0, ranks = 1;
  std::uint32_t in_manifest = 0, in_memory = 0;
};
static_assert(std::has_unique_object_representations_v<ListedFile>);

struct Candidate {
  std::vector<std::vector<Rank>> holders;  // by old rank, ascending
  std::vector<FoundFile> files;            // in the same order, the files that some rank has
  bool in_manifest = false;
  bool in_memory = false;

  bool complete() const {
    return std::ranges::none_of(holders, [](const auto& ranks) { return ranks.empty(); });
  }
  /// Taken as it is, though files may be lost.
  bool survives_losses() const { return in_memory && in_manifest; }
  bool usable() const {
    return std::ranges::any_of(holders, [](const auto& ranks) { return !ranks.empty(); });
  }
};

ListedFile listed(const FoundFile& file) {
  return {.step = file.head.step,
          .set = file.head.set,
          .bytes = file.bytes,
          .hash = file.hash,
          .rank = file.head.rank,
          .ranks = file.head.ranks,
          .in_manifest = file.in_manifest ? 1u : 0u,
          .in_memory = file.in_memory ? 1u : 0u};
}

void require_possible(const ListedFile& file) {
  constexpr std::int32_t kMaxRanks = 1 << 20;
  if (file.rank >= 0 && file.rank < file.ranks && file.ranks <= kMaxRanks) return;
  fail(Kind::wire, "expected a list of checkpoints, found rank {} of {}", file.rank, file.ranks);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

bool SavedSet::lacks_any() const { return std::ranges::count(holders_, kLost) > 0; }

Rank SavedSet::any_old() const {
  const auto found =
      std::ranges::find_if(holders_, [](const Rank holder) { return holder != kLost; });
  EQT_CHECK(found != holders_.end(), "a set without files");
  return static_cast<Rank>(found - holders_.begin());
}

const StateFile* SavedSet::file(Rank old) const {
  const auto& open = open_.at(static_cast<std::size_t>(old));
  return open == nullptr ? nullptr : &*open->file;
}

class SetFinder {
 public:
  SetFinder(comm::Communicator& comm, const StateFolder& disk, const StateFolder* memory,
            Findings& findings)
      : comm_(comm), disk_(disk), memory_(memory), findings_(findings) {}

  std::optional<SavedSet> find() {
    gather();
    note_mixtures();
    for (auto& [name, candidate] : newest_first()) {
      if (auto set = try_open(name, *candidate, !candidate->survives_losses())) return set;
    }
    for (auto& [name, candidate] : newest_first()) {
      if (!candidate->in_manifest || candidate->in_memory) continue;
      if (auto set = try_open(name, *candidate, false)) return set;
    }
    if (damaged_ == 0) return {};
    throw comm::AgreedError(Kind::data,
                            fmt::format("{}: expected a complete checkpoint, found only damaged "
                                        "ones ({}); start again with --overwrite",
                                        disk_.path(), fmt::join(findings_.sentences, "; ")));
  }

 private:
  /// Every rank learns which files all ranks have.
  void gather() {
    std::vector<std::string> damaged;
    std::vector<FoundFile> mine;
    comm_.agree_after([&] {
      mine = disk_.list(damaged);
      if (memory_ == nullptr) return;
      for (FoundFile& file : memory_->list(damaged)) {
        file.in_memory = true;
        mine.push_back(file);
      }
    });
    std::vector<ListedFile> own;
    for (const FoundFile& file : mine) own.push_back(listed(file));
    const auto lists = comm_.allgather_lists<ListedFile>(own);
    for (Rank rank = 0; rank < comm_.size(); ++rank) {
      for (const ListedFile& file : lists[static_cast<std::size_t>(rank)]) {
        require_possible(file);
        take(rank, file);
      }
    }
    share_findings(fmt::format("{}", fmt::join(damaged, "\n")));
  }

  void take(Rank rank, const ListedFile& file) {
    Candidate& candidate = candidates_[{file.step, file.ranks, file.set}];
    const auto ranks = static_cast<std::size_t>(file.ranks);
    candidate.holders.resize(ranks);
    candidate.files.resize(ranks);
    const auto old = static_cast<std::size_t>(file.rank);
    candidate.holders[old].push_back(rank);
    candidate.files[old] = {
        .head = {.rank = file.rank, .ranks = file.ranks, .step = file.step, .set = file.set},
        .bytes = file.bytes,
        .hash = file.hash,
        .in_memory = file.in_memory != 0};
    candidate.in_manifest |= file.in_manifest != 0;
    candidate.in_memory |= file.in_memory != 0;
  }

  /// Reports files of one step that are no set, because they are from different saves.
  void note_mixtures() {
    std::map<std::tuple<StepId, int, bool>, std::vector<const Candidate*>> saves;
    for (const auto& [name, candidate] : candidates_)
      saves[{name.step, name.ranks, candidate.in_memory}].push_back(&candidate);
    for (const auto& [name, of_step] : saves) {
      if (of_step.size() < 2 || std::ranges::any_of(of_step, &Candidate::complete)) continue;
      std::string found;
      bool all = true;
      const auto& [step, ranks, in_memory] = name;
      for (std::size_t old = 0; old < static_cast<std::size_t>(ranks); ++old) {
        const auto save = std::ranges::find_if(
            of_step, [&](const Candidate* candidate) { return !candidate->holders[old].empty(); });
        if (!(all = save != of_step.end())) break;
        found += fmt::format("{}rank {}'s of save {:016x}", old == 0 ? "" : ", ", old,
                             (*save)->files[old].head.set);
      }
      if (!all) continue;
      findings_.sentences.push_back(fmt::format(
          "step {}: expected files of one save, found {}; put this run's files back", step, found));
      ++damaged_;
    }
  }

  /// Sends the error messages of all ranks to all ranks, each message once. @return their number
  void share_findings(const std::string& lines) {
    for (const std::string& text : comm_.allgather(lines)) {
      for (std::string& line : lines_of(text)) {
        if (std::ranges::count(findings_.sentences, line) > 0) continue;
        findings_.sentences.push_back(std::move(line));
        ++damaged_;
      }
    }
  }

  /// Newer sets come first, and of one step the complete ones, and of these those in memory.
  std::vector<std::pair<SetName, Candidate*>> newest_first() {
    std::vector<std::pair<SetName, Candidate*>> all;
    for (auto& [name, candidate] : candidates_) all.emplace_back(name, &candidate);
    std::ranges::reverse(all);
    std::ranges::stable_sort(all, std::ranges::greater(), [](const auto& named) {
      const auto& [name, candidate] = named;
      return std::tuple(name.step, candidate->complete(), candidate->in_memory);
    });
    return all;
  }

  const StateFolder& folder_of(const FoundFile& file) const {
    return file.in_memory ? *memory_ : disk_;
  }

  std::optional<SavedSet> try_open(const SetName& name, Candidate& candidate, bool complete) {
    while (complete ? candidate.complete() : candidate.usable()) {
      SavedSet set;
      set.head_ = {.rank = 0, .ranks = name.ranks, .step = name.step, .set = name.set};
      set.in_memory_ = candidate.in_memory;
      choose_holders(candidate, set);
      if (!read(candidate, set)) continue;  // with one file less
      if (name.ranks == comm_.size()) fetch(candidate, set);
      note_losses(set);
      note_others(set);
      return set;
    }
    return {};
  }

  /// The rank with the old rank's number, if it has the file; else the lowest rank that has it.
  void choose_holders(const Candidate& candidate, SavedSet& set) const {
    set.open_.resize(candidate.holders.size());
    for (std::size_t old = 0; old < candidate.holders.size(); ++old) {
      const std::vector<Rank>& having = candidate.holders[old];
      const Rank successor = static_cast<Rank>(old) % comm_.size();
      const bool has = std::ranges::binary_search(having, successor);
      set.holders_.push_back(has ? successor : having.empty() ? SavedSet::kLost : having.front());
    }
  }

  /// Each file is read by its holder. Returns false if one is damaged, which then counts as
  /// missing.
  bool read(Candidate& candidate, SavedSet& set) {
    std::vector<std::uint64_t> bad(candidate.holders.size());
    std::string sentences;
    for (std::size_t old = 0; old < bad.size(); ++old) {
      if (set.holders_[old] != comm_.rank()) continue;
      try {
        read_one(candidate, static_cast<Rank>(old), set);
      } catch (const Error& error) {
        bad[old] = 1;
        sentences += (sentences.empty() ? "" : "\n") + std::string(error.what());
      }
    }
    share_findings(sentences);
    bool good = true;
    for (std::size_t old = 0; old < bad.size(); ++old) {
      const auto all = comm_.allgather(bad[old]);
      if (std::ranges::count(all, 1u) == 0) continue;
      std::erase(candidate.holders[old], set.holders_[old]);
      good = false;
    }
    return good;
  }

  void read_one(const Candidate& candidate, Rank old, SavedSet& set) const {
    const FoundFile& found = candidate.files[static_cast<std::size_t>(old)];
    auto open = std::make_unique<SavedSet::Open>();
    open->bytes = folder_of(found).read(found);
    const std::string path = folder_of(found).file_path(set.step(), old, set.ranks());
    open->file.emplace(open->bytes, path);
    if (open->file->head() != found.head || open->file->hash() != found.hash)
      fail(Kind::data, "{}: expected the file that was there a moment ago, found another", path);
    set.open_[static_cast<std::size_t>(old)] = std::move(open);
  }

  /// Gives every rank its own file.
  void fetch(const Candidate& candidate, SavedSet& set) {
    for (Rank rank = 0; rank < comm_.size(); ++rank) {
      const Rank from = set.holder(rank);
      if (from == rank || from == SavedSet::kLost) continue;
      const auto place = static_cast<std::size_t>(rank);
      auto& open = set.open_[place];
      if (comm_.rank() == rank) {
        open = std::make_unique<SavedSet::Open>();
        open->bytes.resize(static_cast<std::size_t>(candidate.files[place].bytes));
        receive_whole(comm_, from, open->bytes, kFetch);
        const std::string origin = fmt::format("rank {}'s file from rank {}", rank, from);
        open->file.emplace(open->bytes, origin);
        if (open->file->hash() != candidate.files[place].hash)
          fail(Kind::data, "{}: expected the file that was there a moment ago, found another",
               origin);
      } else if (comm_.rank() == from) {
        send_whole(comm_, rank, open->bytes, kFetch);
        open.reset();
      }
      set.holders_[place] = rank;
      findings_.sentences.push_back(fmt::format(
          "rank {} has no file of step {} and got it from rank {}", rank, set.step(), from));
    }
  }

  static constexpr const char* kFetch = "a checkpoint's file for a rank that lacks it";

  void note_losses(const SavedSet& set) {
    for (Rank old = 0; old < set.ranks(); ++old) {
      if (set.holder(old) != SavedSet::kLost) continue;
      findings_.sentences.push_back(
          fmt::format("rank {}'s file of step {} is nowhere, so what that rank alone had is lost",
                      old, set.step()));
    }
  }

  void note_others(const SavedSet& taken) {
    for (const auto& [name, candidate] : candidates_) {
      OtherSets& others = candidate.in_memory ? findings_.in_memory : findings_.on_disk;
      const bool good = candidate.complete() || candidate.in_manifest;
      const bool is_elsewhere = candidate.in_memory != taken.in_memory();
      if (name.step > taken.step()) others.newer.push_back(name.step);
      if (name.step == taken.step() && is_elsewhere)
        (good ? others.older : others.newer).push_back(name.step);
      if (name.step < taken.step())
        (good ? others.older : others.older_fragments).push_back(name.step);
    }
  }

  comm::Communicator& comm_;
  const StateFolder& disk_;
  const StateFolder* const memory_;
  Findings& findings_;
  std::map<SetName, Candidate> candidates_;
  int damaged_ = 0;
};

std::optional<SavedSet> open_newest(comm::Communicator& comm, const StateFolder& disk,
                                    const StateFolder* memory, Findings& findings) {
  return SetFinder(comm, disk, memory, findings).find();
}

void send_whole(comm::Communicator& comm, Rank to, std::span<const std::byte> bytes,
                const char* what) {
  for (std::size_t at = 0; at < bytes.size(); at += kMaxBytesAtOnce) {
    const comm::Outgoing out{to, bytes.subspan(at, std::min(kMaxBytesAtOnce, bytes.size() - at))};
    comm.exchange({&out, 1}, {}, what);
  }
}

void receive_whole(comm::Communicator& comm, Rank from, std::span<std::byte> buffer,
                   const char* what) {
  for (std::size_t at = 0; at < buffer.size(); at += kMaxBytesAtOnce) {
    comm::Incoming in{from, buffer.subspan(at, std::min(kMaxBytesAtOnce, buffer.size() - at))};
    comm.exchange({}, {&in, 1}, what);
    if (in.bytes != in.buffer.size())
      fail(Kind::wire, "{}: expected {} bytes from rank {}, found {}", what, in.buffer.size(), from,
           in.bytes);
  }
}

}  // namespace eqt::checkpoint
