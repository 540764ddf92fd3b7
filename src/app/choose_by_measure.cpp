#include "app/choose_by_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "app/bench/measure_codec.hpp"
#include "app/bench/measure_collective.hpp"
#include "app/build_run.hpp"
#include "app/build_synchronization.hpp"
#include "app/config/checks.hpp"
#include "app/values_at_hand.hpp"
#include "codec/message.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "comm/link_probe.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "pipeline/engine.hpp"

namespace eqt::app {
namespace {

using collective::Candidate;
using collective::CostCard;
using collective::Machine;
using pipeline::FusionBucket;
using Plan = std::vector<FusionBucket>;

constexpr double kLinkSeconds = 0.4;       // for probing all links
constexpr double kTrialSeconds = 0.8;      // for all trials together
constexpr double kTrialRunSeconds = 0.06;  // predicted, for one run of one candidate
constexpr double kNear = 2;                // times the best prediction: what is tried
// Different collectives give different bits, and a run must repeat: noise must not choose. Figures
// of lossy ones come from a coarse() machine; float32 is tried, and leaves the static choice only
// for what is much faster.
constexpr double kTie = 0.10, kMuchFaster = 0.5;
constexpr int kMostQuantisations = 2;

/// One way to run this plan.
struct Contender {
  std::string name;
  CostCard card;
  std::size_t slots = 1;
  double predicted = 0;         // [seconds] for the whole plan
  double coarse = 0;            // the same on the coarse machine
  std::optional<double> tried;  // predicted, corrected by the trial

