// SPDX-License-Identifier: Apache-2.0
// Plots: gnuplot's input, its output, and errors.

#include "figures/gnuplot.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace eqt;
using namespace eqt::figures;

const std::string kLine = "$data << end\n1 1\n2 4\n3 9\nend\nplot $data using 1:2 with lines\n";

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The error of a call that must fail: its kind and message.
template <typename Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("expected an error");
  return {Kind::bug, ""};
}

/// Sets PATH to another value while it exists.
class PathOf {
 public:
  explicit PathOf(const std::string& folders) : before_(getenv("PATH")) {
    setenv("PATH", folders.c_str(), 1);
  }
  ~PathOf() { setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

/// A program named gnuplot with the script `body`.
void pretend_gnuplot(const std::string& folder, const std::string& body) {
  const std::string path = folder + "/gnuplot";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("a plot's ending says how it is drawn") {
  CHECK(is_plot_path("a.svg"));
  CHECK(is_plot_path("b/c.png"));
  CHECK_FALSE(is_plot_path(".svg"));
  CHECK_FALSE(is_plot_path("a.pdf"));
  CHECK(error_of([] { run_gnuplot(kLine, {"a.pdf"}); }).kind() == Kind::usage);
}

TEST_CASE("quoted text is not interpreted in a gnuplot script") {
  CHECK(gnuplot_quoted("plain") == "\"plain\"");
  CHECK(gnuplot_quoted("a_b") == "\"a\\\\_b\"");
  CHECK(gnuplot_quoted("say \"x\"\n") == "\"say \\\"x\\\" \"");
  CHECK(gnuplot_quoted("`ls`") == "\"\\`ls\\`\"");  // gnuplot would run it
}

TEST_CASE("without gnuplot the error says what to install, and no file is made") {
  const test::TemporaryFolder folder;
  const PathOf path(folder.path());
  CHECK_FALSE(plot_available());
  const std::string plot = folder.path() + "/plot.svg";
  const Error error = error_of([&] { run_gnuplot(kLine, {plot}); });
  CHECK(error.kind() == Kind::output);
  CHECK(std::string(error.what()).find("gnuplot-nox") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(plot));
}

TEST_CASE(
    "a gnuplot that hangs is ended at the deadline, and the error of one that fails is quoted") {
  const test::TemporaryFolder folder;
  const PathOf path(folder.path() + ":/usr/bin:/bin");
  const std::string plot = folder.path() + "/plot.svg";
  pretend_gnuplot(folder.path(), "exec sleep 1000");
  const Error slow = error_of([&] {
    run_gnuplot(kLine, {plot, 900, 600, 1, std::chrono::seconds(1)});
  });
  CHECK(slow.kind() == Kind::output);
  CHECK(std::string(slow.what()).find("within 1 s") != std::string::npos);
  pretend_gnuplot(folder.path(), "echo 'no such terminal' >&2; exit 1");
  const Error failed = error_of([&] { run_gnuplot(kLine, {plot}); });
  CHECK(failed.kind() == Kind::output);
  CHECK(std::string(failed.what()).find("no such terminal") != std::string::npos);
  pretend_gnuplot(folder.path(), "cat > /dev/null");
  CHECK(error_of([&] { run_gnuplot(kLine, {plot}); }).kind() == Kind::output);
  CHECK_FALSE(std::filesystem::exists(plot));
}

TEST_CASE(
    "gnuplot gets the whole script, with the terminal first, and its output becomes the file") {
  const test::TemporaryFolder folder;
  const PathOf path(folder.path() + ":/usr/bin:/bin");
  pretend_gnuplot(folder.path(), "exec cat");
  const std::string plot = folder.path() + "/plot.png";
  const std::string script(200000, '#');  // more than a pipe holds
  run_gnuplot(script, {plot, 640, 480});
  const std::string drawn = contents(plot);
  CHECK(drawn.find("set terminal pngcairo size 640,480") == 0);
  CHECK(drawn.find(script) != std::string::npos);
}
