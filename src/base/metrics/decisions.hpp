// SPDX-License-Identifier: Apache-2.0
// decisions.jsonl: what a run decided by measured times, so that another run can repeat it.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.hpp"
#include "metrics/records.hpp"

namespace eqt::metrics {

/// The kind of a line that says to which step the run went back: decisions before that line about
/// later steps are void.
inline constexpr const char* kBackTo = "back to";

/// The decisions of one kind that count, in the order of their steps. Of several for the same step
/// it is the last one: the run was resumed and decided again.
/// @throws Error{data} if the file cannot be read or has a line that is no decision: which line
std::vector<DecisionRecord> read_decisions(const std::string& path, std::string_view kind);

/// A list that is read from its beginning as the steps pass.
class Replay {
 public:
  /// @param decisions of read_decisions()
  explicit Replay(std::vector<DecisionRecord> decisions) : decisions_(std::move(decisions)) {}

  /// Returns what was decided after `step` completed steps; null: nothing. The pointer stays valid.
  const DecisionRecord* after(StepId step) const;
  const std::vector<DecisionRecord>& all() const noexcept { return decisions_; }

 private:
  std::vector<DecisionRecord> decisions_;
};

}  // namespace eqt::metrics
