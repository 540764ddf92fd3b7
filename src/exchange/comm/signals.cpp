// SPDX-License-Identifier: Apache-2.0
#include "comm/signals.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "comm/launch.hpp"
#include "comm/watchdog.hpp"

namespace eqt::comm {
namespace {

constexpr std::array<int, 6> kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP};
// One request often comes twice: to the group of processes, and through mpirun.
constexpr std::int64_t kSameRequestNs = 500'000'000;

// Only lock-free words: a handler touches nothing else.
std::atomic<bool> g_noted{false};
std::atomic<OnSignal> g_meaning{OnSignal::end};
std::atomic<int> g_number{0};
std::atomic<std::int64_t> g_since_ns{0};
std::atomic<bool> g_launched{false};  // the parent is mpirun's
std::atomic<int> g_rank{Watchdog::kNobody}, g_size{0};
std::atomic<bool> g_from_launcher{false};
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<OnSignal>::is_always_lock_free);

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called in a handler
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// A message that is composed without memory from the heap, for use in a handler.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t count = std::min(text.size(), bytes_.size() - used_);
    std::memcpy(bytes_.data() + used_, text.data(), count);
    used_ += count;
    return *this;
  }
  Line& operator<<(int number) {
    std::array<char, 12> digits{};
    std::size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
    } while ((number /= 10) > 0);
    return *this << std::string_view(&digits[at], digits.size() - at);
  }
  void print() const {
    // If it fails, nothing can be done.
    [[maybe_unused]] const auto written = write(STDERR_FILENO, bytes_.data(), used_);
  }

 private:
  std::array<char, 400> bytes_{};
  std::size_t used_ = 0;
};

/// mpirun signals all ranks of the job: the first one reports for all.
[[noreturn]] void stop_at_once(int number, bool all_ranks) {
  const int rank = g_rank.load();
  if (!all_ranks || rank <= 0) {
    Line line;
    line << "equant-train: interrupted: ";
    if (rank >= 0) line << "[rank " << rank << "/" << g_size.load() << "] ";
    line << last_activity() << ": this rank was told to stop by " << signal_name(number)
         << " before the first step; there is nothing to save\n";
    line.print();
  }
  _exit(static_cast<int>(Kind::interrupted));
}

extern "C" void note_signal(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const std::int64_t now = monotonic_ns();
  const bool from_launcher = g_launched.load() && info->si_pid == getppid();
  // mpirun's SIGTERM means that another rank has died: the watchdog says what this one waited for.
  if (g_meaning.load() == OnSignal::stop_at_once && !(from_launcher && number == SIGTERM))
    stop_at_once(number, from_launcher);
  int none = 0;
  if (g_since_ns.load() == 0) {
    // These mpirun passes on, and ends nothing.
    g_from_launcher.store(from_launcher && number != SIGUSR1 && number != SIGUSR2);
    g_since_ns.store(now);
    g_number.compare_exchange_strong(none, number);
  } else if (now - g_since_ns.load() >= kSameRequestNs && number != SIGXCPU && number != SIGUSR2) {
    constexpr std::string_view kSentence =
        "equant-train: interrupted: a second signal ends this rank at once, without a checkpoint\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
    end_by(number);
  }
  errno = saved;
}

}  // namespace

void note_signals(OnSignal meaning) {
  g_meaning.store(meaning);
  if (g_noted.exchange(true)) return;
  g_launched.store(std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr);
  g_rank.store(launched_rank());
  g_size.store(launched_size());
  struct sigaction action {};
  action.sa_sigaction = note_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : kSignals) {
    struct sigaction present {};
    if (sigaction(number, nullptr, &present) != 0 || present.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
  }
}

void ignore_signals() noexcept {
  if (!g_noted.load()) return;
  for (const int number : kSignals) (void)std::signal(number, SIG_IGN);
}

bool signals_are_noted() noexcept { return g_noted.load(); }
OnSignal meaning_of_signals() noexcept { return g_meaning.load(); }

std::optional<Signal> first_signal() noexcept {
  const int number = g_number.load();
  if (number == 0) return {};
  return Signal{number, g_from_launcher.load(),
                static_cast<double>(monotonic_ns() - g_since_ns.load()) * 1e-9};
}

const char* signal_name(int number) noexcept {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    case SIGXCPU:
      return "SIGXCPU";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "a signal";
  }
}

void end_by(int signal) noexcept {
  (void)std::signal(signal, SIG_DFL);
  (void)kill(getpid(), signal);
}

}  // namespace eqt::comm
