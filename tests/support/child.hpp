// SPDX-License-Identifier: Apache-2.0
// Runs code in a child process, so that the test survives if it crashes or exits.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>

namespace eqt::test {

struct ChildEnd {
  int code = -1;     // exit code; -1: ended by a signal
  int signal = 0;    // that ended it
  std::string said;  // on stderr
};

/// Runs `work` in a child, which exits with 0 if it returns. No other thread may run.
inline ChildEnd run_child(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    work();
    std::_Exit(0);
  }
  close(ends[1]);
  ChildEnd end;
  std::array<char, 512> text{};
  for (ssize_t n = 0; (n = read(ends[0], text.data(), text.size())) > 0;)
    end.said.append(text.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) end.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

}  // namespace eqt::test
