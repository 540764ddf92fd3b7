// SPDX-License-Identifier: Apache-2.0
// Averaging in pairs at each rank's own pace: who asks, the notes that go with the models, the
// state that a rank's trainer and its communication thread share, and that thread's exchanges.

#include "sync/gossip/asynchronous_gossip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/traffic.hpp"
#include "pipeline/engine.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/edge_count.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/own_pace.hpp"
#include "topology/connectivity.hpp"

namespace eqt::sync {
namespace {

constexpr const char* kWorks = "an undirected ring, torus or mesh with even sides, or a star";

/// The side of the active ranks.
int active_side(const topology::Topology& topology) {
  const topology::MixingMatrix& graph = topology.at(0);
  if (!topology.is_static() || !topology::is_undirected(graph)) {
    fail(Kind::usage,
         "averaging in pairs: expected an undirected graph that does not change, found the {}; "
         "take {}",
         topology.name(), kWorks);
  }
  const topology::Bipartition sides = topology::bipartition_of(graph);
  if (sides.odd_edge) {
    fail(Kind::usage,
         "averaging in pairs: expected a bipartite graph, so that active ranks only ask passive "
         "ones, found an odd cycle through ranks {} and {} in the {} of {} ranks; take an even "
         "number of ranks for a ring, or a star or mesh of any",
         sides.odd_edge->first, sides.odd_edge->second, topology.name(), topology.ranks());
  }
  const auto odd = std::ranges::count(sides.side, 1);
  return 2 * odd >= std::ssize(sides.side) ? 1 : 0;
}

constexpr RankNoteFormat kFormat = {.magic = 0x50545145,  // "EQTP"
                                    .kinds = static_cast<std::uint8_t>(NoteKind::leave),
                                    .name = "note of a pair",
                                    .expected_kinds = "kind 1, 2 or 3"};

// A passive rank may take this many steps without an exchange. That suffices for a rank that is
// eight times as fast as its partners; with more, on a slow network, it would train alone.
constexpr StepId kMaxStepsAlone = 16;

/// Steps of all ranks as far as this rank knows, requested and completed exchanges, and their
/// costs. Thread-safe. Calls do not wait unless their comment says so.
class PairwiseProgress : public SharedProgress {
 public:
  /// The costs and errors of the exchanges since the last call of take().
  struct Taken {
    Traffic traffic;
    std::optional<double> variance;
  };
  /// This rank's exchanges of an epoch.
  struct Exchanges {
    std::uint64_t count = 0;
    StepId longest = 0;  // most steps of this rank without an exchange
  };

  PairwiseProgress(Rank rank, std::size_t ranks, bool active, bool alone);

  // The trainer's side.
  void open_epoch();
  /// An active rank requests an exchange, and waits until the previous one is done. A passive one
  /// waits if it has taken many steps since its last exchange, so that others get its changes
  /// first. Neither waits when the epoch is known to end, or after an error.
  void begin_step();
  void end_step();
  std::uint64_t steps_of_all() const;
  Taken take();
  Exchanges exchanges() const;
  /// Sets the steps of all ranks after an epoch.
  void set_steps(std::span<const StepId> steps);

  // The communication thread's side.
  /// Waits for a request of the trainer (true) or the end of its requests (false).
  bool wait_for_ask();
  void merge(std::span<const StepId> steps);
  /// Copies the known steps of every rank. @param steps one per rank
  void steps(std::span<StepId> steps) const;
  StepId own_steps() const;
  /// Records a completed exchange.
  void exchanged(const Traffic& traffic, const MessageError& message);
  /// Adds costs outside of exchanges.
  void spent(const Traffic& traffic);
  /// A partner has finished: the epoch ends, and its note had the steps of all ranks.
  void partner_left();

 private:
  bool goes_on() const { return failed_ || ending_; }

