// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include "comm/signals.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"

using namespace eqt::comm;
using eqt::test::ChildEnd;
using eqt::test::run_child;

namespace {

constexpr double kTimeout = 0.5;

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool holds(const ChildEnd& end, const char* text) {
  return end.said.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("an operation that does not end ends the process", "[watchdog]") {
  const ChildEnd end = run_child([] {
    Watchdog watchdog(kTimeout, 1, 4);
    watchdog.set_step(7);
    watchdog.set_inquiry([] { return std::string("rank 3 is stopped"); });
    watchdog.arm("dense allreduce", 2);
    sleep_seconds(20 * kTimeout);
  });
  CHECK(end.code == 7);
  CHECK(holds(end, "[rank 1/4] step 7: dense allreduce made no progress"));
  CHECK(holds(end, "waiting for rank 2"));
  CHECK(holds(end, "rank 3 is stopped"));
}

TEST_CASE("one that continues does not", "[watchdog]") {
  const ChildEnd end = run_child([] {
    Watchdog watchdog(kTimeout, 0, 2);
    for (int i = 0; i < 15; ++i) {
      watchdog.arm("ring");
      watchdog.heartbeat("forward and backward pass");
      sleep_seconds(kTimeout / 5);
    }
    watchdog.disarm();
    watchdog.end_heartbeat();
    sleep_seconds(2 * kTimeout);
  });
  CHECK(end.code == 0);
  CHECK(end.said.empty());
}

TEST_CASE("a rank that is stuck outside MPI says so itself", "[watchdog]") {
  const ChildEnd end = run_child([] {
    Watchdog watchdog(kTimeout, 2, 4);
    watchdog.heartbeat("forward and backward pass");
    sleep_seconds(20 * kTimeout);
  });
  CHECK(end.code == 7);
  CHECK(holds(end, "forward and backward pass has been stuck"));
  CHECK(holds(end, "outside MPI; this rank itself"));
}

TEST_CASE("waiting in MPI is not being stuck outside it", "[watchdog]") {
  // The same thread waits: its peers are to blame, though its last heartbeat is longer ago.
  const ChildEnd own = run_child([] {
    Watchdog watchdog(kTimeout, 2, 4);
    watchdog.heartbeat("evaluation");
    sleep_seconds(0.4 * kTimeout);
    watchdog.arm("allreduce of sums");
    sleep_seconds(20 * kTimeout);
  });
  CHECK(own.code == 7);
  CHECK(holds(own, "allreduce of sums made no progress"));
  // Another thread waits while this one computes for too long: it is to blame itself.
  const ChildEnd other = run_child([] {
    Watchdog watchdog(kTimeout, 2, 4);
    watchdog.heartbeat("forward and backward pass");
    std::thread communication([&] {
      for (int i = 0; i < 100; ++i) {
        watchdog.arm("ring");
        sleep_seconds(kTimeout / 5);
      }
    });
    communication.join();
  });
  CHECK(other.code == 7);
  CHECK(holds(other, "forward and backward pass has been stuck"));
  // Where it waits for that thread, it is not.
  const ChildEnd both = run_child([] {
    Watchdog watchdog(kTimeout, 2, 4);
    watchdog.heartbeat("synchronization", true);
    std::thread communication([&] {
      for (int i = 0; i < 15; ++i) {
        watchdog.arm("ring");
        sleep_seconds(kTimeout / 5);
      }
      watchdog.disarm();
    });
    communication.join();
  });
  CHECK(both.code == 0);
}

TEST_CASE("without a deadline nothing ends", "[watchdog]") {
  const ChildEnd end = run_child([] {
    Watchdog watchdog(0, 0, 2);
    watchdog.arm("ring");
    watchdog.heartbeat("update");
    sleep_seconds(0.3);
  });
  CHECK(end.code == 0);
}

TEST_CASE("a process that was stopped blames nobody", "[watchdog]") {
  const ChildEnd end = run_child([] {
    const pid_t self = getpid();
    const pid_t waker = fork();
    if (waker == 0) {
      sleep_seconds(2);
      kill(self, SIGCONT);
      std::_Exit(0);
    }
    Watchdog watchdog(1.5, 1, 2);
    watchdog.arm("ring", 0);
    sleep_seconds(0.5);  // its thread runs
    (void)raise(SIGSTOP);
    sleep_seconds(0.7);
  });
  CHECK(end.code == 0);
  // A launcher that reads "timeout" would end the job, though it is well again.
  CHECK(holds(end, "equant-train: warning: [rank 1/2] step 0: this rank was stopped"));
  CHECK(holds(end, "continues now"));
  CHECK_FALSE(holds(end, "equant-train: timeout"));
}

TEST_CASE("the first signal is noted, the second ends the process", "[signals]") {
  const ChildEnd first = run_child([] {
    note_signals(OnSignal::finish_step);
    if (first_signal()) std::_Exit(1);
    (void)raise(SIGTERM);
    (void)raise(SIGINT);  // the same request, by another way
    const auto signal = first_signal();
    if (!signal || signal->number != SIGTERM || signal->from_launcher) std::_Exit(2);
  });
  CHECK(first.code == 0);
  CHECK(first.said.empty());
  const ChildEnd second = run_child([] {
    note_signals(OnSignal::finish_step);
    (void)raise(SIGUSR1);
    sleep_seconds(0.6);
    (void)raise(SIGTERM);
    sleep_seconds(5);
  });
  CHECK(second.signal == SIGTERM);
  CHECK(holds(second, "a second signal ends this rank at once"));
}

TEST_CASE("before training a first signal ends the process, whatever it waits for", "[signals]") {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP}) {
    const ChildEnd end = run_child([number] {
      note_signals(OnSignal::stop_at_once);
      Watchdog watchdog(kTimeout, Watchdog::kNobody, 0);
      watchdog.heartbeat("reading of the config");
      (void)raise(number);
      std::_Exit(1);
    });
    CHECK(end.code == 75);
    CHECK(holds(end, "equant-train: interrupted: "));
    CHECK(holds(end, "reading of the config: this rank was told to stop by SIG"));
    CHECK(holds(end, signal_name(number)));
  }
}

