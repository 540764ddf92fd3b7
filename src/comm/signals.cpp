#include "comm/signals.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace eqt::comm {
namespace {

constexpr std::array<int, 4> kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
// One request often comes twice: to a group of processes and through mpirun.
constexpr std::int64_t kSameRequestNs = 500'000'000;

// Only lock-free words: a handler touches nothing else.
std::atomic<bool> g_noted{false};
std::atomic<OnSignal> g_meaning{OnSignal::end};
std::atomic<int> g_number{0};
std::atomic<std::int64_t> g_since_ns{0};
std::atomic<bool> g_launched{false};  // the parent is mpirun's
std::atomic<bool> g_from_launcher{false};
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<OnSignal>::is_always_lock_free);

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called in a handler
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

extern "C" void note_signal(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const std::int64_t now = now_ns();
  int none = 0;
  if (g_since_ns.load() == 0) {
    g_from_launcher.store(g_launched.load() && info->si_pid == getppid());
    g_since_ns.store(now);
    g_number.compare_exchange_strong(none, number);
  } else if (now - g_since_ns.load() >= kSameRequestNs) {
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
                static_cast<double>(now_ns() - g_since_ns.load()) * 1e-9};
}

const char* signal_name(int number) noexcept {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
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
