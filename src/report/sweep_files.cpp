// SPDX-License-Identifier: Apache-2.0
#include "report/sweep_files.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "report/document.hpp"
#include "report/members.hpp"
#include "report/text.hpp"

namespace eqt::report {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// The object in the file FOLDER + ending; null if there is none.
Json beside(fs::path folder, const char* ending) {
  if (folder.filename().empty()) folder = folder.parent_path();
  const std::string text = read_document(folder.string() + ending);
  const Json found = text.empty() ? Json() : parse_lenient(text).first;
  return found.is_object() ? found : Json();
}

/// A member of an object, if it is a string, as people may see it.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? visible(found->get<std::string>()) : "";
}

void read_plan(const Json& plan, Run& run) {
  const Json seconds = plan.is_object() ? plan.value("seconds", Json()) : Json();
  if (!seconds.is_object()) return;
  for (const auto& [rate, value] : seconds.items()) {
    char* end = nullptr;
    const double megabits = std::strtod(rate.c_str(), &end);
    if (end == rate.c_str() || *end != '\0' || !(megabits > 0)) continue;
    run.planned_seconds[megabits] = value.is_number() ? finite(value.get<double>()) : Figure();
  }
}

}  // namespace

void read_beside(const fs::path& folder, Run& run) {
  const std::string rate = text_of(beside(folder, ".recipe.json"), "link");
  if (!rate.empty()) run.settings["link.rate"] = rate;
  read_plan(beside(folder, ".plan.json"), run);
  const std::string end = text_of(beside(folder, ".state.json"), "state");
  if (!end.empty()) run.end = end;
}

}  // namespace eqt::report
