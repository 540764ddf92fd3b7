// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "core/error.hpp"
#include "standby/client.hpp"
#include "standby/request.hpp"
#include "standby/server.hpp"

namespace {

using namespace eqt::standby;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// Runs `work` in another process, which ends with its result.
pid_t in_child(const std::function<int()>& work) {
  const pid_t process = ::fork();
  if (process == 0) {
    int code = 99;
    try {
      code = work();
    } catch (...) {
      code = 98;
    }
    ::_exit(code);
  }
  return process;
}

/// What waitpid() says of the process.
int status_of(pid_t process) {
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return status;
}

int code_of(pid_t process) {
  const int status = status_of(process);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

bool comes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 500; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A folder with a server, which runs `main` in place of the program.
class Standby {
 public:
  explicit Standby(const Main& main) {
    std::string name = "/tmp/eqt_standby.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    server_ = in_child([&] { return serve(path(), 0, main); });
    REQUIRE(comes_true([&] { return fs::is_socket(path()); }));
  }
  ~Standby() {
    if (server_ > 0) (void)::kill(server_, SIGKILL), (void)::waitpid(server_, nullptr, 0);
    fs::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/socket"; }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  pid_t server() const { return server_; }

  /// Ends the server as its launcher does. @return its exit code
  int end() {
    (void)::kill(server_, SIGTERM);
    const int code = code_of(server_);
    server_ = -1;
    return code;
  }

 private:
  std::string folder_;
  pid_t server_ = -1;
};

/// This test's own program, which the server takes for its own, with `arguments`.
std::vector<std::string> words(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), fs::read_symlink("/proc/self/exe").string());
  return arguments;
}

/// The copy writes to the file argv[1]: its argument, folder, a variable, mask; then ends with 7.
int write_what_it_has(int argc, char** argv) {
  if (argc != 3) return 50;
  const char* const variable = std::getenv("EQT_STANDBY_TEST");
  const mode_t mask = ::umask(0);
  std::ofstream(argv[1]) << argv[2] << '|' << fs::current_path().string() << '|'
                         << (variable == nullptr ? "none" : variable) << '|' << mask;
  (void)::write(STDOUT_FILENO, "said", 4);
  return 7;
}

int sleep_long(int, char**) {
  std::this_thread::sleep_for(60s);
  return 0;
}

std::vector<std::string> with(std::vector<std::string> variables, const std::string& one) {
  variables.push_back(one);
  return variables;
}

TEST_CASE("A copy has all that the command that asked for it has, and its exit code") {
  Standby standby(write_what_it_has);
  const pid_t asking = in_child([&] {
    const int out = ::open(standby.file("said").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::setenv("EQT_STANDBY_TEST", "a value\nof two lines", 1);
    ::umask(027);
    if (::chdir("/usr") != 0) return 60;
    return start(standby.path(), words({standby.file("has"), "an  argument"}));
  });
  CHECK(code_of(asking) == 7);
  CHECK(text_of(standby.file("has")) == "an  argument|/usr|a value\nof two lines|23");
  CHECK(text_of(standby.file("said")) == "said");
  CHECK(standby.end() == 0);
  CHECK_FALSE(fs::exists(standby.path()));
}

TEST_CASE("One server starts several copies, at the same time") {
  Standby standby([](int, char** argv) {
    const std::string mine = argv[1], others = argv[2];
    std::ofstream(mine) << "here";
    return comes_true([&] { return text_of(others) == "here"; }) ? 3 : 4;
  });
  const std::string a = standby.file("a"), b = standby.file("b");
  const pid_t one = in_child([&] { return start(standby.path(), words({a, b})); });
  const pid_t other = in_child([&] { return start(standby.path(), words({b, a})); });
  CHECK(code_of(one) == 3);
  CHECK(code_of(other) == 3);
}

TEST_CASE("A signal that ends a copy ends the command that asked for it, and the other way round") {
  Standby standby([](int, char** argv) {
    std::ofstream(argv[1]) << ::getpid() << '\n';
    return sleep_long(0, nullptr);
  });
  const auto process_in = [&](const std::string& file) {
    pid_t process = 0;
    REQUIRE(comes_true([&] { return (std::ifstream(file) >> process) && process > 0; }));
    return process;
  };
  SECTION("the copy is killed") {
    const pid_t asking =
        in_child([&] { return start(standby.path(), words({standby.file("a")})); });
    (void)::kill(process_in(standby.file("a")), SIGKILL);
    const int status = status_of(asking);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  }
  SECTION("a signal is passed on") {
    const pid_t asking =
        in_child([&] { return start(standby.path(), words({standby.file("b")})); });
    (void)process_in(standby.file("b"));
    (void)::kill(asking, SIGUSR1);
    const int status = status_of(asking);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1));
  }
  SECTION("the command is killed") {
    const pid_t asking =
        in_child([&] { return start(standby.path(), words({standby.file("c")})); });
    const pid_t copy = process_in(standby.file("c"));
    (void)::kill(asking, SIGKILL);
    (void)status_of(asking);
    CHECK(comes_true([&] { return ::kill(copy, 0) != 0; }));
    CHECK(standby.end() == 0);
  }
  SECTION("the server is killed") {
    const pid_t asking =
        in_child([&] { return start(standby.path(), words({standby.file("d")})); });
    const pid_t copy = process_in(standby.file("d"));
    (void)::kill(standby.server(), SIGKILL);
    const int status = status_of(asking);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    CHECK(comes_true([&] { return ::kill(copy, 0) != 0; }));
  }
  SECTION("the server that is to end waits for the copy") {
    const pid_t asking =
        in_child([&] { return start(standby.path(), words({standby.file("e")})); });
    const pid_t copy = process_in(standby.file("e"));
    (void)::kill(standby.server(), SIGTERM);
    CHECK(comes_true([&] { return !fs::exists(standby.path()); }));
    CHECK(::kill(copy, 0) == 0);
    (void)::kill(copy, SIGTERM);
    const int status = status_of(asking);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  }
}