  const std::size_t rank_;
  const bool active_, alone_;
  // Guarded by mutex_.
  std::vector<StepId> steps_;  // completed, by rank
  StepId last_exchange_ = 0;   // own steps at that time
  bool asked_ = false;
  bool ending_ = false;
  Exchanges exchanges_;
  Taken taken_;
};

PairwiseProgress::PairwiseProgress(Rank rank, std::size_t ranks, bool active, bool alone)
    : rank_(static_cast<std::size_t>(rank)), active_(active), alone_(alone), steps_(ranks) {}

void PairwiseProgress::open_epoch() {
  const std::lock_guard lock(mutex_);
  closed_ = ending_ = asked_ = false;
  exchanges_ = {};
  last_exchange_ = steps_[rank_];
}

void PairwiseProgress::begin_step() {
  if (alone_) return;
  const Stopwatch wait;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    if (goes_on()) return true;
    return active_ ? !asked_ : steps_[rank_] - last_exchange_ < kMaxStepsAlone;
  });
  taken_.traffic.transfer_seconds += wait.seconds();
  if (!active_) return;
  asked_ = true;
  changed_.notify_all();
}

void PairwiseProgress::end_step() {
  const std::lock_guard lock(mutex_);
  ++steps_[rank_];
}

std::uint64_t PairwiseProgress::steps_of_all() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(steps_.begin(), steps_.end(), std::uint64_t{0});
}

PairwiseProgress::Taken PairwiseProgress::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(taken_, {});
}

PairwiseProgress::Exchanges PairwiseProgress::exchanges() const {
  const std::lock_guard lock(mutex_);
  return {exchanges_.count, std::max(exchanges_.longest, steps_[rank_] - last_exchange_)};
}

void PairwiseProgress::set_steps(std::span<const StepId> steps) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(steps, steps_.begin());
}

bool PairwiseProgress::wait_for_ask() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failed_ || asked_ || closed_; });
  return asked_ && !failed_;
}

void PairwiseProgress::merge(std::span<const StepId> steps) {
  const std::lock_guard lock(mutex_);
  for (std::size_t r = 0; r < steps_.size(); ++r) {
    if (r != rank_) steps_[r] = std::max(steps_[r], steps[r]);
  }
}

void PairwiseProgress::steps(std::span<StepId> steps) const {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(steps_, steps.begin());
}

StepId PairwiseProgress::own_steps() const {
  const std::lock_guard lock(mutex_);
  return steps_[rank_];
}

void PairwiseProgress::exchanged(const Traffic& traffic, const MessageError& message) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  ++exchanges_.count;
  exchanges_.longest = std::max(exchanges_.longest, steps_[rank_] - last_exchange_);
  last_exchange_ = steps_[rank_];
  taken_.traffic += traffic;
  if (message.exact > 0) taken_.variance = message.error / message.exact;
  changed_.notify_all();
}

void PairwiseProgress::spent(const Traffic& traffic) {
  const std::lock_guard lock(mutex_);
  taken_.traffic += traffic;
}

void PairwiseProgress::partner_left() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  changed_.notify_all();
}

/// Asks or answers for an epoch. All of the rank's MPI calls are made here during run().
class PairwiseExchange {
 public:
  PairwiseExchange(comm::Communicator& comm, PairwiseAveraging& pairs,
                   std::span<const pipeline::FusionBucket> plan, PairwiseProgress& progress,
                   const AsynchronousGossipOptions& options);
  ~PairwiseExchange();
  PairwiseExchange(const PairwiseExchange&) = delete;
  PairwiseExchange& operator=(const PairwiseExchange&) = delete;

  /// Active: asks each partner in turn, once per request of the trainer, and at the end tells all
  /// partners that it has finished. Passive: answers until its trainer and all its partners have
  /// finished the epoch.
  /// @throws Error{timeout} naming a partner that has not asked in time, Error{wire}
  void run();
  /// Bytes by receiver, up to the last run.
  std::span<const std::uint64_t> sent_bytes_by_peer() const { return edges_.sent(); }
  /// @pre run() is not running
  void visit_state(StateVisitor& visitor);

 private:
  struct Link {
    Partner partner;
    std::uint64_t exchanges = 0;  // of this pair so far
    bool left = false;            // has finished asking in this epoch
    Stopwatch since_heard{};      // since it last asked
    NoteLink notes{};
  };

  void ask_in_turn();
  void answer_all();
  void ask(Link& link);
  bool answer_asked();
  void handle_note(Link& link);
  void average(Link& link, Rank asking);
  void start_sending(Link& link, NoteKind kind);
  void read(Link& link);
  Traffic bytes_since();
  void check_silence() const;
  bool all_left() const;
  void inject_fault();

