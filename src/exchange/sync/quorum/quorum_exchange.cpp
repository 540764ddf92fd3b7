// SPDX-License-Identifier: Apache-2.0
// Notes of a quorum, the rule of its rounds, and the thread that exchanges them.

#include "sync/quorum/quorum_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "sync/edge_count.hpp"

namespace eqt::sync {
namespace {

constexpr RankNoteFormat kFormat = {.magic = 0x51545145,  // "EQTQ"
                                    .kinds = static_cast<std::uint8_t>(QuorumNoteKind::alive),
                                    .name = "note of a quorum",
                                    .expected_kinds = "a kind from 1 to 5"};

void expect_at_most(const char* what, std::uint64_t found) {
  if (found > kMostInRankNote)
    fail(Kind::wire, "note of a quorum: expected {} of at most {}, found {}", what, kMostInRankNote,
         found);
}

constexpr double kGraceShare = 0.25;  // of a round's seconds

// A rank says that it is alive so many times in the time after which it counts as silent.
constexpr double kAlivesPerTimeout = 8;

}  // namespace

std::size_t quorum_note_bytes(std::size_t ranks) { return rank_note_bytes(ranks); }

void write_quorum_note(const QuorumNote& note, std::span<std::byte> bytes) {
  write_rank_note(kFormat, static_cast<std::uint8_t>(note.kind), note.round, note.counts, bytes);
}

void read_quorum_note(std::span<const std::byte> bytes, std::size_t ranks, QuorumNote& note) {
  RankNote read{.of_ranks = std::move(note.counts)};
  read_rank_note(kFormat, bytes, ranks, read);
  note.kind = static_cast<QuorumNoteKind>(read.kind);
  note.round = read.number;
  note.counts = std::move(read.of_ranks);
  expect_at_most("a round", note.round);
  for (const std::uint64_t count : note.counts) expect_at_most("a count", count);
  if (note.kind == QuorumNoteKind::close &&
      std::ranges::count(note.counts, 0u) == std::ssize(note.counts))
    fail(Kind::wire, "note of a quorum: expected members of round {}, found none", note.round);
}

void QuorumCoordinator::open(double now) {
  std::ranges::fill(counts_, 0u);
  began_ = now;
  quorum_since_.reset();
  last_seconds_.reset();
}

void QuorumCoordinator::ready(Rank rank, std::uint64_t count, double now) {
  EQT_CHECK(count > 0, "rank {} is ready without a step", rank);
  counts_.at(static_cast<std::size_t>(rank)) = count;
  if (!quorum_since_ && ready_count() >= rule_.quorum) quorum_since_ = now;
}

std::optional<QuorumCoordinator::Closing> QuorumCoordinator::close(double now) {
  if (!quorum_since_) return {};
  bool waits = false, must_wait = false;
  for (std::size_t r = 0; r < counts_.size(); ++r) {
    waits |= counts_[r] == 0;
    must_wait |= counts_[r] == 0 && missed_[r] >= kMostMissedRounds;
  }
  if (must_wait || (waits && now < *quorum_since_ + grace())) return {};
  std::vector<bool> members;
  for (const std::uint64_t count : counts_) members.push_back(count > 0);
  return take(members, now);
}

std::optional<QuorumCoordinator::Closing> QuorumCoordinator::close_as(
    std::span<const double> counts, double now) {
  std::vector<bool> members;
  for (std::size_t r = 0; r < counts_.size(); ++r) {
    members.push_back(counts[r] > 0);
    if (!members[r]) continue;
    if (counts_[r] == 0) return {};
    if (static_cast<double>(counts_[r]) != counts[r])
      fail(Kind::data,
           "replay of a quorum: expected {} steps of rank {} in a round, found {}; the run differs "
           "from the one that is replayed",
           counts[r], r, counts_[r]);
  }
  return take(members, now);
}

std::size_t QuorumCoordinator::ready_count() const {
  return counts_.size() - static_cast<std::size_t>(std::ranges::count(counts_, 0u));
}

double QuorumCoordinator::grace() const {
  if (rule_.grace_seconds) return *rule_.grace_seconds;
  return kGraceShare * last_seconds_.value_or(*quorum_since_ - began_);
}

QuorumCoordinator::Closing QuorumCoordinator::take(const std::vector<bool>& members, double now) {
  Closing closing{.counts = counts_, .waited_seconds = now - quorum_since_.value_or(now)};
  for (std::size_t r = 0; r < members.size(); ++r) {
    missed_[r] = members[r] ? 0 : missed_[r] + 1;
    if (members[r])
      counts_[r] = 0;
    else
      closing.counts[r] = 0;
  }
  last_seconds_ = now - began_;
  began_ = now;
  quorum_since_.reset();
  if (ready_count() >= rule_.quorum) quorum_since_ = now;
  return closing;
}

QuorumExchange::QuorumExchange(const QuorumExchangeParts& parts,
                               const QuorumExchangeOptions& options)
    : p_(parts),
      options_(options),
      coordinator_(options.rule),
      links_(parts.comm.rank() == 0 ? static_cast<std::size_t>(parts.comm.size() - 1) : 1) {
  const std::size_t bytes = quorum_note_bytes(options.rule.ranks);
  for (std::size_t i = 0; i < links_.size(); ++i)
    links_[i].notes.connect(p_.comm.rank() == 0 ? static_cast<Rank>(i + 1) : 0, bytes,
                            "a note of a quorum");
}

QuorumExchange::~QuorumExchange() {
  const bool open =
      std::ranges::any_of(links_, [](const Link& link) { return link.notes.is_under_way(); });
  if (open) p_.comm.transfers().abandon();
}

void QuorumExchange::run() {
  open();
  if (p_.comm.rank() == 0) {
    lead();
  } else {
    follow();
  }
  if (!p_.progress.failed()) finish();
}

void QuorumExchange::open() {
  coordinator_.open(now());
  bytes_before_ = p_.comm.byte_count();
  since_alive_.restart();
  over_ = left_ = false;
  for (Link& link : links_) {
    link.left = false;
    link.since_heard.restart();
    link.notes.receive(p_.comm, true);
  }
}

/// Rank 0. A rank that has left sends no more notes, so that no message is left over at the end.
void QuorumExchange::lead() {
  const auto all_left = [this] {
    return std::ranges::all_of(links_, [](const Link& link) { return link.left; });
  };
  bool ending = false;
  while (!p_.progress.failed()) {
    bool moved = stops() || p_.comm.transfers().progress();
    moved |= hear();
    if (const auto count = p_.progress.take_ready()) coordinator_.ready(0, *count, now());
    ending |= p_.progress.epoch_complete() || p_.progress.closed() ||
              std::ranges::any_of(links_, [](const Link& link) { return link.left; });
    if (!ending && close_round()) continue;
    if (ending && all_left()) {
      send_all(QuorumNoteKind::end);
      return;
    }
    if (moved) continue;
    look_after_links();
    p_.progress.wait_briefly();
  }
}

void QuorumExchange::follow() {
  Link& leader = links_[0];
  while (!p_.progress.failed()) {
    bool moved = stops() || p_.comm.transfers().progress();
    moved |= hear();
    if (over_) return;
    if (!left_) {
      if (const auto count = p_.progress.take_ready()) {
        std::vector<std::uint64_t> counts(options_.rule.ranks);
        counts[static_cast<std::size_t>(p_.comm.rank())] = *count;
        send(leader, QuorumNoteKind::ready, 0, counts);
      }
      if (p_.progress.epoch_complete() || p_.progress.closed()) {
        send(leader, QuorumNoteKind::leave);
        left_ = true;
      }
    }
    if (moved) continue;
    look_after_links();
    p_.progress.wait_briefly();
  }
}

/// @return false, so that it can stand in a condition
bool QuorumExchange::stops() {
  if (p_.comm.stop_asked()) p_.progress.note_stop();
  return false;
}

/// Reads all notes that have arrived, each link's first.
bool QuorumExchange::hear() {
  bool any = false;
  for (Link& link : links_) {
    if (link.left || over_ || !link.notes.has_received()) continue;
    hear(link);
    any = true;
  }
  return any;
}

void QuorumExchange::hear(Link& link) {
  const Rank peer = link.notes.peer();
  try {
    read_quorum_note(link.notes.note_in(), options_.rule.ranks, note_);
    const bool of_leader = note_.kind == QuorumNoteKind::close || note_.kind == QuorumNoteKind::end;
    if (note_.kind != QuorumNoteKind::alive && of_leader == (p_.comm.rank() == 0))
      fail(Kind::wire, "note of a quorum: found kind {}, which goes the other way",
           static_cast<int>(note_.kind));
    if (note_.kind == QuorumNoteKind::close && note_.round != p_.progress.rounds() + 1)
      fail(Kind::wire, "note of a quorum: expected round {}, found {}", p_.progress.rounds() + 1,
           note_.round);
    if (note_.kind == QuorumNoteKind::ready && note_.counts[static_cast<std::size_t>(peer)] == 0)
      fail(Kind::wire, "note of a quorum: expected a count of the sender, found 0");
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("from rank {}: {}", peer, error.what()));
  }
  link.since_heard.restart();
  link.left = note_.kind == QuorumNoteKind::leave;
  over_ = note_.kind == QuorumNoteKind::end;
  if (!link.left && !over_) link.notes.receive(p_.comm, true);
  if (note_.kind == QuorumNoteKind::ready)
    coordinator_.ready(peer, note_.counts[static_cast<std::size_t>(peer)], now());
  if (note_.kind == QuorumNoteKind::close) {
    const std::vector<std::uint64_t> counts = note_.counts;
    run_round(note_.round, counts);
  }
}