TEST_CASE("Where no copy can be had, the program is started as usual") {
  // Exit code 5 comes from the program true alone, as the copy would end with 7.
  Standby standby(write_what_it_has);
  const std::vector<std::string> shell = {"/bin/sh", "-c", "exit 5"};
  SECTION("another program") {
    CHECK(code_of(in_child([&] { return start(standby.path(), shell); })) == 5);
  }
  SECTION("no server") {
    CHECK(code_of(in_child([&] { return start(standby.file("none"), shell); })) == 5);
    CHECK(code_of(in_child([&] { return start(std::string(200, 'a'), shell); })) == 5);
  }
  SECTION("a server that has died") {
    (void)::kill(standby.server(), SIGKILL);
    CHECK(code_of(in_child([&] { return start(standby.path(), shell); })) == 5);
  }
  SECTION("a server that is stopped") {
    (void)::kill(standby.server(), SIGSTOP);
    CHECK(code_of(in_child([&] { return start(standby.path(), shell); })) == 5);
    (void)::kill(standby.server(), SIGCONT);
  }
  SECTION("no program at all") {
    CHECK(code_of(in_child([&] { return start(standby.path(), {"/no/such/program"}); })) == 127);
  }
  SECTION("the server still serves after all that") {
    (void)code_of(in_child([&] { return start(standby.path(), shell); }));
    CHECK(code_of(in_child([&] {
            return start(standby.path(), words({standby.file("has"), "x"}));
          })) == 7);
  }
}

TEST_CASE("A copy is refused if its libraries would have been loaded otherwise") {
  const std::vector<std::string> some = {"HOME=/root", "OMP_NUM_THREADS=2"};
  CHECK(load_alike(some, {"OMP_NUM_THREADS=2", "PATH=/bin"}));
  CHECK_FALSE(load_alike(some, {"OMP_NUM_THREADS=4", "HOME=/root"}));
  CHECK_FALSE(load_alike(some, {"HOME=/root"}));
  CHECK_FALSE(load_alike(some, with(some, "LD_PRELOAD=other.so")));
  CHECK(load_alike(some, with(some, "OMPI_COMM_WORLD_RANK=1")));
}

/// Two ends of a connection.
class Pair {
 public:
  Pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()) == 0); }
  ~Pair() {
    for (const int end : ends_) ::close(end);
  }
  int sender() const { return ends_[0]; }
  int receiver() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_{};
};

/// The bytes of a request, without its descriptors.
std::string bytes_of(const Request& request) {
  const Pair pair;
  REQUIRE(send(pair.sender(), request));
  (void)::shutdown(pair.sender(), SHUT_WR);
  std::string all;
  std::array<char, 65536> part{};
  // A call ends where the descriptors were sent, so there are several.
  for (ssize_t got = 0; (got = ::recv(pair.receiver(), part.data(), part.size(), 0)) > 0;)
    all.append(part.data(), static_cast<std::size_t>(got));
  REQUIRE_FALSE(all.empty());
  return all;
}

