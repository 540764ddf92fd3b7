// SPDX-License-Identifier: Apache-2.0
#include "figures/gnuplot.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "core/error.hpp"
#include "metrics/output_file.hpp"

namespace eqt::figures {
namespace {

constexpr const char* kProgram = "gnuplot";

struct Closer {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

/// A file without a name, which is removed when its descriptor is closed. Child programs do not
/// inherit it.
File nameless_file() {
  File file(std::tmpfile());
  if (!file || fcntl(fileno(file.get()), F_SETFD, FD_CLOEXEC) != 0)
    fail(Kind::output,
         "expected a temporary file to draw a plot with, but {}; check the space left in the "
         "folder of temporary files",
         std::generic_category().message(errno));
  return file;
}

std::string contents_of(std::FILE* file) {
  std::string text;
  std::array<char, 65536> block;
  std::rewind(file);
  for (std::size_t count; (count = std::fread(block.data(), 1, block.size(), file)) > 0;)
    text.append(block.data(), count);
  return text;
}

/// gnuplot's error message on one line, without the lines that show the position.
std::string last_words(std::FILE* file) {
  const std::string text = contents_of(file);
  std::string words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t first = text.find_first_not_of(" \t^", begin);
    if (first < end && text[begin] != '\t')
      words += fmt::format("{}{}", words.empty() ? "" : " ", text.substr(first, end - first));
    begin = end + 1;
  }
  constexpr std::size_t kMost = 300;
  if (words.size() > kMost) words = fmt::format("...{}", words.substr(words.size() - kMost));
  return words.empty() ? "nothing" : words;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

/// The line that sets the terminal.
std::string terminal_of(const Plot& plot) {
  if (ends_with(plot.path, ".svg"))
    return fmt::format(
        "set terminal svg size {},{} enhanced font 'sans-serif,14' background '#ffffff'\n",
        plot.width, plot.height);
  // Sizes of letters are pixels in SVG, and points here, of which 3 are 4 pixels.
  if (ends_with(plot.path, ".png"))
    return fmt::format(
        "set terminal pngcairo size {},{} enhanced font 'sans,14' fontscale {} linewidth {} "
        "pointscale {}\n",
        plot.width * plot.scale, plot.height * plot.scale, 0.75 * plot.scale, plot.scale,
        plot.scale);
  fail(Kind::usage, "plot: expected a file that ends in .svg or .png, found {}", plot.path);
}

/// A child process that reads and writes only files, so that nothing waits for a pipe.
class Child {
 public:
  Child(std::FILE* in, std::FILE* out, std::FILE* err) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
    // -d: no settings of the user; -: commands from standard input.
    std::array<std::string, 3> words = {kProgram, "-d", "-"};
    std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    const int error =
        posix_spawnp(&process_, kProgram, &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      fail(Kind::output, "expected gnuplot to start, but {}; check that it runs by hand",
           std::generic_category().message(error));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (ended_) return;
    (void)kill(process_, SIGKILL);
    (void)waitpid(process_, nullptr, 0);
  }

  /// @return true if it ended successfully within the deadline
  bool wait(std::chrono::seconds deadline) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    for (auto pause = std::chrono::milliseconds(2);; pause = std::min(2 * pause, kLongestPause)) {
      int status = 0;
      const pid_t found = waitpid(process_, &status, WNOHANG);
      if (found == process_ || (found < 0 && errno != EINTR)) {
        ended_ = true;
        return found == process_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      }
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(pause);
    }
  }
  bool ended() const { return ended_; }

 private:
  static constexpr std::chrono::milliseconds kLongestPause{50};
  pid_t process_ = -1;
  bool ended_ = false;
};

}  // namespace

bool is_plot_path(std::string_view path) {
  return ends_with(path, ".svg") || ends_with(path, ".png");
}

bool plot_available() {
  const char* path = getenv("PATH");
  const std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder(folders.substr(begin, end - begin));
    const std::string program = (folder.empty() ? "." : folder) + "/" + kProgram;
    if (access(program.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

void run_gnuplot(std::string_view script, const Plot& plot) {
  const std::string terminal = terminal_of(plot);
  if (!plot_available())
    fail(Kind::output,
         "plot: expected gnuplot on PATH to draw {}, found none; install it (Debian: gnuplot-nox) "
         "or leave the plot out",
         plot.path);
  const File in = nameless_file(), out = nameless_file(), err = nameless_file();
  const std::string text = terminal + std::string(script) + "\nunset output\n";
  if (std::fwrite(text.data(), 1, text.size(), in.get()) != text.size() ||
      std::fflush(in.get()) != 0)
    fail(Kind::output, "plot: expected room for gnuplot's script of {} bytes, found none",
         text.size());
  std::rewind(in.get());
  Child child(in.get(), out.get(), err.get());
  if (!child.wait(plot.deadline)) {
    if (!child.ended())
      fail(Kind::output, "plot: expected gnuplot to draw {} within {} s, found it still at work",
           plot.path, plot.deadline.count());
    fail(Kind::output, "plot: expected gnuplot to draw {}, but it says: {}", plot.path,
         last_words(err.get()));
  }
  const std::string drawing = contents_of(out.get());
  if (drawing.empty())
    fail(Kind::output, "plot: expected gnuplot to draw {}, found nothing drawn; it says: {}",
         plot.path, last_words(err.get()));
  metrics::write_atomically(plot.path, drawing);
}

std::string gnuplot_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += ' ';
    } else if (c == '"' || c == '\\' || c == '`') {  // ` would run a command
      quoted += {'\\', c};
    } else if (std::strchr("_^{}@&~", c) != nullptr) {
      quoted += {'\\', '\\', c};
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace eqt::figures
