// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/pairwise_exchange.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {
PairwiseExchange::PairwiseExchange(comm::Communicator& comm, PairwiseAveraging& pairs,
                                   std::span<const pipeline::FusionBucket> plan,
                                   PairwiseProgress& progress,
                                   const PairwiseExchangeOptions& options)
    : comm_(comm),
      pairs_(pairs),
      progress_(progress),
      options_(options),
      engine_(comm, plan),
      links_(options.role.partners.size()),
      edges_(comm),
      known_(static_cast<std::size_t>(comm.size())) {
  const std::size_t bytes = note_bytes(static_cast<std::size_t>(comm.size()));
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    link.partner = options.role.partners[i];
    link.notes.connect(link.partner.rank, bytes, "a note of a pair");
  }
}

PairwiseExchange::~PairwiseExchange() {
  const bool open =
      std::ranges::any_of(links_, [](const Link& link) { return link.notes.is_under_way(); });
  if (open) comm_.transfers().abandon();
}

void PairwiseExchange::run() {
  edges_.open();
  if (options_.role.active) {
    ask_in_turn();
  } else {
    answer_all();
  }
  progress_.spent(bytes_since());
}

void PairwiseExchange::visit_state(StateVisitor& visitor) {
  std::vector<std::uint64_t> counts = {turn_, exchanges_};
  for (const Link& link : links_) counts.push_back(link.exchanges);
  visitor.numbers("exchanges", counts, Across::fresh);
  turn_ = static_cast<std::size_t>(counts[0]);
  exchanges_ = counts[1];
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].exchanges = counts[i + 2];
  visit_in(visitor, "edges", edges_);
}

void PairwiseExchange::ask_in_turn() {
  while (progress_.wait_for_ask()) {
    ask(links_[turn_++ % links_.size()]);
    comm_.stop_asked();  // tells others and receives what they know
  }
  if (progress_.failed()) return;
  comm_.stop_asked();
  for (Link& link : links_) start_sending(link, NoteKind::leave);
  for (Link& link : links_) link.notes.wait_sent(comm_);
}

void PairwiseExchange::ask(Link& link) {
  inject_fault();
  link.notes.receive(comm_, false);
  start_sending(link, NoteKind::ask);
  average(link, comm_.rank());
  link.notes.wait_received(comm_);
  read(link);
  if (note_.kind != NoteKind::answer)
    fail(Kind::wire, "expected the answer of rank {}, found a note of kind {}", link.partner.rank,
         static_cast<int>(note_.kind));
  ++link.exchanges;
}

void PairwiseExchange::answer_all() {
  for (Link& link : links_) {
    link.left = false;
    link.since_heard.restart();
    link.notes.receive(comm_, true);
  }
  while (!progress_.failed() && !(all_left() && progress_.closed())) {
    comm_.stop_asked();  // tells others and receives what they know
    const bool moved = comm_.transfers().progress();
    if (answer_asked() || moved) continue;
    check_silence();
    progress_.wait_briefly();
  }
}

/// Answers all ranks whose note has arrived, each once.
bool PairwiseExchange::answer_asked() {
  bool any = false;
  for (Link& link : links_) {
    if (link.left || !link.notes.has_received()) continue;
    handle_note(link);
    any = true;
  }
  return any;
}

void PairwiseExchange::handle_note(Link& link) {
  read(link);
  link.since_heard.restart();
  if (note_.kind == NoteKind::leave) {
    link.left = true;
    progress_.partner_left();
    return;
  }
  if (note_.kind != NoteKind::ask)
    fail(Kind::wire, "expected a question of rank {}, found a note of kind {}", link.partner.rank,
         static_cast<int>(note_.kind));
  inject_fault();
  start_sending(link, NoteKind::answer);
  average(link, link.partner.rank);
  ++link.exchanges;
  link.since_heard.restart();
  link.notes.receive(comm_, true);
}

void PairwiseExchange::average(Link& link, Rank asking) {
  const bool measure = options_.lossy && exchanges_++ % kVarianceEvery == 0;
  pairs_.prepare(link.partner.rank, link.exchanges, asking, measure);
  engine_.run(pairs_);
  link.notes.wait_sent(comm_);
  Traffic traffic = pairs_.result().traffic;
  traffic += bytes_since();
  progress_.exchanged(traffic, pairs_.result().message);
}

void PairwiseExchange::start_sending(Link& link, NoteKind kind) {
  progress_.steps(known_);
  write_note(kind, link.exchanges, known_, link.notes.note_out());
  link.notes.send(comm_);
}

void PairwiseExchange::read(Link& link) {
  try {
    read_note(link.notes.note_in(), static_cast<std::size_t>(comm_.size()), note_);
    if (note_.exchange != link.exchanges)
      fail(Kind::wire, "note of a pair: expected exchange {}, found {}", link.exchanges,
           note_.exchange);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("from rank {}: {}", link.partner.rank, error.what()));
  }
  progress_.merge(note_.steps);
}

Traffic PairwiseExchange::bytes_since() {
  Traffic traffic;
  edges_.close(traffic);
  edges_.open();
  return traffic;
}

/// Each of a partner's steps and exchanges has a deadline, and it asks its partners in turn.
void PairwiseExchange::check_silence() const {
  if (options_.timeout_seconds <= 0) return;
  for (const Link& link : links_) {
    const double limit = options_.timeout_seconds * static_cast<double>(link.partner.turns);
    if (link.left || link.since_heard.seconds() < limit) continue;
    fail(Kind::timeout,
         "expected rank {} to ask for an average within {} s, found nothing; it is stalled or "
         "unreachable (synchronization.timeout_seconds sets the limit, once for each of its {} "
         "partners)",
         link.partner.rank, limit, link.partner.turns);
  }
}

bool PairwiseExchange::all_left() const {
  return std::ranges::all_of(links_, [](const Link& link) { return link.left; });
}

void PairwiseExchange::inject_fault() {
  if (!options_.fault || !options_.fault->bucket) return;
  const StepId step = std::min(progress_.own_steps(), options_.fault->step);
  options_.fault->inject_in_bucket(comm_.rank(), step, *options_.fault->bucket);
}

}  // namespace eqt::sync