  double seconds() const { return tried.value_or(predicted); }
};

RunConfig with_collective(const RunConfig& config, const std::string& name) {
  RunConfig other = config;
  other.synchronization.collective = name;
  return other;
}

/// Normal values, the same few again and again: neither lengths nor speeds depend on that.
std::vector<float> trial_values(std::size_t count) {
  constexpr std::size_t kDrawn = 1 << 17;
  const FlatBuffer drawn = bench_gradient(std::min(count, kDrawn));
  std::vector<float> values(count);
  for (std::size_t begin = 0; begin < count; begin += kDrawn) {
    std::copy_n(drawn.span().begin(), std::min(kDrawn, count - begin),
                values.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return values;
}

/// The collective, or null if it refuses this config. Constructors do not communicate.
std::unique_ptr<collective::Collective> try_to_make(const RunConfig& config,
                                                    comm::Communicator& comm, const Run& run,
                                                    const Plan& plan) {
  try {
    check_combinations(config, "auto");
    return make_collective(config, comm, run, plan);
  } catch (const Error& error) {
    if (error.kind() != Kind::usage) throw;
    return nullptr;
  }
}

/// What another one does with fewer quantisations and no more bytes is not worth a measurement: two
/// ranks send each other as much by allgather as by scatter-reduce, which quantises twice.
void drop_dominated(std::vector<Contender>& all) {
  std::vector<Contender> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CostCard& card = all[i].card;
    const bool dominated = std::ranges::any_of(all, [&](const Contender& other) {
      return other.card.quantisations < card.quantisations &&
             other.card.sent_bytes <= card.sent_bytes;
    });
    // Twins cannot be told apart: of two ranks, recursive doubling is allgather.
    const bool twin = std::any_of(kept.begin(), kept.end(),
                                  [&](const Contender& other) { return other.card == card; });
    if (!dominated && !twin) kept.push_back(all[i]);
  }
  all = std::move(kept);
}

/// In the order of preference: the static choice, then fewer quantisations and rounds first.
std::vector<Contender> contenders(const RunConfig& config, comm::Communicator& comm, const Run& run,
                                  const Plan& plan, int hosts) {
  const collective::Volume volume =
      collective::volume_of(*run.compressor, plan, comm.size(), hosts);
  const bool lossless = run.compressor->properties().lossless;
  std::vector<Contender> found;
  for (const Choice& choice : config_choices("synchronization.collective")) {
    if (choice.name == "auto") continue;
    // On one host it compresses nothing; with a rank on each it is what it consists of.
    if (choice.name == "hierarchical" && (hosts <= 1 || hosts == comm.size())) continue;
    const auto card = collective::cost_card(choice.name, volume);
    if (!card || (!lossless && card->quantisations > kMostQuantisations)) continue;
    const auto made = try_to_make(with_collective(config, choice.name), comm, run, plan);
    if (made != nullptr)
      found.push_back({.name = choice.name, .card = *card, .slots = made->slots(), .tried = {}});
  }
  drop_dominated(found);
  const auto first = collective::choose_collective(*run.compressor, plan.front().end, comm.size());
  std::ranges::stable_sort(found, {}, [&](const Contender& c) {
    return std::tuple(c.name != first, c.card.quantisations, c.card.rounds);
  });
  return found;
}

/// Seconds per value that this rank needs to encode and to decode, from the plan's longest bucket.
void measure_codec_speed(const Run& run, const Plan& plan, std::span<const float> values,
                         Machine& machine) {
  constexpr double kEnoughSeconds = 0.03;
  constexpr int kMostPasses = 4;
  const FusionBucket& bucket = *std::ranges::max_element(plan, {}, &FusionBucket::count);
  std::vector<std::byte> frame(codec::max_message_bytes(*run.compressor, bucket.segments));
  std::vector<float> scales;
  for (const codec::Segment& s : bucket.segments) {
    scales.push_back(run.compressor->local_scale(values.subspan(s.begin, s.count)));
  }
  if (!run.compressor->properties().shared_scale) scales.clear();
  std::vector<float> sum(values.size());
  Workspace workspace;
  const Stopwatch all;
  double encode = 1e9, decode = 1e9;
  for (int pass = 0; pass < kMostPasses && (pass == 0 || all.seconds() < kEnoughSeconds); ++pass) {
    const WorkStopwatch encoding;
    const std::size_t bytes = codec::encode_message(*run.compressor, bucket.segments, values,
                                                    {.run_seed = 1,
                                                     .index = bucket.index,
                                                     .density = {},
                                                     .scales = scales,
                                                     .own_scales = scales},
                                                    workspace, frame);
    encode = std::min(encode, encoding.seconds());
    const WorkStopwatch decoding;
    codec::decode_message_add(*run.compressor, bucket.segments, std::span(frame).first(bytes), 0,
                              bucket.index, 1.0f, workspace, sum);
    decode = std::min(decode, decoding.seconds());
  }
  const auto count = static_cast<double>(bucket.count());
  machine.encode_seconds = encode / count;
  machine.decode_seconds = decode / count;
}

void measure_addition(std::span<const float> values, Machine& machine) {
  constexpr std::size_t kMost = 1 << 18;
  const auto from = values.first(std::min(values.size(), kMost));
  std::vector<float> sum(from.begin(), from.end());
  const WorkStopwatch watch;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += from[i];
  const double seconds = watch.seconds();
  // The result is looked at, so that the loop is not left out.
  machine.add_seconds = sum.front() > 1e30f ? 0 : seconds / static_cast<double>(sum.size());
}

/// The slowest link of each kind.
void measure_links(const RunConfig& config, comm::Communicator& comm, Machine& machine) {
  const auto first = comm::first_ranks_on_hosts(comm);
  machine.hosts = static_cast<int>(std::set(first.begin(), first.end()).size());
  const auto take = [](Machine::Wire& wire, const comm::LinkSpeed& speed) {
    wire.latency_seconds = std::max(wire.latency_seconds, speed.latency_seconds);
    if (wire.bytes_per_second == 0 || speed.duplex_bytes_per_second < wire.bytes_per_second)
      wire.bytes_per_second = speed.duplex_bytes_per_second;
  };
  const auto links = comm::probe_links(
      comm,
      {.budget_seconds = kLinkSeconds, .timeout_seconds = config.synchronization.timeout_seconds});
  for (const comm::Link& link : links) {
    Machine::Wire& wire = link.same_host ? machine.within_host : machine.between_hosts;
    take(wire, link.forward);
    take(wire, link.backward);
  }
}

Machine measure_machine(const RunConfig& config, comm::Communicator& comm, const Run& run,
                        const Plan& plan, std::span<const float> values) {
  Machine machine;
  machine.ranks = comm.size();
  comm.agree_after([&] {
    measure_codec_speed(run, plan, values, machine);
    measure_addition(values, machine);
  });
  std::array<double, 3> seconds = {machine.encode_seconds, machine.decode_seconds,
                                   machine.add_seconds};
  comm.allreduce_max(std::span(seconds));
  machine.encode_seconds = seconds[0];
  machine.decode_seconds = seconds[1];
  machine.add_seconds = seconds[2];
  measure_links(config, comm, machine);
  return machine;
}

/// How many of the plan's first pieces every contender is expected to average in one trial run.
std::size_t trial_pieces(std::span<const Contender> all, std::size_t pieces) {
  double slowest = 0;
  for (const Contender& c : all) slowest = std::max(slowest, c.predicted);
  const double share = slowest > 0 ? kTrialRunSeconds / slowest : 1;
  const auto affordable = static_cast<std::size_t>(share * static_cast<double>(pieces));
  return std::clamp<std::size_t>(affordable, std::min<std::size_t>(pieces, 4), pieces);
}

/// Runs contenders on the first pieces, in turn, and corrects their predictions.
class Trial {
 public:
  Trial(const RunConfig& config, comm::Communicator& comm, const Run& run, const Plan& plan,
        std::size_t pieces, std::span<const float> values)
      : config_(config),
        comm_(comm),
        run_(run),
        plan_(plan),
        values_(values.begin(), values.end()) {
    first_ = std::span(plan).first(pieces);
  }

  void correct(std::span<Contender*> contenders) {
    std::vector<std::unique_ptr<collective::Collective>> made;
    comm_.agree_after([&] {
      for (const Contender* c : contenders)
        made.push_back(make_collective(with_collective(config_, c->name), comm_, run_, plan_));
    });
    std::vector<double> best(contenders.size(), 1e9);
    constexpr int kMostRounds = 8;
    double spent = 0;
    for (int round = 0; round < kMostRounds && spent < kTrialSeconds; ++round) {
      std::vector<double> seconds(contenders.size());
      for (std::size_t i = 0; i < made.size(); ++i) seconds[i] = timed(*made[i], round);
      comm_.allreduce_max(std::span(seconds));
      for (std::size_t i = 0; i < seconds.size(); ++i) {
        spent += seconds[i];
        // The first round allocates; it counts only where there is no time for another.
        best[i] = round == 1 ? seconds[i] : std::min(best[i], seconds[i]);
      }
    }
    const double share = share_of_values();
    for (std::size_t i = 0; i < contenders.size(); ++i) contenders[i]->tried = best[i] / share;
  }

 private:
  double timed(collective::Collective& collective, int round) {
    pipeline::Engine engine(comm_, first_);
    ValuesAtHand means(collective);
    means.prepare({.run_seed = 1, .step = static_cast<StepId>(round), .density = {}}, values_);
    comm_.blocking_barrier();
    const Stopwatch watch;
    engine.run(means);
    return watch.seconds();
  }

  double share_of_values() const {
    std::size_t count = 0;
    for (const FusionBucket& piece : first_) count += piece.count();
    return static_cast<double>(count) / static_cast<double>(plan_.front().end);
  }

  const RunConfig& config_;
  comm::Communicator& comm_;
  const Run& run_;
  const Plan& plan_;
  std::span<const FusionBucket> first_;
  std::vector<float> values_;
};

std::string note_on(std::span<const Contender> all, std::size_t chosen, double seconds) {
  std::string others;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == chosen) continue;
    others += fmt::format("{}{} {:.3g} ms", others.empty() ? "" : ", ", all[i].name,
                          1e3 * all[i].seconds());
  }
  return fmt::format(
      "auto takes the collective {}, expected to need {:.3g} ms a step ({}); "
      "measured in {:.1f} s",
      all[chosen].name, 1e3 * all[chosen].seconds(), others, seconds);
}

/// Of lossless contenders the trial decides; of lossy ones the wire between hosts, as far as coarse
/// figures tell. Within one host no wire is slow, and the static choice stands.
std::size_t choose(std::span<const Contender> all, bool lossless, int hosts) {
  if (!lossless && hosts <= 1) return 0;
  const bool any_tried = std::ranges::any_of(all, [](const Contender& c) { return !!c.tried; });
  std::vector<Candidate> candidates;
  for (const Contender& c : all) {
    // A prediction does not beat a measurement.
    const bool counts = !any_tried || c.tried;
    const double seconds = lossless ? c.seconds() : c.coarse;
    candidates.push_back({c.name, counts ? seconds : std::numeric_limits<double>::infinity()});
  }
  return collective::choose_first_fast(candidates, lossless ? kMuchFaster : kTie);
}

/// Runs float32's contenders: of those that come near the best, and of what MPI does.
void try_out(const RunConfig& config, comm::Communicator& comm, const Run& run, const Plan& plan,
             std::span<const float> values, std::span<Contender> found) {
  const double best = std::ranges::min(found, {}, &Contender::predicted).predicted;
  std::vector<Contender*> near;
  for (Contender& c : found) {
    // Nothing that MPI is expected to do keeps `auto` from looking at what it does.
    if (c.predicted <= kNear * best || c.name == "mpi-allreduce") near.push_back(&c);
  }
  if (near.size() < 2) return;
  Trial(config, comm, run, plan, trial_pieces(found, plan.size()), values).correct(near);
}

}  // namespace

