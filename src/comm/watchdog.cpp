#include "comm/watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "comm/session.hpp"
#include "core/error.hpp"

namespace eqt::comm {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Only the watchdog's thread acts on it: it can print, a handler cannot.
std::atomic<bool> g_terminated{false};

extern "C" void note_termination(int) { g_terminated.store(true, std::memory_order_relaxed); }

/// Unless somebody else wants the signal.
void listen_for_termination() {
  struct sigaction present {};
  if (sigaction(SIGTERM, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  (void)std::signal(SIGTERM, note_termination);
}

}  // namespace

void Watchdog::arm(const char* operation, int peer) noexcept {
  started_ns_.store(now_ns(), std::memory_order_relaxed);
  peer_.store(peer, std::memory_order_relaxed);
  operation_.store(operation, std::memory_order_release);
}

void Watchdog::disarm() noexcept { operation_.store(nullptr, std::memory_order_release); }

Watchdog::Watchdog(double timeout_seconds, int rank, int size)
    : timeout_seconds_(timeout_seconds), rank_(rank), size_(size) {
  if (timeout_seconds_ <= 0) return;
  listen_for_termination();
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

void Watchdog::watch() {
  // mpirun gives a rank that it ends a second to say why.
  const std::chrono::duration<double> period(std::min(0.2, timeout_seconds_ / 10));
  std::unique_lock lock(mutex_);
  while (!stop_changed_.wait_for(lock, period, [this] { return stop_; })) {
    const char* operation = operation_.load(std::memory_order_acquire);
    if (g_terminated.load(std::memory_order_relaxed)) terminate(operation);
    if (operation == nullptr) continue;
    const double waited =
        static_cast<double>(now_ns() - started_ns_.load(std::memory_order_relaxed)) * 1e-9;
    // It may have been armed again between the two loads; then its start is newer and `waited`
    // small.
    if (waited < timeout_seconds_) continue;
    print_error(Kind::timeout,
                fmt::format("{} made no progress for {} s{}; {} "
                            "(synchronization.timeout_seconds sets the limit)",
                            where(operation), timeout_seconds_, awaited(), suspicion()));
    // Not exit(): its handlers would run beside a thread that is stuck inside MPI.
    std::_Exit(static_cast<int>(Kind::timeout));
  }
}

/// As mpirun asks it to when another rank died.
void Watchdog::terminate(const char* operation) const {
  if (operation != nullptr) {
    print_error(Kind::timeout,
                fmt::format("{} was ended by SIGTERM{}; look for the rank that died first",
                            where(operation), awaited()));
  }
  (void)std::signal(SIGTERM, SIG_DFL);
  (void)kill(getpid(), SIGTERM);
}

std::string Watchdog::where(const char* operation) const {
  return fmt::format("[rank {}/{}] step {}: {}", rank_, size_,
                     step_.load(std::memory_order_relaxed), operation);
}

std::string Watchdog::awaited() const {
  const int peer = peer_.load(std::memory_order_relaxed);
  return peer == kNobody || peer == rank_ ? "" : fmt::format(", waiting for rank {}", peer);
}

const char* Watchdog::suspicion() const {
  return peer_.load(std::memory_order_relaxed) == rank_ ? "this rank itself is stalled or too slow"
                                                        : "a peer is dead, stalled or unreachable";
}

}  // namespace eqt::comm
