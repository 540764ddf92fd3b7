// SPDX-License-Identifier: Apache-2.0
#include "metrics/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <streambuf>
#include <string>
#include <string_view>

namespace eqt::metrics {
namespace {

/// Process names of Open MPI's and MPICH's mpirun, as the parent of a rank.
constexpr std::array<std::string_view, 6> kLaunchers = {
    "mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "hydra_pmi_proxy"};

/// A descriptor of the terminal at `path`, or -1. Opening never waits, for any kind of file.
int open_terminal(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 || is_terminal(descriptor)) return descriptor;
  ::close(descriptor);
  return -1;
}

/// True if the parent is a launcher that made `descriptor` a pipe to itself.
bool is_launched(int descriptor) {
  std::ifstream file(fmt::format("/proc/{}/comm", ::getppid()));
  std::string name;
  std::getline(file, name);
  return std::ranges::find(kLaunchers, name) != kLaunchers.end() && columns_of(descriptor) == 0;
}

}  // namespace

struct Terminal::State {
  /// Writes immediately and never waits.
  class Unbuffered : public std::streambuf {
   public:
    explicit Unbuffered(int descriptor) : descriptor_(descriptor) {}

   protected:
    std::streamsize xsputn(const char* text, std::streamsize count) override {
      // Lost text affects neither the run nor its records, which are files.
      [[maybe_unused]] const auto written =
          ::write(descriptor_, text, static_cast<std::size_t>(count));
      return count;
    }
    int_type overflow(int_type c) override {
      const char one = traits_type::to_char_type(c);
      xsputn(&one, 1);
      return traits_type::not_eof(c);
    }

   private:
    int descriptor_;
  };

  explicit State(int fd) : descriptor(fd), buffer(fd), stream(&buffer) {}
  int descriptor;
  Unbuffered buffer;
  std::ostream stream;
};

Terminal::Terminal(int descriptor) : state_(std::make_unique<State>(descriptor)) {
  // Below a launcher this process is in the background, where `stty tostop` would stop it.
  (void)std::signal(SIGTTOU, SIG_IGN);
}

Terminal::~Terminal() { ::close(state_->descriptor); }

std::ostream& Terminal::stream() { return state_->stream; }

std::size_t Terminal::columns() const {
  const std::size_t columns = columns_of(state_->descriptor);
  return columns > 0 ? columns : kUsualColumns;
}

bool is_terminal(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

std::size_t columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::unique_ptr<Terminal> find_terminal(int descriptor, bool wanted) {
  int found = -1;
  const char* named = descriptor == STDERR_FILENO ? std::getenv("EQT_TERMINAL") : nullptr;
  if (named != nullptr) found = open_terminal(named);
  if (found < 0 && is_launched(descriptor))
    found = open_terminal(fmt::format("/proc/{}/fd/{}", ::getppid(), descriptor));
  if (found < 0 && wanted) found = open_terminal("/dev/tty");
  return found < 0 ? nullptr : std::make_unique<Terminal>(found);
}

}  // namespace eqt::metrics
