// SPDX-License-Identifier: Apache-2.0
// A bounded queue of recycled batches between one producer thread and the training step.
//
// Slots form a ring. `filled` and `released` only grow: the producer may fill slot filled % kSlots
// while filled - released < kSlots, the consumer holds slot (taken - 1) % kSlots until it asks for
// the next one. The two sides never use the same slot at the same time, so batches are filled
// without the lock.

#include "data/loader.hpp"

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace eqt::data {

struct BatchLoader::State {
  static constexpr std::size_t kSlots = 4;  // one in use, three ahead

  State(const Dataset& d, const Partition& p, const Options& o)
      : dataset(d), partition(p), options(o), thread([this] { produce(); }) {}

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  void produce() noexcept;
  void produce_epoch(std::uint64_t epoch, std::size_t first_batch);
  bool wait_for_slot();

  const Dataset& dataset;
  const Partition& partition;
  const Options options;

  std::array<Batch, kSlots> slots;
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::size_t filled = 0;    // [batches] since the start
  std::size_t taken = 0;     // [batches] handed out
  std::size_t released = 0;  // [batches] handed out and given back
  bool stopping = false;
  std::exception_ptr error;  // set once, by the producer, before it ends

  std::thread thread;  // last: started when all other members are constructed
};

/// False when the loader is being destroyed.
bool BatchLoader::State::wait_for_slot() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stopping || filled - released < kSlots; });
  return !stopping;
}

void BatchLoader::State::produce_epoch(std::uint64_t epoch, std::size_t first_batch) {
  const std::vector<std::size_t> order = partition.order(epoch);
  const std::size_t used = options.batches_per_epoch * options.batch_size;
  EQT_CHECK(order.size() >= used, "{} samples in epoch {}, {} needed", order.size(), epoch, used);
  std::optional<AugmentKey> augment;
  if (options.augment) augment = AugmentKey{options.seed, epoch};
  for (std::size_t i = first_batch; i < options.batches_per_epoch; ++i) {
    if (!wait_for_slot()) return;
    const auto indices = std::span(order).subspan(i * options.batch_size, options.batch_size);
    dataset.read(indices, augment, slots[filled % kSlots]);
    {
      const std::lock_guard lock(mutex);
      ++filled;
    }
    changed.notify_all();
  }
}

void BatchLoader::State::produce() noexcept {
  try {
    std::size_t first_batch = options.first_batch;
    for (std::uint64_t epoch = options.first_epoch; wait_for_slot(); ++epoch) {
      produce_epoch(epoch, first_batch);
      first_batch = 0;
    }
  } catch (...) {
    const std::lock_guard lock(mutex);
    error = std::current_exception();
  }
  changed.notify_all();
}

BatchLoader::BatchLoader(const Dataset& dataset, const Partition& partition,
                         const Options& options) {
  EQT_CHECK(options.batches_per_epoch >= 1, "an epoch needs at least one batch");
  EQT_CHECK(options.first_batch < options.batches_per_epoch, "first batch {} of {}",
            options.first_batch, options.batches_per_epoch);
  if (options.batch_size == 0 ||
      options.batch_size > partition.size() / options.batches_per_epoch) {
    fail(Kind::usage,
         "train.batch_size must be between 1 and {} so that {} batches fit into a rank's {} "
         "samples, found {}",
         partition.size() / options.batches_per_epoch, options.batches_per_epoch, partition.size(),
         options.batch_size);
  }
  state_ = std::make_unique<State>(dataset, partition, options);
}

BatchLoader::~BatchLoader() = default;

void BatchLoader::seek(std::uint64_t epoch, std::size_t batch) {
  Options options = state_->options;
  EQT_CHECK(batch < options.batches_per_epoch, "batch {} of {}", batch, options.batches_per_epoch);
  options.first_epoch = epoch;
  options.first_batch = batch;
  const Dataset& dataset = state_->dataset;
  const Partition& partition = state_->partition;
  state_.reset();  // its thread ends before another reads
  state_ = std::make_unique<State>(dataset, partition, options);
}

const Batch& BatchLoader::next() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.released < s.taken) {
    s.released = s.taken;
    s.changed.notify_all();
  }
  s.changed.wait(lock, [&s] { return s.filled > s.taken || s.error; });
  // Batches finished before the failure are valid.
  if (s.filled == s.taken) std::rethrow_exception(s.error);
  return s.slots[s.taken++ % State::kSlots];
}

}  // namespace eqt::data
