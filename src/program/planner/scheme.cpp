// SPDX-License-Identifier: Apache-2.0
#include "planner/scheme.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "config/document.hpp"
#include "core/error.hpp"

namespace eqt::planner {
namespace {

constexpr std::string_view kCompressor = "compressor.name";
constexpr std::array<const char*, 8> kUsual = {
    "none", "bf16", "terngrad", "qsgd", "elastiquant", "e-elastiquant", "topk", "powersgd"};
constexpr std::size_t kMostSchemes = 256;

struct Choice {
  std::string key;
  std::vector<std::string> values;
};

/// "key=a,b,c", or as sweeps have written it "key=a|b|c"; what is within brackets or quotes does
/// not divide.
Choice parse_choice(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    fail(Kind::usage, "--vary: expected KEY=VALUE,VALUE,..., found {}", config::shown_text(text));
  Choice choice = {text.substr(0, equals), {""}};
  int depth = 0;
  bool quoted = false;
  for (const char c : text.substr(equals + 1)) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if ((c == ',' || c == '|') && depth == 0 && !quoted) {
      choice.values.emplace_back();
    } else {
      choice.values.back() += c;
    }
  }
  return choice;
}

bool is_of_compressor(const std::string& set) { return set.starts_with("compressor."); }

/// The config with these values, each "key=value".
config::RunConfig with(const config::RunConfig& base, const std::string& text,
                       const std::string& origin, const std::vector<std::string>& sets,
                       const std::vector<std::string>& values) {
  std::string document = text;
  std::vector<std::string> all = sets;
  const std::string prefix = std::string(kCompressor) + "=";
  for (const std::string& value : values) {
    if (!value.starts_with(prefix) || value.substr(prefix.size()) == base.compressor.name->name)
      continue;
    config::Json json = config::parse_document(text, origin);
    json.erase("compressor");
    document = json.dump();
    std::erase_if(all, is_of_compressor);
  }
  all.insert(all.end(), values.begin(), values.end());
  return config::parse_config(document, origin, all);
}

}  // namespace

std::vector<Scheme> schemes_of(const std::string& config_text, const std::string& origin,
                               const std::vector<std::string>& sets,
                               const std::vector<std::string>& vary, bool uneven) {
  const config::RunConfig base = config::parse_config(config_text, origin, sets);
  const std::string own(base.compressor.name->name);
  std::vector<Scheme> schemes;
  if (vary.empty()) {
    schemes.push_back({own, base});
    const auto add = [&](const std::string& name, const std::string& set) {
      try {
        schemes.push_back({name, with(base, config_text, origin, sets, {set})});
      } catch (const Error& error) {
        if (error.kind() != Kind::usage) throw;  // the config's other keys do not suit it
      }
    };
    if (uneven && !base.train.has_batches_by_rank())
      add(own + ", batches by speed", "train.batch_sizes=\"auto\"");
    for (const char* const name : kUsual)
      if (own != name) add(name, fmt::format("{}={}", kCompressor, name));
    return schemes;
  }
  std::vector<std::vector<std::string>> combinations = {{}};
  std::vector<std::string> names = {""};
  for (const std::string& text : vary) {
    const Choice choice = parse_choice(text);
    std::vector<std::vector<std::string>> more;
    std::vector<std::string> more_names;
    for (std::size_t i = 0; i < combinations.size(); ++i) {
      for (const std::string& value : choice.values) {
        more.push_back(combinations[i]);
        more.back().push_back(fmt::format("{}={}", choice.key, value));
        const bool says_itself = value.find_first_not_of("0123456789.-") != std::string::npos &&
                                 value != "true" && value != "false";
        const std::string shown =
            says_itself ? value
                        : fmt::format("{} {}", choice.key.substr(choice.key.rfind('.') + 1), value);
        more_names.push_back(names[i].empty() ? shown : names[i] + ", " + shown);
      }
    }
    if (more.size() > kMostSchemes)
      fail(Kind::usage, "--vary: expected at most {} combinations, found {} or more", kMostSchemes,
           more.size());
    combinations = std::move(more);
    names = std::move(more_names);
  }
  for (std::size_t i = 0; i < combinations.size(); ++i)
    schemes.push_back({names[i], with(base, config_text, origin, sets, combinations[i])});
  return schemes;
}

}  // namespace eqt::planner