  comm::Communicator& comm_;
  PairwiseAveraging& pairs_;
  PairwiseProgress& progress_;
  const AsynchronousGossipOptions options_;
  pipeline::Engine engine_;
  std::vector<Link> links_;  // never resized: exchanges point into it
  std::size_t turn_ = 0;
  std::uint64_t exchanges_ = 0;
  EdgeCount edges_;            // open during run(); bytes since the progress was last updated
  PairNote note_;              // the last read
  std::vector<StepId> known_;  // the last sent
};

PairwiseExchange::PairwiseExchange(comm::Communicator& comm, PairwiseAveraging& pairs,
                                   std::span<const pipeline::FusionBucket> plan,
                                   PairwiseProgress& progress,
                                   const AsynchronousGossipOptions& options)
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

class AsynchronousGossip final : public Synchronizer, private OwnPace {
 public:
  AsynchronousGossip(const AsynchronousGossipParts& parts, const AsynchronousGossipOptions& options)
      : p_(parts),
        progress_(parts.comm.rank(), static_cast<std::size_t>(parts.comm.size()),
                  options.role.active, options.role.partners.empty()),
        exchange_(parts.comm, parts.pairs, parts.plan, progress_, options),
        thread_(parts.comm, progress_, exchange_, options.timeout_seconds) {}

  void begin(StepId step, std::uint64_t) override {
    thread_.stop_watching();
    if (!thread_.runs()) {
      p_.model.reset(p_.parameters);
      progress_.open_epoch();
      thread_.start();
    }
    progress_.begin_step();
    thread_.rethrow();
    step_ = step;
    thread_.watch(step_);
  }

  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }

  SyncResult after_update(float) override {
    p_.model.synchronize(p_.parameters);
    progress_.end_step();
    thread_.rethrow();
    thread_.watch(++step_);  // what happens before begin() is part of the step
    return result();
  }

  std::span<const std::uint64_t> sent_bytes_by_peer() const override {
    return exchange_.sent_bytes_by_peer();
  }

  OwnPace* own_pace() override { return this; }

  /// Another number of ranks starts as if all had taken the mean rank's steps, with new pairs.
  void visit_state(StateVisitor& visitor) override {
    std::vector<StepId> steps(static_cast<std::size_t>(p_.comm.size()));
    progress_.steps(steps);
    std::uint64_t mean = progress_.steps_of_all() / steps.size();
    visitor.number("mean steps", mean, Across::same);
    if (visitor.restores()) steps.assign(steps.size(), mean);
    visitor.numbers("steps", steps, Across::fresh);
    if (visitor.restores()) progress_.set_steps(steps);
    visit_in(visitor, "pairs", exchange_);
  }

 private:
  std::uint64_t steps_of_all_ranks() override { return progress_.steps_of_all(); }
  StepId own_steps() override { return progress_.own_steps(); }

  SyncResult end_epoch() override {
    thread_.finish();
    p_.model.synchronize(p_.parameters);
    SyncResult last = result();
    std::string note = agree_on_steps();
    if (p_.comm.rank() == 0) last.note = std::move(note);
    return last;
  }

  SyncResult result() {
    PairwiseProgress::Taken taken = progress_.take();
    return {taken.traffic, taken.variance, {}};
  }

  /// Called when no rank sends any more: makes the counts equal on all ranks. @return a note about
  /// the epoch
  std::string agree_on_steps() {
    const std::vector<StepId> steps = p_.comm.allgather(progress_.own_steps());
    progress_.set_steps(steps);
    const PairwiseProgress::Exchanges own = progress_.exchanges();
    std::array<double, 1> both = {static_cast<double>(own.count)};
    std::array<double, 1> longest = {static_cast<double>(own.longest)};
    p_.comm.allreduce_sum(both);
    p_.comm.allreduce_max(longest);
    const auto [least, most] = std::ranges::minmax_element(steps);
    return fmt::format(
        "{:.0f} exchanges of pairs; at most {:.0f} steps of a rank between two of its own; steps "
        "so far from {} (rank {}) to {} (rank {})",
        both[0] / 2, longest[0], *least, least - steps.begin(), *most, most - steps.begin());
  }

  const AsynchronousGossipParts p_;
  PairwiseProgress progress_;
  PairwiseExchange exchange_;
  StepId step_ = 0;
  EpochThread<PairwiseExchange> thread_;  // last: it uses all of the above
};

}  // namespace

