// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "comm/host_facts.hpp"
#include "comm/session.hpp"

namespace eqt::comm {
namespace {

constexpr const char* kKey = "(synchronization.timeout_seconds sets the limit)";
constexpr double kShortestSleep = 1;     // [seconds] shorter gaps may come from a busy machine
constexpr double kHeartbeatShare = 0.9;  // of the deadline: before those of peers end
constexpr double kLastWriting = 30;      // [seconds] for the last files after a signal

/// Time in which a rank can say why it ends: half of the time between mpirun's SIGTERM and its
/// SIGKILL, which Open MPI 4 lets users choose; that of Open MPI 5 was measured.
double last_words_seconds() {
  if (open_mpi_major() >= 5) return 0.5 * 0.25;
  const char* const text = std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  constexpr double kDay = 86400;
  const double given = text == nullptr ? 1.0 : std::strtod(text, nullptr);
  return 0.5 * (given >= 1.0 ? std::min(given, kDay) : 1.0);  // a word or NaN: mpirun's default
}

std::atomic<const char*> g_last_activity{"the start"};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

const char* last_activity() noexcept { return g_last_activity.load(std::memory_order_relaxed); }

// The watchdog is armed and disarmed thousands of times per second, so arm() only does a few
// relaxed stores and reads the clock once.
void Watchdog::arm(const char* operation, int peer) noexcept {
  const std::int64_t now = now_ns();
  started_ns_.store(now, std::memory_order_relaxed);
  moved_ns_.store(now, std::memory_order_relaxed);
  peer_.store(peer, std::memory_order_relaxed);
  armed_by_owner_.store(std::this_thread::get_id() == owner_, std::memory_order_relaxed);
  operation_.store(operation, std::memory_order_release);
}

void Watchdog::disarm() noexcept {
  if (operation_.load(std::memory_order_relaxed) == nullptr) return;
  const std::int64_t now = now_ns();
  moved_ns_.store(now, std::memory_order_relaxed);
  if (armed_by_owner_.load(std::memory_order_relaxed))
    heartbeat_ns_.store(now, std::memory_order_relaxed);
  operation_.store(nullptr, std::memory_order_release);
}

void Watchdog::heartbeat(const char* activity, bool waits_too) noexcept {
  g_last_activity.store(activity, std::memory_order_relaxed);
  heartbeat_ns_.store(now_ns(), std::memory_order_relaxed);
  waits_too_.store(waits_too, std::memory_order_relaxed);
  activity_.store(activity, std::memory_order_release);
}

void Watchdog::end_heartbeat() noexcept { activity_.store(nullptr, std::memory_order_release); }

Watchdog::Watchdog(double timeout_seconds, int rank, int size)
    : timeout_seconds_(timeout_seconds),
      rank_(rank),
      size_(size),
      owner_(std::this_thread::get_id()) {
  if (timeout_seconds_ <= 0) return;
  if (!signals_are_noted()) note_signals(OnSignal::end);
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
}

void Watchdog::set_inquiry(std::function<std::string()> inquiry) {
  const std::lock_guard lock(mutex_);
  inquiry_ = std::move(inquiry);
}

void Watchdog::watch() {
  const std::chrono::duration<double> period(
      std::min({0.2, timeout_seconds_ / 10, last_words_seconds() / 2.5}));
  std::unique_lock lock(mutex_);
  for (std::int64_t looked = now_ns();;) {
    if (stop_changed_.wait_for(lock, period, [this] { return stop_; })) return;
    const std::int64_t now = now_ns();
    notice_sleep(static_cast<double>(now - looked) * 1e-9 - period.count());
    looked = now;
    check_signals();
    check_exchange();
    check_heartbeat();
  }
}

/// Time in which the scheduler did not run this process is not counted as silence of any rank.
void Watchdog::notice_sleep(double slept) {
  if (slept < std::max(kShortestSleep, timeout_seconds_ / 2)) return;
  const std::int64_t now = now_ns();
  started_ns_.store(now, std::memory_order_relaxed);
  moved_ns_.store(now, std::memory_order_relaxed);
  heartbeat_ns_.store(now, std::memory_order_relaxed);
  // A warning, not an error: after "timeout" a user might end a job that works again.
  print_warning(
      fmt::format("{} for {:.1f} s, by SIGSTOP or because the machine slept or was overloaded, and "
                  "continues now",
                  where("this rank was stopped"), slept));
}

double Watchdog::seconds_since(const std::atomic<std::int64_t>& start) const {
  return static_cast<double>(now_ns() - start.load(std::memory_order_relaxed)) * 1e-9;
}

void Watchdog::check_exchange() {
  const char* operation = operation_.load(std::memory_order_acquire);
  // It may be armed again between the two loads; then its start is newer and the wait is short.
  if (operation == nullptr || seconds_since(started_ns_) < timeout_seconds_) return;
  end(fmt::format("{} made no progress for {:g} s{}; {} {}", where(operation), timeout_seconds_,
                  awaited(), suspicion(), kKey));
}

void Watchdog::check_heartbeat() {
  const char* activity = activity_.load(std::memory_order_acquire);
  if (activity == nullptr) return;
  const bool armed = operation_.load(std::memory_order_acquire) != nullptr;
  const bool waits_too = waits_too_.load(std::memory_order_relaxed);
  if (armed && (waits_too || armed_by_owner_.load(std::memory_order_relaxed))) return;
  const double limit = kHeartbeatShare * timeout_seconds_;
  const double silent = waits_too ? std::min(seconds_since(heartbeat_ns_), seconds_since(moved_ns_))
                                  : seconds_since(heartbeat_ns_);
  if (silent < limit) return;
  end(fmt::format("{} has been stuck for {:.1f} s{} {}", where(activity), silent,
                  rank_ == kNobody ? "; it may never end, or needs more time"
                                   : ", outside MPI; this rank itself is stalled or too slow",
                  kKey));
}

/// The trainer handles a first signal that shall end the run after a step. If it comes from mpirun
/// and nothing moves any more, the watchdog does, since mpirun is about to kill the rank.
void Watchdog::check_signals() {
  const auto signal = first_signal();
  if (!signal) return;
  const OnSignal meaning = meaning_of_signals();
  const bool graceful = meaning == OnSignal::finish_step || meaning == OnSignal::finish_writing;
  if (meaning == OnSignal::finish_writing) check_last_writing(*signal);
  if (graceful && !signal->from_launcher) return;
  const char* operation = operation_.load(std::memory_order_acquire);
  if (graceful) {
    const double still = operation == nullptr ? 0 : seconds_since(started_ns_);
    if (std::min(still, signal->seconds_ago) < last_words_seconds()) return;
  }
  // One that knows nothing leaves the last words to a communicator's, if there is one.
  const bool knows = operation != nullptr || inquiry_;
  if (!knows && signal->seconds_ago < last_words_seconds()) return;
  const std::string found = inquiry_ ? inquiry_() : "";
  // Outside MPI this rank waited for no other rank: it prints a message only if it knows which rank
  // died.
  const char* activity = operation == nullptr && !found.empty()
                             ? activity_.load(std::memory_order_acquire)
                             : operation;
  if (activity != nullptr) {
    print_error(Kind::timeout,
                fmt::format("{} was ended by {}{}; {}", where(activity),
                            signal_name(signal->number), operation == nullptr ? "" : awaited(),
                            found.empty() ? "look for the rank that died first" : found));
  }
  end_by(signal->number);
}

/// All steps are done, so there is no step to stop after. The last files get as much time as a
/// working file system may need.
void Watchdog::check_last_writing(const Signal& signal) {
  const char* activity = activity_.load(std::memory_order_acquire);
  const double patience = std::min(kLastWriting, kHeartbeatShare * timeout_seconds_ / 2);
  if (activity == nullptr || signal.seconds_ago < patience) return;
  end(fmt::format(
          "{} is not done {:.1f} s after {} told this rank to stop; look at the file system "
          "of the run folder",
          where(activity), signal.seconds_ago, signal_name(signal.number)),
      Kind::interrupted);
}

void Watchdog::end(const std::string& sentence, Kind kind) const {
  print_error(kind, sentence);
  // mpirun sees an exit only when all threads have ended.
  if (has_unkillable_thread()) abort_world(kind);
  // Not exit(): its handlers would run while a thread is stuck inside MPI.
  std::_Exit(static_cast<int>(kind));
}

std::string Watchdog::where(const char* operation) const {
  if (rank_ == kNobody) return fmt::format("[{}]", operation);
  return fmt::format("[rank {}/{}] step {}: {}", rank_, size_, step(), operation);
}

std::string Watchdog::awaited() const {
  const int peer = peer_.load(std::memory_order_relaxed);
  return peer == kNobody || peer == rank_ ? "" : fmt::format(", waiting for rank {}", peer);
}

std::string Watchdog::suspicion() const {
  if (rank_ != kNobody && peer_.load(std::memory_order_relaxed) == rank_)
    return "this rank itself is stalled or too slow";
  const std::string found = inquiry_ ? inquiry_() : "";
  return found.empty() ? "a peer is dead, stalled or unreachable" : found;
}

}  // namespace eqt::comm
