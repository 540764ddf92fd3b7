// SPDX-License-Identifier: Apache-2.0
// The manual page and the shell completion, from the tables of options and config keys.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "app/command_line.hpp"
#include "app/verbs.hpp"
#include "config/fields.hpp"
#include "core/error.hpp"
#include "core/version.hpp"

namespace eqt::app {
namespace {

struct ExitCode {
  int code;
  const char* meaning;
};

constexpr ExitCode kExitCodes[] = {
    {0, "success"},
    {static_cast<int>(Kind::usage), "the command line or the config is wrong"},
    {static_cast<int>(Kind::data), "a data or weights file is missing or malformed"},
    {static_cast<int>(Kind::diverged), "training diverged: a value is infinite or not a number"},
    {static_cast<int>(Kind::wire), "a message of another rank was malformed"},
    {static_cast<int>(Kind::mpi), "MPI failed"},
    {static_cast<int>(Kind::timeout), "a rank did not answer in time"},
    {static_cast<int>(Kind::bug), "an error in the program itself"},
    {static_cast<int>(Kind::output), "results could not be written"},
    {static_cast<int>(Kind::interrupted),
     "stopped by a signal; a checkpoint was saved, and --resume continues"},
};

/// Text escaped for roff.
std::string plain(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool line_begins = escaped.empty() || escaped.back() == '\n';
    if (line_begins && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == ',')
      escaped += ",\\:";  // a line may end here
    else
      escaped += c;
  }
  return escaped;
}

/// Options without the positional arguments, in the order in which they were added.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  std::erase_if(options, [](const CLI::Option* option) { return option->get_positional(); });
  return options;
}

void add_options(const CLI::App& app, std::string& page) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_size() == 0 ? "" : option->get_type_name();
    const std::string name = plain(option->get_name(option->get_positional(), true));
    if (type.empty())
      page += fmt::format(".TP\n.B {}\n", name);
    else
      page += fmt::format(".TP\n.BI \"{} \" \"{}\"\n", name, plain(type));
    page += plain(option->get_description()) + '\n';
  }
}

void add_verbs(const CLI::App& app, const std::string& words, std::string& page) {
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    const std::string name = words + verb->get_name();
    page += fmt::format(".SS {}\n{}\n", plain(name), plain(verb->get_description()));
    add_options(*verb, page);
    add_verbs(*verb, name + " ", page);
  }
}

void add_keys(std::string& page) {
  const config::RunConfig defaults;
  for (const config::Field& field : config::fields()) {
    page += fmt::format(".TP\n.B {}\n{}.\n", plain(field.key), plain(field.about));
    page += fmt::format("Takes {}; default {}.\n", plain(config::expectation(field)),
                        plain(field.read(defaults).dump()));
  }
}

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) words.push_back(verb->get_name());
  for (const CLI::Option* option : options_of(app))
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  return words;
}

/// The path of a verb below another: "bench codecs".
std::string below(const std::string& path, const CLI::App& verb) {
  return path.empty() ? verb.get_name() : path + " " + verb.get_name();
}

/// One `case` of the script for each verb: "'bench codecs') words='...' ;;".
void add_cases(const CLI::App& app, const std::string& path, std::string& script) {
  std::vector<std::string> words = words_of(app);
  if (path == "list") {
    const std::vector<std::string> categories = list_categories();
    words.insert(words.end(), categories.begin(), categories.end());
  }
  script += fmt::format("    '{}') words='{}' ;;\n", path, fmt::join(words, " "));
  for (const CLI::App* verb : app.get_subcommands(nullptr))
    add_cases(*verb, below(path, *verb), script);
}

/// The names that an option accepts; none if it takes others, or none are known.
std::vector<std::string> names_for(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& [word, key] : {std::pair("--compressor", "compressor.name"),
                                  std::pair("--collective", "synchronization.collective")})
    if (option.check_name(word))
      for (const config::Choice& choice : config::config_choices(key)) names.push_back(choice.name);
  // CLI11 describes a set so: "TEXT:{test,train}".
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  if (end == std::string::npos) return names;
  std::string name;
  for (const char c : type.substr(begin + 1, end - begin)) {
    if (c != ',' && c != '}') {
      name += c;
    } else {
      names.push_back(std::exchange(name, {}));
    }
  }
  return names;
}

/// Adds what follows an option that takes a value, a `case` for each verb and option: names, files,
/// or something that is not known.
void add_values(const CLI::App& app, const std::string& path, std::string& script) {
  std::vector<std::string> of_files, of_others;
  for (const CLI::Option* option : options_of(app)) {
    if (option->get_expected_max() == 0 || option->get_lnames().empty()) continue;  // a flag
    const std::string words = fmt::format("'{} --{}'", path, option->get_lnames().front());
    const std::string type = option->get_type_name();
    if (const auto names = names_for(*option); !names.empty())
      script += fmt::format("    {}) takes=names words='{}' ;;\n", words, fmt::join(names, " "));
    else if (type.find("KEY=") != std::string::npos)
      script += fmt::format("    {}) takes=keys ;;\n", words);
    else if (type.starts_with("FILE") || type.starts_with("FOLDER") || type.starts_with("DIR") ||
             type.starts_with("PATH"))
      of_files.push_back(words);
    else
      of_others.push_back(words);
  }
  if (!of_files.empty())
    script += fmt::format("    {}) takes=files ;;\n", fmt::join(of_files, " | "));
  if (!of_others.empty())
    script += fmt::format("    {}) takes=others ;;\n", fmt::join(of_others, " | "));
  for (const CLI::App* verb : app.get_subcommands(nullptr))
    add_values(*verb, below(path, *verb), script);
}

