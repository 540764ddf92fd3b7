// SPDX-License-Identifier: Apache-2.0
#include "codec/plugin_calls.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// The message of the plugin that this thread is calling; null: none.
thread_local const char* sentence_of_thread = nullptr;

std::array<struct sigaction, kCrashes.size()> earlier_actions{};

extern "C" void tell_crash(int signal) {
  if (sentence_of_thread != nullptr) {
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, sentence_of_thread, std::strlen(sentence_of_thread));
    _exit(static_cast<int>(Kind::bug));
  }
  // Not in a plugin: restore the previous handler, which gets the same signal again.
  for (std::size_t i = 0; i < kCrashes.size(); ++i)
    if (kCrashes[i] == signal) sigaction(signal, &earlier_actions[i], nullptr);
  raise(signal);
}

/// The handler runs on this stack, because the thread's own stack may be what is used up.
class HandlerStack {
 public:
  HandlerStack() {
    const stack_t stack = {.ss_sp = memory_.data(), .ss_flags = 0, .ss_size = memory_.size()};
    EQT_CHECK(sigaltstack(&stack, &before_) == 0, "no stack for signal handlers");
  }
  ~HandlerStack() { (void)sigaltstack(&before_, nullptr); }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  static constexpr std::size_t kBytes = std::size_t{64}
                                        << 10;  // registers of any processor, and the handler
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  stack_t before_{};
};

}  // namespace

CrashMessage::CrashMessage(const std::string& what)
    : text_(fmt::format("equant-train: {}: {} crashed in its own code; run it under a debugger, or "
                        "leave --plugin out\n",
                        kind_name(Kind::bug), what)) {}

PluginCallGuard::PluginCallGuard(const CrashMessage& sentence) : before_(sentence_of_thread) {
  static thread_local const HandlerStack stack;
  std::fegetenv(&arithmetic_);
  sentence_of_thread = sentence.text();
}

PluginCallGuard::~PluginCallGuard() {
  sentence_of_thread = before_;
  std::fesetenv(&arithmetic_);
}

void watch_for_crashes() {
  struct sigaction action {};
  action.sa_handler = tell_crash;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    struct sigaction earlier {};
    sigaction(kCrashes[i], &action, &earlier);
    if (earlier.sa_handler != tell_crash) earlier_actions[i] = earlier;
  }
}

}  // namespace eqt::codec
