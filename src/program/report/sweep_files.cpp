// SPDX-License-Identifier: Apache-2.0
#include "report/sweep_files.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "figures/text.hpp"
#include "report/members.hpp"

namespace eqt::report {
using figures::finite;

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// The object in the file FOLDER + ending; null if there is none.
Json beside(const fs::path& folder, const char* ending) {
  const std::string text = read_document(folder.string() + ending);
  const Json found = text.empty() ? Json() : parse_lenient(text).first;
  return found.is_object() ? found : Json();
}

/// A member of an object, if it is a string, as people may see it.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? visible(found->get<std::string>()) : "";
}

/// Calls found(megabits, value) for each member of plan[key] that is a rate.
template <typename Found>
void for_each_rate(const Json& plan, const char* key, Found found) {
  const Json by_rate = plan.is_object() ? plan.value(key, Json()) : Json();
  if (!by_rate.is_object()) return;
  for (const auto& [rate, value] : by_rate.items()) {
    char* end = nullptr;
    const double megabits = std::strtod(rate.c_str(), &end);
    if (end == rate.c_str() || *end != '\0' || !(megabits > 0)) continue;
    found(megabits, value);
  }
}

Figure seconds_of(const Json& value) {
  return value.is_number() ? finite(value.get<double>()) : Figure();
}

void read_plan(const Json& plan, Run& run) {
  for_each_rate(plan, "seconds", [&](double megabits, const Json& value) {
    run.planned_seconds[megabits] = seconds_of(value);
  });
  for_each_rate(plan, "epochs", [&](double megabits, const Json& epochs) {
    std::vector<double> seconds;
    for (const Json& epoch : epochs.is_array() ? epochs : Json::array()) {
      const Figure known = seconds_of(epoch);
      if (!known) return;
      seconds.push_back(*known);
    }
    run.planned_epoch_seconds[megabits] = std::move(seconds);
  });
  if (plan.is_object()) run.planned_one_board = seconds_of(plan.value("one_board", Json()));
}

/// The folder's name without the seed, as scripts/sweep.sh makes it: "row,key=value,seed=1".
std::string row_of(const fs::path& folder) {
  std::string name = folder.filename().string();
  const std::size_t seed = name.find(",seed=");
  if (seed != std::string::npos)
    name.erase(seed, std::min(name.find(',', seed + 1), name.size()) - seed);
  return visible(name);
}

}  // namespace

void read_beside(const fs::path& found, Run& run) {
  const fs::path folder = found.filename().empty() ? found.parent_path() : found;
  const Json recipe = beside(folder, ".recipe.json");
  if (recipe.is_object()) run.row = row_of(folder);
  const std::string rate = text_of(recipe, "link");
  if (!rate.empty()) run.settings["link.rate"] = rate;
  read_plan(beside(folder, ".plan.json"), run);
  const std::string end = text_of(beside(folder, ".state.json"), "state");
  if (!end.empty()) run.end = end;
}

}  // namespace eqt::report
