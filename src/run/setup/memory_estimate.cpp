// SPDX-License-Identifier: Apache-2.0
#include "setup/memory_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <variant>
#include <vector>

#include "codec/message.hpp"
#include "comm/host_facts.hpp"
#include "config/checks.hpp"
#include "core/address_space.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "data/catalogue.hpp"
#include "data/loader.hpp"
#include "setup/build_data.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_model.hpp"
#include "setup/look_at_data.hpp"
#include "sync/lazy_averaging.hpp"
#include "train/evaluator.hpp"

namespace eqt::setup {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);

// Memory of a run besides what is counted: shared segments and buffers of Open MPI, which grow with
// the ranks of the host, and the heap's own space between blocks.
constexpr std::uint64_t kMpiBytes = 24 * kMib, kMpiBytesPerRank = 4 * kMib;
constexpr double kHeapShare = 1.1;
constexpr std::uint64_t kOrderBytes = 2 * sizeof(int) + 2 * sizeof(std::size_t);  // of a sample

/// Batches of a loader.
std::uint64_t waiting_batches(const config::RunConfig& config) {
  return data::BatchLoader::kSlots + static_cast<std::uint64_t>(config.data.loader_threads) - 1;
}

/// [bytes] of this process in memory now; 0 where the system does not say.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/status");
  constexpr std::string_view kKey = "VmRSS:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    return std::strtoull(line.c_str() + kKey.size(), nullptr, 10) * 1024;
  }
  return 0;
}

model::NetworkMemory sizes_of(model::Replica& network) {
  return {.layout = network.layout(),
          .frozen_values = network.frozen().size(),
          .buffer_values = network.buffers().size()};
}

model::NetworkMemory measure_network(const config::RunConfig& config,
                                     const data::DatasetFacts& facts, bool on_device) {
  if (config.train.is_emulated()) {
    const auto network = model::make_idle_replica(published_network(config));
    return sizes_of(*network);
  }
  if (on_device) {  // where activations are
    const auto network =
        model::make_idle_replica(network_for(config, {facts.inputs, facts.target, facts.classes}));
    return sizes_of(*network);
  }
  return model::measure_network_memory(
      network_for(config, {facts.inputs, facts.target, facts.classes}), config.train.batch_size,
      train::test_batch_of(*config.task.kind, config.train.batch_size));
}

/// Returns the bytes of a sample in a batch.
std::uint64_t sample_bytes(const data::DatasetFacts& facts) {
  std::uint64_t bytes = facts.target ? facts.target->bytes() : 0;
  for (const data::ArraySpec& input : facts.inputs) bytes += input.bytes();
  return bytes;
}

/// The set, labels and order, and the batches that wait.
std::uint64_t data_set_bytes(const config::RunConfig& config, const data::DatasetFacts& facts) {
  return facts.memory_bytes + facts.train * kOrderBytes +
         (waiting_batches(config) * config.train.batch_size + train::kTestBatch) *
             sample_bytes(facts);
}

/// Flat buffers that a rank's memory of gradients has.
std::uint64_t buffers_of_memory(const config::RunConfig& config, int ranks,
                                const codec::Compressor& compressor) {
  if (make_memory(config, ranks, compressor, 0) == nullptr) return 0;
  if (compressor.properties().forgets_sent) return 2;
  if (config.synchronization.error_feedback == config::ErrorFeedback::ef21) return 3;
  return config::corrects_momentum(config, compressor.properties()) ? 2 : 1;
}

/// Values that algorithms keep beside model and momentum, in models.
std::uint64_t models_remembered(const config::RunConfig& config, int ranks,
                                const codec::Compressor& compressor) {
  const auto& s = config.synchronization;
  std::uint64_t models = compressor.properties().lossless ? 0 : 1;  // what variances are taken of
  if (config.compressor.adapts_grades()) models += 1;               // a gradient that is observed
  if (config.optimizer.momentum_kind == sync::MomentumKind::quasi_global) models += 2;
  models += s.algorithm->models_remembered;
  if (s.delay.count != 0u) models += 2;
  if (s.outer.momentum != 0) models += 1;
  if (s.event_threshold > 0) models += 1;
  if (s.order == sync::Order::combine_then_adapt) models += 2;
  if (!s.algorithm->mixes) models += buffers_of_memory(config, ranks, compressor);
  return models;
}

/// Rooms of all slots for what everyone may send, twice, and the float32 values that go with them.
std::uint64_t message_bytes(const config::RunConfig& config, int ranks, const Layout& layout,
                            const codec::Compressor& compressor) {
  if (ranks == 1 || !config.synchronization.algorithm->exchanges()) return 0;
  const auto n = static_cast<std::uint64_t>(ranks);
  if (config.synchronization.algorithm->lazy) {
    const auto bits = static_cast<unsigned>(config.synchronization.laq_bits);
    const sync::LazyDifference whole(total_count(layout), bits);
    return n * whole.frame_bytes() + kMpiBytes + n * kMpiBytesPerRank;
  }
  std::uint64_t message = 0, values = 0;
  for (const pipeline::FusionBucket& bucket : make_plan(config, layout, compressor)) {
    message =
        std::max<std::uint64_t>(message, codec::max_message_bytes(compressor, bucket.segments));
    values = std::max<std::uint64_t>(values, bucket.count() * kFloat);
  }
  return pipeline::kMaxSlots * (2 * n * message + 2 * values) + kMpiBytes + n * kMpiBytesPerRank;
}

