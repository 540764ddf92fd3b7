// SPDX-License-Identifier: Apache-2.0
// The console sink with its streams, clock and terminal as parameters, for tests and other front
// ends.

#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "metrics/sink.hpp"

namespace eqt::metrics {

struct Console {
  std::ostream& progress;
  std::ostream& table;
  bool is_terminal = false;              // of `progress`
  std::function<std::size_t()> columns;  // of the terminal
  std::function<double()> seconds;       // monotonic
  std::function<std::string()> time;     // the beginning of a line: "12:34:56"
  std::size_t table_columns = 80;        // the most of the final table
};

/// See make_console_sink(style).
std::unique_ptr<Sink> make_console_sink(ProgressStyle style, Console console);

}  // namespace eqt::metrics
