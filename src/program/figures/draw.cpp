// SPDX-License-Identifier: Apache-2.0
#include "figures/draw.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/error.hpp"
#include "figures/gnuplot.hpp"
#include "figures/inline_svg.hpp"
#include "figures/script.hpp"
#include "figures/text.hpp"
#include "metrics/output_file.hpp"

namespace eqt::figures {
namespace {

// gnuplot processes at a time; more are not faster on small boards.
constexpr int kAtOnce = 2;

// Pixels of a PNG per unit of an SVG, so that it can be printed.
constexpr int kPngScale = 2;

struct Result {
  std::optional<std::string> svg;
  std::string failure;  // empty: not tried
  bool hung = false;
};

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) fail(Kind::output, "cannot read {} back; check the folder", visible(path));
  return text.str();
}

Result draw(const Drawing& drawing, const std::string& folder, std::chrono::seconds deadline) {
  const std::string path = folder + "/" + drawing.name;
  const auto begin = std::chrono::steady_clock::now();
  try {
    draw_file(drawing, path + ".png", deadline);
    draw_file(drawing, path + ".svg", deadline);
  } catch (const Error& error) {
    return {{}, error.what(), std::chrono::steady_clock::now() - begin >= deadline};
  }
  return {contents_of(path + ".svg"), ""};
}

/// All drawings, some at a time, in their order; none after one at which gnuplot hangs.
std::vector<Result> results_of(const std::vector<Drawing>& drawings, const std::string& folder,
                               std::chrono::seconds deadline) {
  std::vector<Result> results(drawings.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> hangs = false;
  const auto work = [&] {
    for (std::size_t i; !hangs && (i = next++) < drawings.size();) {
      results[i] = draw(drawings[i], folder, deadline);
      if (results[i].hung) hangs = true;
    }
  };
  std::vector<std::future<void>> workers;
  for (int i = 1; i < kAtOnce; ++i) workers.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& worker : workers) worker.get();
  return results;
}

}  // namespace

void draw_file(const Drawing& drawing, const std::string& path, std::chrono::seconds deadline) {
  run_gnuplot(drawing.script, {.path = path,
                               .width = kPlotWidth,
                               .height = drawing.height,
                               .scale = kPngScale,
                               .deadline = deadline});
  if (path.ends_with(".svg"))
    metrics::write_atomically(path,
                              described_svg(contents_of(path), drawing.title, drawing.description));
}

Drawn draw_all(const std::vector<Drawing>& drawings, const std::string& folder,
               std::chrono::seconds deadline) {
  Drawn drawn;
  if (!plot_available()) {
    drawn.failed.push_back(
        "No plots: gnuplot was not found; install it (Debian: gnuplot-nox) and report again.");
    return drawn;
  }
  const std::vector<Result> results = results_of(drawings, folder, deadline);
  std::size_t not_tried = 0;
  for (std::size_t i = 0; i < drawings.size(); ++i) {
    if (!results[i].svg && results[i].failure.empty()) {
      ++not_tried;
      continue;
    }
    if (!results[i].svg) {
      drawn.failed.push_back(
          fmt::format("No plot of {}: {}.", drawings[i].title, visible(results[i].failure)));
      continue;
    }
    drawn.pictures.push_back({drawings[i], *results[i].svg});
    for (const std::string_view ending : {".svg", ".png"})
      drawn.files.push_back(drawings[i].name + std::string(ending));
  }
  if (not_tried > 0)
    drawn.failed.push_back(
        fmt::format("{} other plots were not tried: gnuplot hangs; find out why by hand and report "
                    "again.",
                    not_tried));
  return drawn;
}

}  // namespace eqt::figures