/// Adds what each worker has for itself: residuals, what variances are taken of, messages or values
/// that wait for the others', and batches.
void add_workers(const config::RunConfig& config, int workers, std::uint64_t sample_bytes,
                 const codec::Compressor& compressor, MemoryEstimate& estimate) {
  const Layout& layout = estimate.layout;
  const auto n = static_cast<std::uint64_t>(workers);
  const std::uint64_t flat = total_count(layout) * kFloat;
  std::uint64_t messages = 0;
  for (const pipeline::FusionBucket& bucket : make_plan(config, layout, compressor))
    messages += codec::max_message_bytes(compressor, bucket.segments);
  estimate.memories *= n;
  estimate.messages = n * std::max(messages, flat);
  estimate.data_set += (n - 1) * waiting_batches(config) * config.train.batch_size * sample_bytes;
}

// The address space of MPI, the heap and a few threads of a rank that trains a small network,
// measured on x86-64 with 2 cores.
constexpr std::size_t kStartBytes = 640 * kMib;
constexpr int kOwnThreads = 4;  // MPI's, the watchdog's, the communication thread, the writer

// More threads than cores only wait for each other, far more of them for minutes in each step.
constexpr int kManyThreads = 16, kThreadsPerCore = 4;

/// Returns as many of `wanted` threads as the system grants at once, besides those that run
/// already.
int granted_threads(int wanted) {
  std::mutex mutex;
  std::condition_variable changed;
  bool all_started = false;
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) < wanted) {
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return all_started; });
      });
    }
  } catch (const std::system_error&) {
    // The system grants as many as there are.
  }
  {
    const std::lock_guard lock(mutex);
    all_started = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

void require_granted(int wanted) {
  const int granted = granted_threads(wanted);
  if (granted >= wanted) return;
  fail(Kind::usage,
       "host {}: expected the system to grant a rank {} threads, found {}; raise its limits of "
       "processes, addresses or the control group (ulimit -u, ulimit -v, pids.max), or lower "
       "threads_per_rank",
       comm::host_name(), wanted, granted);
}

void require_granted_addresses(std::uint64_t bytes) {
  if (has_addresses(bytes)) return;
  fail(Kind::usage,
       "host {}: expected room for {} MiB more in a rank's addresses, found less; raise the limit "
       "(ulimit -v, ulimit -d), or try a smaller train.batch_size or model.name",
       comm::host_name(), bytes / kMib);
}

}  // namespace

MemoryEstimate estimate_memory(const config::RunConfig& given, const data::DatasetFacts& facts,
                               int ranks, int threads, int simulate, bool on_device) {
  config::RunConfig config = given;
  if (const auto* const list = std::get_if<std::vector<std::uint64_t>>(&given.train.batch_sizes))
    config.train.batch_size = std::ranges::max(*list);
  model::set_threads(config.train.is_emulated() ? 1 : threads);  // as the run itself will
  const model::NetworkMemory network = measure_network(config, facts, on_device);
  const auto compressor = config.compressor.make();
  const std::uint64_t flat = total_count(network.layout) * kFloat;
  MemoryEstimate estimate;
  estimate.layout = network.layout;
  estimate.program = resident_bytes();
  estimate.frozen = network.frozen_values;
  const std::uint64_t constant = (network.frozen_values + network.buffer_values) * kFloat;
  estimate.model = 2 * flat + constant;
  const bool votes = compressor->properties().votes;  // their momentum is the algorithm's memory
  const bool moments = !config.optimizer.name->is_plain_without_momentum ||
                       (config.optimizer.momentum != 0 && !votes);
  estimate.optimizer = moments ? config.optimizer.name->moments * flat : 0;
  estimate.memories = models_remembered(config, ranks, *compressor) * flat;
  if (config.train.accumulate > 1) estimate.memories += flat;  // the sum of the batches' gradients
  if (config.output.dump_gradients > 0) estimate.memories += flat;
  if (config.train.ema > 0) estimate.memories += flat + network.buffer_values * kFloat;
  const auto& checkpoint = config.checkpoint;
  const std::uint64_t state = flat + constant + estimate.optimizer + estimate.memories;
  // A copy of the state, to be written; in the host's memory also one that is written, and the one
  // before.
  if (checkpoint.every_steps > 0 || checkpoint.every_epochs > 0) estimate.memories += state;
  if (checkpoint.memory_seconds > 0) estimate.memories += 3 * state;
  estimate.messages = message_bytes(config, ranks, network.layout, *compressor);
  if (config.train.is_emulated()) return estimate;
  // Weights are packed for writing when no step is under way: a copy of each tensor, and all bytes.
  const std::uint64_t working = std::max(network.gradient_bytes, network.evaluate_bytes);
  estimate.activations = static_cast<std::uint64_t>(
      kHeapShare * static_cast<double>(std::max(working, 2 * (flat + constant))));
  estimate.data_set = data_set_bytes(config, facts);
  if (simulate > 0) add_workers(config, simulate, sample_bytes(facts), *compressor, estimate);
  return estimate;
}