PairRole assign_role(const topology::Topology& topology, Rank rank) {
  const int active = active_side(topology);
  const topology::MixingMatrix& graph = topology.at(0);
  const auto sides = topology::bipartition_of(graph).side;
  const auto neighbours = graph.out_neighbours(rank);
  PairRole role{.active = !neighbours.empty() && sides[static_cast<std::size_t>(rank)] == active,
                .partners = {}};
  for (const topology::Neighbour& neighbour : neighbours) {
    const Rank asking = role.active ? rank : neighbour.rank;
    role.partners.push_back({neighbour.rank, graph.out_neighbours(asking).size()});
  }
  const auto above = std::ranges::find_if(
      role.partners, [rank](const Partner& partner) { return partner.rank > rank; });
  std::rotate(role.partners.begin(), above, role.partners.end());
  return role;
}

std::size_t note_bytes(std::size_t ranks) { return rank_note_bytes(ranks); }

void write_note(NoteKind kind, std::uint64_t exchange, std::span<const StepId> steps,
                std::span<std::byte> bytes) {
  write_rank_note(kFormat, static_cast<std::uint8_t>(kind), exchange, steps, bytes);
}

void read_note(std::span<const std::byte> bytes, std::size_t ranks, PairNote& note) {
  RankNote read{.of_ranks = std::move(note.steps)};
  read_rank_note(kFormat, bytes, ranks, read);
  note.kind = static_cast<NoteKind>(read.kind);
  note.exchange = read.number;
  note.steps = std::move(read.of_ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    if (note.steps[r] > kMostInRankNote)
      fail(Kind::wire, "note of a pair: expected at most {} steps of rank {}, found {}",
           kMostInRankNote, r, note.steps[r]);
}

std::unique_ptr<Synchronizer> make_asynchronous_gossip(const AsynchronousGossipParts& parts,
                                                       const AsynchronousGossipOptions& options) {
  return std::make_unique<AsynchronousGossip>(parts, options);
}

namespace {

constexpr std::string_view kAdPsgdKeys[] = {"consensus_step"};

struct PairsOwned {
  std::vector<pipeline::FusionBucket> buckets;
  std::unique_ptr<SharedModel> model;
  std::unique_ptr<PairwiseAveraging> pairs;
};

BuiltAlgorithm make(AlgorithmParts parts, const AlgorithmSettings& settings) {
  PairRole role;
  parts.comm.agree_after([&] { role = assign_role(*parts.topology, parts.comm.rank()); });
  const ChosenStep step = choose_step(parts, settings);
  const auto owned = std::make_shared<PairsOwned>();
  owned->buckets = std::move(parts.buckets);
  parts.comm.agree_after([&] {
    owned->model = std::make_unique<SharedModel>(owned->buckets, parts.parameters.size());
    owned->pairs = std::make_unique<PairwiseAveraging>(
        PairwiseParts{parts.comm, parts.compressor, owned->buckets, *owned->model},
        PairwiseOptions{.run_seed = settings.run_seed, .consensus_step = step.consensus_step});
  });
  BuiltAlgorithm built{.owned = owned, .note = step.note};
  if (parts.compressor.adaptive_levels() != nullptr) {
    if (!built.note.empty()) built.note += "; ";
    built.note += "levels stay as they start, for ranks share no step in which they could adapt";
  }
  built.synchronizer = make_asynchronous_gossip({.comm = parts.comm,
                                                 .pairs = *owned->pairs,
                                                 .model = *owned->model,
                                                 .plan = owned->buckets,
                                                 .parameters = parts.parameters},
                                                {.role = role,
                                                 .lossy = !parts.compressor.properties().lossless,
                                                 .timeout_seconds = settings.timeout_seconds,
                                                 .fault = parts.fault});
  return built;
}

}  // namespace

const AlgorithmRow kAdPsgd = {
    .name = "ad-psgd",
    .about =
        "asynchronous: pairs average while all train at their own pace; needs a bipartite graph",
    .keys = kAdPsgdKeys,
    .mixes = true,
    .asynchronous = true,
    .models_remembered = 3,
    .make = make};

}  // namespace eqt::sync
