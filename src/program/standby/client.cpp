// SPDX-License-Identifier: Apache-2.0
#include "standby/client.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "standby/connection.hpp"
#include "standby/request.hpp"

namespace eqt::standby {
namespace {

constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};  // with a process that may be stopped
constexpr std::array kPassedOn = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGXCPU, SIGALRM, SIGCONT, SIGTSTP};

volatile std::sig_atomic_t rank = 0;  // process number

void pass_on(int number) {
  const int error = errno;
  // A stop that the rank could ignore would stop nothing.
  (void)::kill(static_cast<pid_t>(rank), number == SIGTSTP ? SIGSTOP : number);
  errno = error;
}

void pass_signals_on() {
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (const int number : kPassedOn) (void)::sigaction(number, &action, nullptr);
}

/// A connection to a server of the same user, or -1.
int connect_to(const std::string& path) {
  sockaddr_un address{};
  if (!set_path(address, path)) return -1;
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return -1;
  limit_waiting(connection, kPatience);
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      is_of_this_user(connection))
    return connection;
  ::close(connection);
  return -1;
}

/// Ends this process as `status`, which waitpid() has given, says.
int end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit no_core{0, 0};  // it would be of this process
  (void)::setrlimit(RLIMIT_CORE, &no_core);
  (void)std::signal(number, SIG_DFL);
  (void)std::raise(number);
  return 128 + number;
}

/// The exit code, or nothing if no server has become the program.
std::optional<int> start_from_standby(const std::string& path,
                                      const std::vector<std::string>& arguments) {
  const std::optional<Request> request = own_request(arguments);
  const int connection = request ? connect_to(path) : -1;
  pid_t process = 0;
  if (connection < 0 || !send(connection, *request) || !read_word(connection, process) ||
      process <= 0) {
    if (connection >= 0) ::close(connection);
    return std::nullopt;
  }
  rank = process;
  pass_signals_on();
  limit_waiting(connection, {});
  int word = 0;
  // The rank may run from here on, so it is never started a second time.
  if (write_word(connection, kGo) && read_word(connection, word)) return end_as(end_of_word(word));
  (void)::kill(process, SIGKILL);
  (void)std::fprintf(stderr,
                     "equant-standby: the process in standby has ended, and its rank with it\n");
  return end_as(SIGKILL);
}

}  // namespace

int start(const std::string& path, const std::vector<std::string>& arguments) {
  if (const std::optional<int> code = start_from_standby(path, arguments)) return *code;
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  (void)std::fprintf(stderr, "equant-standby: cannot start %s: %s\n", words.front(),
                     std::strerror(errno));
  return 127;
}

}  // namespace eqt::standby