/// Sends bytes with the first `count` standard streams, and no more after them.
void send_bytes(int connection, std::string bytes, std::size_t count) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = count == 0 ? 0 : CMSG_SPACE(count * sizeof(int));
  if (count > 0) {
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    constexpr std::array<int, 3> streams = {0, 1, 2};
    std::memcpy(CMSG_DATA(rights), streams.data(), count * sizeof(int));
  }
  REQUIRE(::sendmsg(connection, &message, 0) == static_cast<ssize_t>(bytes.size()));
  (void)::shutdown(connection, SHUT_WR);
}

/// Whether a request of these bytes is taken. It is another process whose streams are replaced.
bool is_taken(const std::string& bytes, std::size_t streams = 3) {
  const Pair pair;
  send_bytes(pair.sender(), bytes, streams);
  const int code = code_of(in_child([&] { return receive(pair.receiver()) ? 1 : 2; }));
  REQUIRE((code == 1 || code == 2));
  return code == 1;
}

TEST_CASE("A request is received as it was sent") {
  const std::optional<Request> sent = own_request(words({"", "b c"}));
  REQUIRE(sent);
  const Pair pair;
  REQUIRE(send(pair.sender(), *sent));
  CHECK(code_of(in_child([&] {
          const std::optional<Request> got = receive(pair.receiver());
          const bool same =
              got && got->arguments == sent->arguments && got->variables == sent->variables &&
              got->folder == sent->folder && got->program == sent->program &&
              got->mask == sent->mask && CPU_EQUAL(&got->processors, &sent->processors) &&
              std::memcmp(got->limits.data(), sent->limits.data(), sizeof(sent->limits)) == 0;
          return same ? 1 : 2;
        })) == 1);
}

TEST_CASE("A request is refused if it is not whole, or is none") {
  const std::string bytes = bytes_of(*own_request(words({"an argument"})));
  REQUIRE(is_taken(bytes));
  CHECK_FALSE(is_taken(bytes, 2));
  CHECK_FALSE(is_taken(bytes, 0));
  CHECK_FALSE(is_taken(bytes.substr(0, bytes.size() - 1)));
  CHECK_FALSE(is_taken(bytes.substr(0, 20)));
  std::string wrong = bytes;
  wrong.front() ^= 1;
  CHECK_FALSE(is_taken(wrong));
  wrong = bytes;
  wrong.back() = 'x';
  CHECK_FALSE(is_taken(wrong));
  wrong = bytes;
  wrong[wrong.find("an argument")] = '\0';  // a text more than the head says
  CHECK_FALSE(is_taken(wrong));
}

TEST_CASE("A server needs a place for its socket, and leaves it to a later one") {
  CHECK_THROWS_AS(serve("/no/such/folder/socket", 0, sleep_long), eqt::Error);
  CHECK_THROWS_AS(serve("/tmp/" + std::string(120, 'a'), 0, sleep_long), eqt::Error);
  Standby first(write_what_it_has);
  const pid_t second =
      in_child([&] { return serve(first.path(), 0, [](int, char**) { return 8; }); });
  // The first one sees within five seconds that its place is taken.
  CHECK(code_of(first.server()) == 0);
  CHECK(code_of(in_child([&] { return start(first.path(), words({"a"})); })) == 8);
  (void)::kill(second, SIGTERM);
  CHECK(code_of(second) == 0);
}

TEST_CASE("A server ends with its parent, even if that has ended before") {
  std::string name = "/tmp/eqt_standby.XXXXXX";
  const std::string folder = ::mkdtemp(name.data());
  const std::string path = folder + "/socket";
  const int before = GENERATE(0, 1);
  CAPTURE(before);
  // The server's last act is to remove its socket.
  const pid_t parent = in_child([&] {
    const int mine = ::getpid();
    (void)in_child([&] {
      while (before == 1 && ::getppid() == mine) std::this_thread::sleep_for(1ms);
      const int code = serve(path, mine, sleep_long);
      std::ofstream(folder + "/ended") << code;
      return code;
    });
    if (before == 0) (void)comes_true([&] { return fs::is_socket(path); });
    return 0;
  });
  CHECK(code_of(parent) == 0);
  CHECK(comes_true([&] { return text_of(folder + "/ended") == "0"; }));
  CHECK_FALSE(fs::exists(path));
  fs::remove_all(folder);
}

}  // namespace