TEST_CASE("a rank that a signal ends outside MPI names who died, if it knows", "[signals]") {
  const auto end_in_activity = [](const char* died) {
    return run_child([died] {
      Watchdog watchdog(20, 0, 3);
      watchdog.set_inquiry([died] { return std::string(died); });
      note_signals(OnSignal::end);
      watchdog.heartbeat("opening of the run folder");
      std::raise(SIGTERM);
      sleep_seconds(10);
    });
  };
  CHECK(
      holds(end_in_activity("rank 1 has ended"),
            "[rank 0/3] step 0: opening of the run folder was ended by SIGTERM; rank 1 has ended"));
  CHECK(end_in_activity("").said.empty());
}

TEST_CASE("the system's SIGXCPU comes each second and is one request", "[signals]") {
  const ChildEnd end = run_child([] {
    note_signals(OnSignal::finish_step);
    (void)raise(SIGXCPU);
    sleep_seconds(0.6);
    (void)raise(SIGXCPU);
    const auto signal = first_signal();
    if (!signal || signal->number != SIGXCPU) std::_Exit(2);
  });
  CHECK(end.code == 0);
  CHECK(end.said.empty());
}

TEST_CASE("after the last step a signal waits for the last files, but not for ever", "[signals]") {
  const ChildEnd stuck = run_child([] {
    note_signals(OnSignal::finish_writing);
    Watchdog watchdog(2, 0, 2);
    watchdog.heartbeat("writing of the summary", true);
    (void)raise(SIGTERM);
    sleep_seconds(10);
  });
  CHECK(stuck.code == 75);
  CHECK(holds(stuck, "[rank 0/2] step 0: writing of the summary is not done"));
  CHECK(holds(stuck, "SIGTERM"));
  const ChildEnd done = run_child([] {
    note_signals(OnSignal::finish_writing);
    Watchdog watchdog(2, 0, 2);
    watchdog.heartbeat("writing of the summary", true);
    (void)raise(SIGTERM);
    sleep_seconds(0.3);
    watchdog.end_heartbeat();
    sleep_seconds(1.5);
  });
  CHECK(done.code == 0);
  CHECK(done.said.empty());
}

TEST_CASE("a signal that was ignored stays ignored", "[signals]") {
  const ChildEnd end = run_child([] {
    (void)std::signal(SIGHUP, SIG_IGN);
    note_signals(OnSignal::finish_step);
    (void)raise(SIGHUP);
    if (first_signal()) std::_Exit(1);
  });
  CHECK(end.code == 0);
}