bool QuorumExchange::close_round() {
  const std::uint64_t round = p_.progress.rounds() + 1;
  const bool replays = options_.replay != nullptr && options_.replay->has(round);
  auto closing = replays ? coordinator_.close_as(options_.replay->at(round).counts, now())
                         : coordinator_.close(now());
  if (!closing) return false;
  send_all(QuorumNoteKind::close, round, closing->counts);
  closed_.push_back({closing->counts, closing->waited_seconds});
  run_round(round, closing->counts);
  return true;
}

void QuorumExchange::run_round(std::uint64_t round, std::span<const std::uint64_t> counts) {
  const bool member = counts[static_cast<std::size_t>(p_.comm.rank())] > 0;
  if (member) {
    p_.progress.copy_own(p_.difference);
  } else {
    std::ranges::fill(p_.difference, 0.0f);
  }
  SyncResult result = average(round, counts);
  // The trainer did not wait for these messages; while it does, it counts that itself.
  result.traffic.transfer_seconds = 0;
  count_bytes(bytes_before_, p_.comm.byte_count(), result.traffic);
  bytes_before_ = p_.comm.byte_count();
  p_.progress.spent(result.traffic, result.quantization_variance);
  p_.progress.apply(round, counts, p_.difference);
  if (options_.on_round) options_.on_round(round, p_.progress.common());
  // Nobody was heard while this round was exchanged.
  for (Link& link : links_) link.since_heard.restart();
}

