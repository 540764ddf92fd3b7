// SPDX-License-Identifier: Apache-2.0
// Every verb refuses options and words that it does not know, with the word and a similar one.

#include "app/command_line.hpp"

#include <regex>

#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::app;

namespace {

using Words = std::vector<std::string>;

Command parsed(Words words) {
  words.insert(words.begin(), "equant-train");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

/// Checks that the sentence names all of these.
void refuse(const Words& words, const Words& named) {
  std::string line = "equant-train";
  for (const std::string& word : words) line += " " + word;
  INFO(line);
  const std::string found = test::refusal(Kind::usage, [&] { parsed(words); });
  for (const std::string& name : named) test::says(found, name);
}

Words followed_by(Words words, const std::string& last) {
  words.push_back(last);
  return words;
}

/// The verbs in the help of a verb.
Words verbs_of(const Words& verb) {
  const std::string help = std::get<PrintCommand>(parsed(followed_by(verb, "--help"))).text;
  const std::regex line("\n  ([a-z][a-z-]*) ");
  const auto begin = help.find("Subcommands:");
  if (begin == std::string::npos) return {};
  Words names;
  const std::string list = help.substr(begin);
  for (std::sregex_iterator found(list.begin(), list.end(), line), end; found != end; ++found)
    names.push_back((*found)[1]);
  return names;
}

/// @return the verbs below
Words walk(const Words& verb) {
  refuse(followed_by(verb, "--no-such-option"),
         {"\"--no-such-option\"", "its options are", "--help"});
  const Words names = verbs_of(verb);
  if (names.empty()) return names;
  refuse(followed_by(verb, "nosuchverb"), followed_by(names, "nosuchverb"));
  refuse(followed_by(verb, names.back() + names.back().back()), {names.back()});
  for (const std::string& name : names) walk(followed_by(verb, name));
  return names;
}

}  // namespace

TEST_CASE("every verb refuses unknown options and words", "[command_line]") {
  const Words names = walk({});
  CHECK(names.size() >= 12);
  for (const std::string& name : names) {
    Words words = {"--quiet", name};
    if (name == "report" || name == "evaluate" || name == "export") words.push_back(".");
    if (name == "predict") words.insert(words.end(), {".", "a.png"});
    if (name == "bench") words.push_back("codecs");
    if (name == "analyze") words.push_back("levels");
    refuse(words, {"--quiet", "before"});
  }
}

TEST_CASE("a config key written as an option is shown as --set", "[command_line]") {
  refuse({"--epochs", "3"}, {"--set train.epochs=3"});
  refuse({"check", "--epochs=3"}, {"--set train.epochs=3"});
  refuse({"--batch-size", "8"}, {"--set train.batch_size=8"});
  refuse({"--lr", "0.1"}, {"--set optimizer.learning_rate=0.1"});
  refuse({"--compressor", "qsgd"}, {"--set compressor.name=qsgd"});
  refuse({"--config", "a.json", "train.epochs=3"}, {"--set train.epochs=3"});
  refuse({"bench", "codecs", "--bits", "3"}, {"--set compressor.bits=3"});
}

TEST_CASE("what else is meant by an unknown word", "[command_line]") {
  refuse({"configs/quickstart.json"}, {"--config configs/quickstart.json"});
  refuse({"check", "configs/quickstart.json"}, {"--config configs/quickstart.json"});
  refuse({"--config", "a.json", "--quite"}, {"--quiet"});
  refuse({"report", ".", "--tabel", "x"}, {"--table"});
  refuse({"--config", "a.json", "--ranks", "4"},
         {"mpirun -np 4", "scripts/run_local.sh --ranks 4"});
  refuse({"analyze", "levels", "--bist", "3"}, {"--bits"});
  refuse({"analyze", "levels", "codecs"}, {"\"codecs\""});
  refuse({"list", "-x"}, {"\"-x\""});
  refuse({"list", "compresors"}, {"compressors"});
  refuse({"--config", "a.json", "check"}, {"--config", "before"});
  refuse({"schema", "models"}, {"\"models\""});
  refuse({"export", ".", "--to", "coreml"}, {"coreml"});
  refuse({}, {"--config FILE", "--help"});
  refuse({"--configure", "x"}, {"--configure"});
  refuse({"reprot", "."}, {"nearest is report"});
  refuse({"eval", "."}, {"nearest is evaluate"});
}

TEST_CASE("every verb takes a plugin, so that a line works with the next verb, too",
          "[command_line]") {
  for (const Words& words : std::vector<Words>{{"predict", ".", "a.png"},
                                               {"evaluate", "."},
                                               {"export", "."},
                                               {"report", "."},
                                               {"list"},
                                               {"schema"},
                                               {"doctor"},
                                               {"completion"}})
    CHECK_NOTHROW(parsed(followed_by(followed_by(words, "--plugin"), "mine.so")));
}

TEST_CASE("options of another kind of analysis", "[command_line]") {
  refuse({"analyze", "volume", "--plot", "a.svg"}, {"--plot"});
  refuse({"analyze", "memory", "--paper", "--copies", "3"}, {"--paper", "--copies"});
  refuse({"analyze", "convergence", "nonconvex", "--momentum", "0.5"},
         {"--momentum", "convex-momentum"});
}
