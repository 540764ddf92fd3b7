#include "comm/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
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

}  // namespace

void Watchdog::arm(const char* operation, int peer) noexcept {
  started_ns_.store(now_ns(), std::memory_order_relaxed);
  peer_.store(peer, std::memory_order_relaxed);
  operation_.store(operation, std::memory_order_release);
}

void Watchdog::disarm() noexcept { operation_.store(nullptr, std::memory_order_release); }

Watchdog::Watchdog(double timeout_seconds, int rank, int size)
    : timeout_seconds_(timeout_seconds), rank_(rank), size_(size) {
  if (timeout_seconds_ > 0) thread_ = std::thread([this] { watch(); });
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
  const std::chrono::duration<double> period(std::min(0.5, timeout_seconds_ / 10));
  std::unique_lock lock(mutex_);
  while (!stop_changed_.wait_for(lock, period, [this] { return stop_; })) {
    const char* operation = operation_.load(std::memory_order_acquire);
    if (operation == nullptr) continue;
    const double waited =
        static_cast<double>(now_ns() - started_ns_.load(std::memory_order_relaxed)) * 1e-9;
    // It may have been armed again between the two loads; then its start is newer and `waited`
    // small.
    if (waited < timeout_seconds_) continue;
    const int peer = peer_.load(std::memory_order_relaxed);
    print_error(Kind::timeout,
                fmt::format("[rank {}/{}] step {}: {} made no progress for {} s{}; a peer is dead, "
                            "stalled or unreachable (synchronization.timeout_seconds sets the "
                            "limit)",
                            rank_, size_, step_.load(std::memory_order_relaxed), operation,
                            timeout_seconds_,
                            peer == kNobody ? "" : fmt::format(", waiting for rank {}", peer)));
    // Not exit(): its handlers would run beside a thread that is stuck inside MPI.
    std::_Exit(static_cast<int>(Kind::timeout));
  }
}

}  // namespace eqt::comm
