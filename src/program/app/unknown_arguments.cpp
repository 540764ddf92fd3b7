// SPDX-License-Identifier: Apache-2.0
// Reports unknown arguments, each with a similar valid one.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "config/document.hpp"
#include "config/fields.hpp"
#include "config/nearest.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"

namespace eqt::app {
namespace {

/// The verb that was parsed last and the words that lead to it: "equant-train bench codecs".
struct Verb {
  const CLI::App* app;
  std::string words;
};

const CLI::App* parsed_verb(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? nullptr : parsed.front();
}

Verb last_verb(const CLI::App& program) {
  Verb verb{&program, program.get_name()};
  while (const CLI::App* next = parsed_verb(*verb.app))
    verb = {next, verb.words + " " + next->get_name()};
  return verb;
}

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) names.push_back(verb->get_name());
  return names;
}

/// The config keys that the verb's --set accepts; none without --set.
std::vector<std::string> settable_keys(const Verb& verb) {
  std::vector<std::string> keys;
  if (verb.app->get_option_no_throw("--set") == nullptr) return keys;
  const bool whole_config = verb.app->get_option_no_throw("--config") != nullptr;
  for (const config::Field& field : config::fields())
    if (whole_config || field.key.starts_with("compressor.") ||
        (verb.app->get_name() == "collectives" && field.key.starts_with("synchronization.")))
      keys.push_back(field.key);
  return keys;
}

/// The key for "epochs", "train.epochs" or "compressor" (compressor.name).
std::optional<std::string> key_named(const std::string& name,
                                     const std::vector<std::string>& keys) {
  for (const std::string& wanted : {name, "." + name, name + ".name"})
    for (const std::string& key : keys)
      if (key == wanted || (wanted.front() == '.' && key.ends_with(wanted))) return key;
  return {};
}

/// "--set train.epochs=3" for the option "--epochs" and the value "3".
std::string set_of(const std::string& key, const std::string& value) {
  return fmt::format("--set {}={}", key, value.empty() ? "VALUE" : value);
}

[[noreturn]] void unknown_option(const Verb& verb, const std::string& word, std::string value) {
  const std::size_t equals = word.find('=');
  const std::string option = word.substr(0, equals);
  if (equals != std::string::npos) value = word.substr(equals + 1);
  std::string name = option.substr(option.find_first_not_of('-') == std::string::npos
                                       ? option.size()
                                       : option.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  const auto refuse = [&](const std::string& advice) {
    fail(Kind::usage, "{}: unknown option {}; {}", verb.words, config::shown_text(option), advice);
  };
  const bool trains = verb.app->get_parent() == nullptr;
  if (trains && (name == "ranks" || name == "np" || name == "n"))
    refuse(fmt::format("ranks are started by {1} --ranks {0} or mpirun -np {0}",
                       value.empty() ? "N" : value, shipped("scripts/run_local.sh")));
  const std::vector<std::string> keys = settable_keys(verb), options = option_names(*verb.app);
  if (const auto key = key_named(name, keys))
    refuse("config keys are set by " + set_of(*key, value));
  if (const std::string* const near = config::close_name(option, options))
    refuse(fmt::format("the nearest is {}", *near));
  if (const std::string* const key = name.empty() ? nullptr : config::close_key(name, keys))
    refuse(fmt::format("the nearest is the config key {}, as in {}", *key, set_of(*key, value)));
  refuse(fmt::format("its options are {}", fmt::join(options, ", ")));
  std::abort();  // refuse() throws
}

bool looks_like_config(const std::string& word) {
  return word.ends_with(".json") || word.find('/') != std::string::npos;
}

[[noreturn]] void unknown_word(const Verb& verb, const std::string& word) {
  if (verb.app->get_option_no_throw("--config") != nullptr) {
    const std::size_t equals = word.find('=');
    const std::vector<std::string> keys = settable_keys(verb);
    if (equals != std::string::npos && config::close_key(word.substr(0, equals), keys) != nullptr)
      fail(Kind::usage, "{}: unexpected word {}; config keys are set by --set {}", verb.words,
           config::shown_text(word), word);
    if (looks_like_config(word))
      fail(Kind::usage, "{}: unexpected word {}; a config file is named by --config {}", verb.words,
           config::shown_text(word), word);
  }
  const std::vector<std::string> verbs = verb_names(*verb.app);
  if (verbs.empty())
    fail(Kind::usage, "{}: unexpected word {}; try {} --help", verb.words, config::shown_text(word),
         verb.words);
  const std::string* near = config::close_name(word, verbs);
  if (near == nullptr) {  // "eval"
    const auto begins = [&](const std::string& name) { return name.starts_with(word); };
    if (const auto first = std::ranges::find_if(verbs, begins); first != verbs.end())
      near = &*first;
  }
  fail(Kind::usage, "{}: expected one of {}, found {}; {}", verb.words, fmt::join(verbs, ", "),
       config::shown_text(word),
       near != nullptr ? fmt::format("the nearest is {}", *near)
                       : fmt::format("try {} --help", verb.words));
}

/// Options before a verb would be ignored, because a verb has its own.
void refuse_options_in_front(const CLI::App& program, const Verb& verb) {
  if (verb.app == &program) return;
  for (const CLI::Option* option : program.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    if (verb.app->get_option_no_throw(name) != nullptr)
      fail(Kind::usage, "{}: expected {} after the verb, found it before; write {} {} ...",
           verb.words, name, verb.words, name);
    fail(Kind::usage, "{}: expected no {} before the verb, found one; its options are {}",
         verb.words, name, fmt::join(option_names(*verb.app), ", "));
  }
}

}  // namespace

void require_known_arguments(const CLI::App& program) {
  const Verb verb = last_verb(program);
  const std::vector<std::string> left = program.remaining(true);
  const auto option = std::ranges::find_if(left, is_option);
  if (option != left.end()) {
    const auto next = std::next(option);
    const bool has_value = next != left.end() && !is_option(*next);
    unknown_option(verb, *option, has_value ? *next : "");
  }
  if (!left.empty()) unknown_word(verb, left.front());
  refuse_options_in_front(program, verb);
}

}  // namespace eqt::app