void collect_paths(const CLI::App& app, const std::string& path, std::vector<std::string>& paths) {
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    paths.push_back("'" + below(path, *verb) + "'");
    collect_paths(*verb, below(path, *verb), paths);
  }
}

/// Reads the line so far: the option before the cursor, also with "=", at which bash splits words,
/// and KEY of --set KEY=VALUE.
constexpr const char* kReadLine = R"(
  done
  if [[ $before == = || $word == = ]]; then
    if [[ $word == = ]]; then key=$before word=''; else key=${COMP_WORDS[COMP_CWORD-2]}; fi
    if [[ $key == --* ]]; then before=$key key=''; fi
  fi
  case $key in
)";

constexpr const char* kOfferValues = R"(  esac
  if [[ -n $key ]]; then
    local first=''
    [[ $word != *,* ]] || first=${word%,*},  # a list of --vary
    mapfile -t COMPREPLY < <(compgen -P "$first" -W "$words" -- "${word##*,}")
    return
  fi
  _equant_train_value "$path" "$before"
  case $takes in
    names) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word"); return ;;
    keys) compopt -o nospace; mapfile -t COMPREPLY < <(compgen -W "$keys" -- "$word"); return ;;
    files) return ;;  # those of the default
    others) compopt +o default; return ;;
  esac
  case $path in
)";

constexpr const char* kOfferWords = R"(  esac
  if [[ $word == -* || -z $word || -z $path || $path == list || $path == bench ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
}
complete -o default -F _equant_train equant-train
)";

/// A `case` for each key that accepts names.
std::string key_cases() {
  std::string cases;
  for (const config::Field& field : config::fields()) {
    std::vector<std::string> names;
    for (const config::Choice& choice : field.choices()) names.push_back(choice.name);
    if (field.type == config::FieldType::boolean) names = {"true", "false"};
    if (!names.empty())
      cases += fmt::format("    {}) words='{}' ;;\n", field.key, fmt::join(names, " "));
  }
  return cases;
}

}  // namespace

std::string manual_page(const CLI::App& program) {
  // A list of names has no spaces to stretch. groff 1.23 takes the adjustment from the string AD
  // at every heading.
  std::string page =
      ".TH EQUANT\\-TRAIN 1 \"\" \"equant\\-train " + plain(version()) +
      "\" \"User commands\"\n.ds AD l\n.ad l\n.SH NAME\nequant\\-train \\- train neural "
      "networks over slow networks with compressed gradients\n.SH SYNOPSIS\n";
  page +=
      ".B mpirun \\-np\n.I N\n.B equant\\-train \\-\\-config\n.I FILE\n[\\fIoptions\\fR]\n.br\n"
      ".B equant\\-train\n.I verb\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n";
  page += plain(program.get_description()) +
          "\nWithout a verb it trains: every MPI rank runs the same command.\n.SH OPTIONS\n";
  add_options(program, page);
  page += ".SH VERBS\n";
  add_verbs(program, "", page);
  page += ".SH CONFIG KEYS\nA config is a JSON file; a dot means an object inside an object.\n";
  add_keys(page);
  page += ".SH EXIT STATUS\n";
  for (const ExitCode& code : kExitCodes)
    page += fmt::format(".TP\n.B {}\n{}\n", code.code, plain(code.meaning));
  page +=
      ".SH FILES\n.TP\n.I share/equant\\-train\n"
      "Beside the folder bin of the program: its configs, scripts and documents.\n"
      ".TP\n.I $HOME/.local/share/equant\\-train/data\n"
      "The data sets that its script get_data.sh has downloaded.\n";
  return page + ".SH SEE ALSO\n.BR mpirun (1)\n";
}

std::string bash_completion(const CLI::App& program) {
  std::vector<std::string> paths, keys;
  collect_paths(program, "", paths);
  for (const config::Field& field : config::fields()) keys.push_back(field.key + "=");
  std::string verb_cases, value_cases;
  add_cases(program, "", verb_cases);
  add_values(program, "", value_cases);
  return fmt::format(
             "# Completion of equant-train for bash; \"equant-train completion\" prints it.\n"
             "# _equant_train_value VERB OPTION: what the option takes, in `takes` and `words`.\n"
             "_equant_train_value() {{\n"
             "  takes=''\n"
             "  case \"$1 $2\" in\n{}"
             "  esac\n"
             "}}\n"
             "_equant_train() {{\n"
             "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
             "  local i path='' words='' key='' takes='' keys='{}'\n"
             "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
             "    _equant_train_value \"$path\" \"${{COMP_WORDS[i-1]}}\"\n"
             "    [[ -z $takes && ${{COMP_WORDS[i-1]}} != = ]] || continue\n"
             "    case ${{path:+$path }}${{COMP_WORDS[i]}} in\n"
             "      {}) path+=${{path:+ }}${{COMP_WORDS[i]}} ;;\n"
             "    esac",
             value_cases, fmt::join(keys, " "), fmt::join(paths, " | ")) +
         kReadLine + key_cases() + kOfferValues + verb_cases + kOfferWords;
}

}  // namespace eqt::app
