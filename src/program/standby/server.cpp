// SPDX-License-Identifier: Apache-2.0
#include "standby/server.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "standby/connection.hpp"
#include "standby/request.hpp"

namespace eqt::standby {
namespace {

constexpr int kLookMs = 5000;  // how often it is looked whether the socket is still at its path
constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};  // of a copy with its client
constexpr int kRefused = 1;                              // exit code of a copy that is no rank

struct Copy {
  pid_t process = 0;
  int connection = -1;  // -1: equant-standby has gone, and the copy is killed
};

/// The places of a request's texts, as main() and the environment need them.
std::vector<char*> places_of(std::vector<std::string>& texts) {
  std::vector<char*> places;
  for (std::string& text : texts) places.push_back(text.data());
  places.push_back(nullptr);
  return places;
}

class Server {
 public:
  Server(const std::string& path, int parent)
      : path_(path), program_(identity_of("/proc/self/exe")) {
    for (char** variable = environ; *variable != nullptr; ++variable)
      variables_.emplace_back(*variable);
    CPU_ZERO(&processors_);
    (void)::sched_getaffinity(0, sizeof(processors_), &processors_);
    listen();
    take_signals();
    // The parent may have ended while the libraries were being loaded.
    if (parent != 0 && (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::getppid() != parent))
      stop_listening();
  }
  ~Server() {
    if (is_in_place()) ::unlink(path_.c_str());
    close_all();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves until it is to end, and its copies have ended.
  /// @return the request, in a copy that has become a rank; nothing in the server
  std::optional<Request> run() {
    while (listener_ >= 0 || !copies_.empty()) {
      wait();
      if (listener_ >= 0 && !is_in_place()) stop_listening();
      if (std::optional<Request> request = accept_one()) return request;
    }
    return std::nullopt;
  }

 private:
  void listen() {
    sockaddr_un address{};
    const std::string beside = fmt::format("{}.{}", path_, ::getpid());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // One that was here before, or has died, is replaced in one step.
    const bool good =
        listener_ >= 0 && set_path(address, beside) &&
        ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        ::chmod(beside.c_str(), S_IRUSR | S_IWUSR) == 0 && ::listen(listener_, 64) == 0 &&
        ::rename(beside.c_str(), path_.c_str()) == 0;
    place_ = identity();
    if (good && place_ != 0) return;
    const int error = errno;
    ::unlink(beside.c_str());
    fail(Kind::output,
         "standby: expected to make a socket at {}, found: {}; name a path of at most 90 letters "
         "in a folder that this user can write",
         path_, std::strerror(error));
  }

  void take_signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&all, number);
    (void)::sigprocmask(SIG_BLOCK, &all, &before_);
    signals_ = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) fail(Kind::output, "standby: cannot take signals: {}", std::strerror(errno));
  }

  /// The number of the file at the path, 0 if it is no socket.
  ino_t identity() const {
    struct stat found {};
    return ::lstat(path_.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
  }
  bool is_in_place() const { return place_ != 0 && identity() == place_; }

  void stop_listening() {
    if (is_in_place()) ::unlink(path_.c_str());
    ::close(listener_);
    listener_ = -1;
  }

  void wait() {
    // poll() passes over a number below 0.
    std::vector<pollfd> all{{signals_, POLLIN, 0}, {listener_, POLLIN, 0}};
    const std::size_t first = all.size();
    for (const Copy& copy : copies_) all.push_back({copy.connection, POLLRDHUP, 0});
    if (::poll(all.data(), all.size(), kLookMs) <= 0) return;
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (all[first + i].revents != 0) kill_forsaken(copies_[i]);
    if (all.front().revents != 0) heed_signals();
  }

  void heed_signals() {
    signalfd_siginfo signal{};
    while (::read(signals_, &signal, sizeof(signal)) == sizeof(signal))
      if (signal.ssi_signo != SIGCHLD && listener_ >= 0) stop_listening();
    int status = 0;
    for (pid_t process = 0; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto copy = std::find_if(copies_.begin(), copies_.end(),
                                     [&](const Copy& each) { return each.process == process; });
      if (copy == copies_.end()) continue;
      (void)write_word(copy->connection, word_of_end(status));
      if (copy->connection >= 0) ::close(copy->connection);
      copies_.erase(copy);
    }
  }

  /// mpirun kills equant-standby where it means the rank.
  static void kill_forsaken(Copy& copy) {
    (void)::kill(copy.process, SIGKILL);
    ::close(copy.connection);
    copy.connection = -1;
  }

  std::optional<Request> accept_one() {
    const int connection =
        listener_ < 0 ? -1 : ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return std::nullopt;
    const pid_t server = ::getpid();
    const pid_t process = is_of_this_user(connection) ? ::fork() : -1;
    if (process == 0) return become_rank(connection, server);
    if (process < 0)
      ::close(connection);
    else
      copies_.push_back({process, connection});
    return std::nullopt;
  }

  /// A copy becomes the rank here, or ends; then equant-standby starts the program as usual.
  Request become_rank(int connection, pid_t server) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != server) ::_exit(kRefused);  // the server ended before that was asked for
    limit_waiting(connection, kPatience);
    std::optional<Request> request = receive(connection);
    if (!request || request->program != program_ || !load_alike(variables_, request->variables) ||
        !CPU_EQUAL(&request->processors, &processors_) || !take_over(*request))
      ::_exit(kRefused);
    int word = 0;
    if (!write_word(connection, ::getpid()) || !read_word(connection, word) || word != kGo)
      ::_exit(kRefused);
    place_ = 0;  // the socket is the server's
    ::close(connection);
    (void)::sigprocmask(SIG_SETMASK, &before_, nullptr);
    return std::move(*request);
  }

  static bool take_over(const Request& request) {
    for (int number = 1; number < NSIG; ++number) (void)std::signal(number, SIG_DFL);
    ::umask(request.mask);
    bool good = ::chdir(request.folder.c_str()) == 0;
    for (int i = 0; i < RLIM_NLIMITS; ++i)
      good = good && ::setrlimit(static_cast<__rlimit_resource>(i),
                                 &request.limits[static_cast<std::size_t>(i)]) == 0;
    return good;
  }

  void close_all() {
    for (const Copy& copy : copies_)
      if (copy.connection >= 0) ::close(copy.connection);
    for (const int descriptor : {listener_, signals_})
      if (descriptor >= 0) ::close(descriptor);
  }

  std::string path_;
  std::optional<FileIdentity> program_;
  std::vector<std::string> variables_;  // when the libraries were loaded
  cpu_set_t processors_ = {};           // likewise: OpenBLAS counts them then
  int listener_ = -1;                   // -1: takes no more requests
  int signals_ = -1;
  ino_t place_ = 0;
  sigset_t before_ = {};  // signals that were blocked at first
  std::vector<Copy> copies_;
};

}  // namespace

int serve(const std::string& path, int parent, const Main& main) {
  (void)::setsid();  // a terminal's Ctrl-C is for the launcher, which tells mpirun
  std::optional<Request> found = Server(path, parent).run();
  if (!found) return 0;
  // Libraries read the environment until the very end of the process, so nothing of this is freed.
  Request& request = *new Request(std::move(*found));
  environ = (new std::vector<char*>(places_of(request.variables)))->data();
  const int count = static_cast<int>(request.arguments.size());
  return main(count, (new std::vector<char*>(places_of(request.arguments)))->data());
}

}  // namespace eqt::standby
