// SPDX-License-Identifier: Apache-2.0
#include "metrics/decisions.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "metrics/record_json.hpp"
#include "metrics/run_files.hpp"

namespace eqt::metrics {
namespace {

constexpr FileLimits kFile{.what = "the decisions of a run",
                           .max_bytes = std::uint64_t{256} << 20,
                           .remedy = "give the decisions.jsonl of a run's folder"};

bool is_decision(const Json& line) {
  if (!line.is_object() || !line.contains("step") || !line.contains("kind") ||
      !line.contains("values"))
    return false;
  const Json& values = line["values"];
  return line["step"].is_number_unsigned() && line["kind"].is_string() && values.is_array() &&
         std::ranges::all_of(values, [](const Json& value) {
           return value.is_number() && std::isfinite(value.get<double>());
         });
}

}  // namespace

std::vector<DecisionRecord> read_decisions(const std::string& path, std::string_view kind) {
  std::istringstream file(read_whole_file(path, kFile));
  std::map<StepId, DecisionRecord> by_step;
  std::string text;
  std::size_t number = 0;
  while (std::getline(file, text)) {
    ++number;
    const Json line = Json::parse(text, nullptr, false);
    if (!is_decision(line))
      fail(Kind::data,
           "{}, line {}: expected a decision with \"step\", \"kind\" and a list of numbers "
           "\"values\", found another text; give the {} of a run's folder",
           path, number, run_files::kDecisions);
    const auto& found = line["kind"].get_ref<const std::string&>();
    if (const auto back = back_to(line))
      std::erase_if(by_step, [&](const auto& decision) {
        return static_cast<double>(decision.first) > *back;
      });
    if (found != kind) continue;
    const StepId step = line["step"].get<StepId>();
    const bool has_reason = line.contains("why") && line["why"].is_string();
    by_step[step] = {.step = step,
                     .kind = std::string(kind),
                     .values = line["values"].get<std::vector<double>>(),
                     .why = has_reason ? line["why"].get<std::string>() : std::string()};
  }
  std::vector<DecisionRecord> decisions;
  for (auto& [step, decision] : by_step) decisions.push_back(std::move(decision));
  return decisions;
}

const DecisionRecord* Replay::after(StepId step) const {
  const auto found = std::ranges::lower_bound(decisions_, step, {}, &DecisionRecord::step);
  return found != decisions_.end() && found->step == step ? &*found : nullptr;
}

}  // namespace eqt::metrics
