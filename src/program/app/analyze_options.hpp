// SPDX-License-Identifier: Apache-2.0
// The options of `analyze` and its verbs.

#pragma once

#include <functional>
#include <memory>

#include "analyze/analyze.hpp"

namespace CLI {
class App;
}

namespace eqt::app {

/// Adds `analyze` to a program's options. After parsing, command() returns the command.
class AnalyzeOptions {
 public:
  explicit AnalyzeOptions(CLI::App& program);
  ~AnalyzeOptions();

  /// True if `analyze` is on the command line.
  bool parsed() const;
  /// @pre parsed()
  /// @throws Error{usage} without one of its verbs
  analyze::AnalyzeCommand command() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace eqt::app