std::optional<MeasuredChoice> choose_by_measure(const RunConfig& config, comm::Communicator& comm,
                                                const Run& run, const Plan& plan) {
  if (config.synchronization.collective != "auto" || comm.size() == 1) return {};
  const Stopwatch all;
  std::vector<Contender> found;
  const int hosts = equal_hosts(comm);
  comm.agree_after([&] { found = contenders(config, comm, run, plan, hosts); });
  if (found.size() < 2) return {};

  const std::vector<float> values = trial_values(plan.front().end);
  const Machine machine = measure_machine(config, comm, run, plan, values);
  const Machine rounded = collective::coarse(machine);
  for (Contender& c : found) {
    c.predicted = collective::predict_seconds(c.card, machine, plan.size(), c.slots);
    c.coarse = collective::predict_seconds(c.card, rounded, plan.size(), c.slots);
  }
  const bool lossless = run.compressor->properties().lossless;
  if (lossless) try_out(config, comm, run, plan, values, found);
  std::uint64_t chosen = choose(found, lossless, machine.hosts);
  comm.broadcast(std::as_writable_bytes(std::span(&chosen, 1)), 0);
  if (chosen >= found.size())
    fail(Kind::wire, "auto: expected rank 0's choice among {} collectives, found {}", found.size(),
         chosen);
  const Contender& winner = found[chosen];
  return MeasuredChoice{winner.name, winner.seconds(), note_on(found, chosen, all.seconds())};
}

}  // namespace eqt::app