SyncResult QuorumExchange::average(std::uint64_t round, std::span<const std::uint64_t> counts) {
  p_.senders.set(counts);
  if (p_.memory != nullptr)
    p_.memory->set_member(counts[static_cast<std::size_t>(p_.comm.rank())] > 0);
  p_.mean.begin(round - 1, 0);
  SyncResult result = p_.mean.finish();
  result.traffic.sent_bytes = result.traffic.received_bytes = result.traffic.messages = 0;
  return result;
}

SyncResult QuorumExchange::average_all(std::uint64_t round, std::span<const std::uint64_t> counts) {
  bytes_before_ = p_.comm.byte_count();
  SyncResult result = average(round, counts);
  count_bytes(bytes_before_, p_.comm.byte_count(), result.traffic);
  return result;
}

void QuorumExchange::send(Link& link, QuorumNoteKind kind, std::uint64_t round,
                          std::span<const std::uint64_t> counts) {
  link.notes.wait_sent(p_.comm);
  QuorumNote note{.kind = kind, .round = round, .counts = {counts.begin(), counts.end()}};
  note.counts.resize(options_.rule.ranks);
  write_quorum_note(note, link.notes.note_out());
  link.notes.send(p_.comm);
}

void QuorumExchange::send_all(QuorumNoteKind kind, std::uint64_t round,
                              std::span<const std::uint64_t> counts) {
  for (Link& link : links_) send(link, kind, round, counts);
}

/// Says that this rank is alive, and ends the job when another one has been silent for too long.
void QuorumExchange::look_after_links() {
  const double limit = options_.timeout_seconds;
  if (limit <= 0) return;
  for (const Link& link : links_) {
    if (link.left || link.since_heard.seconds() < limit) continue;
    fail(Kind::timeout,
         "expected a note of rank {} within {} s, found nothing; it is stalled or unreachable "
         "(synchronization.timeout_seconds sets the limit)",
         link.notes.peer(), limit);
  }
  if (since_alive_.seconds() < limit / kAlivesPerTimeout) return;
  since_alive_.restart();
  if (!left_) send_all(QuorumNoteKind::alive);
}

/// After the last note: what was sent leaves this rank, and a rank that others have stopped for
/// learns why.
void QuorumExchange::finish() {
  for (Link& link : links_) link.notes.wait_sent(p_.comm);
  while (!p_.progress.epoch_complete() && !p_.progress.failed() && !p_.comm.stop_asked())
    p_.progress.wait_briefly();
  Traffic rest;
  count_bytes(bytes_before_, p_.comm.byte_count(), rest);
  p_.progress.spent(rest, {});
  p_.progress.end();
}

std::vector<QuorumExchange::Closed> QuorumExchange::take_closed() {
  return std::exchange(closed_, {});
}

void QuorumExchange::visit_state(StateVisitor& visitor) {
  visitor.numbers("rounds missed", coordinator_.missed(), Across::fresh);
  visit_in(visitor, "mean", p_.mean);
}

}  // namespace eqt::sync