std::string memory_text(const MemoryEstimate& e, int ranks) {
  const auto mib = [](std::uint64_t bytes) { return (bytes + kMib - 1) / kMib; };
  return fmt::format(
      "memory: about {} MiB for each of {} ranks: program {}, model {}, optimizer {}, memories of "
      "the algorithm {}, messages {}, data set {}, activations {}",
      mib(e.total()), ranks, mib(e.program), mib(e.model), mib(e.optimizer), mib(e.memories),
      mib(e.messages), mib(e.data_set), mib(e.activations));
}

namespace {

/// A rank needs this much memory [bytes].
struct Need {
  std::uint64_t all = 0;   // in all
  std::uint64_t more = 0;  // beside what it holds now
};

/// Returns what each rank needs if its data set takes as much as rank 0's.
std::vector<Need> needs_of_ranks(const config::RunConfig& config, const data::DatasetFacts& facts,
                                 int ranks, int threads, int simulate, bool on_device) {
  std::vector<std::size_t> batches(static_cast<std::size_t>(ranks), config.train.batch_size);
  if (simulate == 0 && config.train.has_batches_by_rank()) batches = first_batches(config, ranks);
  std::map<std::size_t, Need> by_batch;
  std::vector<Need> needs;
  const std::uint64_t before = resident_bytes();
  for (const std::size_t batch : batches) {
    auto known = by_batch.find(batch);
    if (known == by_batch.end()) {
      config::RunConfig own = config;
      own.train.batch_size = batch;
      if (simulate == 0) own.train.batch_sizes = {};
      const MemoryEstimate estimate =
          estimate_memory(own, facts, ranks, threads, simulate, on_device);
      const Need need = {.all = estimate.total(),
                         .more = estimate.total() - std::min(before, estimate.program)};
      known = by_batch.emplace(batch, need).first;
    }
    needs.push_back(known->second);
  }
  return needs;
}

}  // namespace

std::uint64_t require_memory(const config::RunConfig& config, int simulate, bool on_device,
                             comm::Communicator& comm) {
  std::vector<Need> needs(static_cast<std::size_t>(comm.size()));
  data::DatasetFacts facts;
  if (!config.train.is_emulated()) facts = look_at_data(config, simulate, comm);
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    needs = needs_of_ranks(config, facts, comm.size(), threads_for(config, comm, simulate),
                           simulate, on_device);
  });
  comm.broadcast(std::as_writable_bytes(std::span(needs)), 0);
  if (has_local_data(config) && simulate == 0) {
    const auto sets = comm.allgather(facts.memory_bytes + facts.train * kOrderBytes);
    for (std::size_t rank = 0; rank < needs.size(); ++rank)
      for (std::uint64_t Need::*bytes : {&Need::all, &Need::more})
        needs[rank].*bytes += sets[rank] - std::min(sets[0], needs[rank].*bytes + sets[rank]);
  }
  comm.agree_after([&] {
    const auto& ranks = comm.ranks_on_this_host();
    if (ranks.front() != comm.rank()) return;
    Need here;
    for (const Rank rank : ranks) {
      here.all += needs[static_cast<std::size_t>(rank)].all;
      here.more += needs[static_cast<std::size_t>(rank)].more;
    }
    const std::uint64_t found = comm::memory().available_bytes;
    if (found == 0 || here.more <= found) return;
    fail(Kind::usage,
         "host {}: expected {} MiB of free memory for {} ranks, {} MiB each in all, found {} MiB; "
         "try a smaller train.batch_size, fewer ranks on this host or a smaller model.name",
         comm::host_name(), here.more / kMib, ranks.size(), here.all / ranks.size() / kMib,
         found / kMib);
  });
  require_addresses(needs[static_cast<std::size_t>(comm.rank())].more, comm);
  return needs[0].all;
}

void require_room_to_start() {
  require_granted_addresses(kStartBytes);
  require_granted(kOwnThreads);
}

void require_threads(int computing, int loading, comm::Communicator& comm) {
  comm.agree_after([&] {
    const int cores = comm::online_cores();
    const int most = std::max(kManyThreads, kThreadsPerCore * cores);
    if (computing > most) {
      fail(Kind::usage,
           "threads_per_rank: expected at most {} on host {} with {} cores, found {}; 0 takes as "
           "many as there are cores for each rank",
           most, comm::host_name(), cores, computing);
    }
    require_granted(computing + loading + kOwnThreads);
  });
}

void require_addresses(std::uint64_t bytes, comm::Communicator& comm) {
  comm.agree_after([&] { require_granted_addresses(bytes); });
}

}  // namespace eqt::setup
