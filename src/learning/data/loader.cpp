// SPDX-License-Identifier: Apache-2.0
// A bounded queue of recycled batches between producer threads and the training step.
//
// Batches are numbered from the start. A producer claims the next number, fills slot number %
// slots.size() and marks it as filled; it may do so while number - released < slots.size(). The
// consumer takes batches in the order of their numbers and holds the last one until it asks for the
// next. The two sides never use the same slot at the same time, so batches are filled without the
// lock.

#include "data/loader.hpp"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace eqt::data {
namespace {

using Order = std::shared_ptr<const std::vector<std::size_t>>;

void require_possible(const BatchLoader::Options& options) {
  EQT_CHECK(options.first_batch < options.batches_per_epoch, "batch {} of {}", options.first_batch,
            options.batches_per_epoch);
  if (!options.share) return;
  EQT_CHECK(options.share->begin < options.share->end && options.share->end <= options.batch_size,
            "samples {} to {} of batches of {}", options.share->begin, options.share->end,
            options.batch_size);
}

/// A task is a batch that a producer has to prepare.
struct Task {
  std::size_t number = 0;
  std::uint64_t epoch = 0;
  std::size_t batch = 0;  // of the epoch
  Order order;            // of the epoch
};

}  // namespace

struct BatchLoader::State {
  State(const Dataset& d, const Partition& p, const Options& o)
      : dataset(d),
        partition(p),
        options(o),
        slots(kSlots + static_cast<std::size_t>(o.threads) - 1),
        filled(slots.size(), false),
        epoch(o.first_epoch),
        batch(o.first_batch) {
    try {
      for (int i = 0; i < options.threads; ++i) threads.emplace_back([this] { produce(); });
    } catch (...) {  // no thread more: those that run must end before the members do
      stop();
      throw;
    }
  }
  ~State() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  void produce() noexcept;
  bool claim(Task& task);
  bool wait_for_slot();
  void fill(const Task& task);
  void set_error(std::size_t number);

  const Dataset& dataset;
  const Partition& partition;
  const Options options;

  std::vector<Batch> slots;
  std::mutex mutex;  // guards all up to `error`
  std::condition_variable changed;
  std::vector<bool> filled;  // by slot: holds a batch that nobody has taken
  std::size_t taken = 0;     // [batches] handed out
  std::size_t released = 0;  // [batches] handed out and given back
  bool stopping = false;
  std::exception_ptr error;       // of the first batch that failed
  std::size_t failed_number = 0;  // that batch

  std::mutex claims;        // guards all below; locked before `mutex`
  std::size_t claimed = 0;  // [batches]
  std::uint64_t epoch;      // of the next batch
  std::size_t batch;        // of the next batch
  Order order;              // of `order_epoch`
  std::uint64_t order_epoch = 0;

  std::vector<std::thread> threads;
};

/// False when the loader is being destroyed, or a batch has failed.
bool BatchLoader::State::wait_for_slot() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stopping || error || claimed - released < slots.size(); });
  return !stopping && !error;
}

bool BatchLoader::State::claim(Task& task) {
  const std::lock_guard lock(claims);
  if (!wait_for_slot()) return false;
  task.number = claimed;
  if (!order || order_epoch != epoch) {
    const std::size_t used = options.batches_per_epoch * options.batch_size;
    order = std::make_shared<const std::vector<std::size_t>>(partition.order_for(epoch, used));
    order_epoch = epoch;
    EQT_CHECK(order->size() >= used, "{} samples in epoch {}, {} needed", order->size(), epoch,
              used);
  }
  task.epoch = epoch;
  task.batch = batch;
  task.order = order;
  ++claimed;
  if (++batch == options.batches_per_epoch) {
    batch = 0;
    ++epoch;
  }
  return true;
}

void BatchLoader::State::fill(const Task& task) {
  std::optional<AugmentKey> augment;
  if (options.augment) augment = AugmentKey{options.seed, task.epoch};
  const Range share = options.share.value_or(Range{0, options.batch_size});
  const auto indices = std::span(*task.order)
                           .subspan(task.batch * options.batch_size, options.batch_size)
                           .subspan(share.begin, share.end - share.begin);
  const std::size_t slot = task.number % slots.size();
  dataset.read(indices, augment, slots[slot]);
  {
    const std::lock_guard lock(mutex);
    filled[slot] = true;
  }
  changed.notify_all();
}

/// Notes the exception that is being handled.
void BatchLoader::State::set_error(std::size_t number) {
  const std::lock_guard lock(mutex);
  if (error && failed_number <= number) return;
  error = std::current_exception();
  failed_number = number;
}

void BatchLoader::State::produce() noexcept {
  Task task;
  try {
    while (claim(task)) fill(task);
  } catch (...) {
    set_error(task.number);
  }
  changed.notify_all();
}

BatchLoader::BatchLoader(const Dataset& dataset, const Partition& partition,
                         const Options& options) {
  EQT_CHECK(options.batches_per_epoch >= 1, "an epoch needs at least one batch");
  EQT_CHECK(options.threads >= 1, "{} threads", options.threads);
  require_possible(options);
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
  options.first_epoch = epoch;
  options.first_batch = batch;
  restart(options);
}

void BatchLoader::seek(std::uint64_t epoch, std::size_t batch, const Deal& deal) {
  Options options = state_->options;
  options.first_epoch = epoch;
  options.first_batch = batch;
  options.batch_size = deal.batch_size;
  options.share = deal.share;
  restart(options);
}

void BatchLoader::restart(const Options& options) {
  require_possible(options);
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
  const std::size_t slot = s.taken % s.slots.size();
  // Batches before the one that failed are valid, and will be filled.
  s.changed.wait(lock, [&] { return s.filled[slot] || (s.error && s.failed_number <= s.taken); });
  if (!s.filled[slot]) std::rethrow_exception(s.error);
  s.filled[slot] = false;
  ++s.taken;
  return s.slots[slot];
}

}  // namespace eqt::data
