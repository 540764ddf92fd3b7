// SPDX-License-Identifier: Apache-2.0
#include "data/text/word_piece.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt::data;
using eqt::Kind;
using eqt::test::refusal;
using eqt::test::says;

namespace {

const std::string kSpecial = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";

std::string refused(const std::string& file) {
  return refusal(Kind::data, [&] { Vocabulary(file, "v.txt"); });
}

}  // namespace

TEST_CASE("a token's number is that of its line", "[vocabulary]") {
  const Vocabulary vocabulary("[PAD]\n[unused1]\n[CLS]\r\n[SEP] \n[UNK]\nab\n##b\nab\n\n##",
                              "v.txt");
  CHECK(vocabulary.size() == 10);
  CHECK(vocabulary.padding() == 0);
  CHECK(vocabulary.begin() == 2);
  CHECK(vocabulary.end() == 3);
  CHECK(vocabulary.unknown() == 4);
  CHECK(vocabulary.find_first("ab") == 7);  // the last of equal ones
  CHECK(vocabulary.find_next("b") == 6);
  CHECK(vocabulary.find_first("##b") == 6);
  CHECK(vocabulary.find_first("##") == 9);
  CHECK(vocabulary.find_next("") == -1);
  CHECK(vocabulary.tokens() == std::vector<std::string>{"[PAD]", "[unused1]", "[CLS]", "[SEP]",
                                                        "[UNK]", "", "##b", "ab", "", "##"});
  CHECK(vocabulary.find_first("b") == -1);
  CHECK(vocabulary.longest_bytes() == 9);
}

TEST_CASE("what is no vocabulary is refused", "[vocabulary]") {
  says(refused(""), "empty");
  says(refused("[PAD]\n[UNK]\n[SEP]\n"), "[CLS]");
  says(refused("[CLS]\n[UNK]\n[SEP]\n"), "[PAD]");
  says(refused(kSpecial + "a\n\xFF\n"), "line 6");
}

TEST_CASE("a vocabulary's file is read whole", "[vocabulary]") {
  const eqt::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/vocab.txt";
  says(refusal(Kind::data, [&] { read_vocabulary_file(path); }), path);
  std::ofstream(path) << kSpecial;
  CHECK(read_vocabulary_file(path) == kSpecial);
  says(refusal(Kind::data, [&] { read_vocabulary_file(folder.path()); }), folder.path());
}
