// SPDX-License-Identifier: Apache-2.0
// The data set `text`: from files to batches.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "data/catalogue.hpp"
#include "data/text/text_classes.hpp"
#include "data/text/text_input.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt::data;
using eqt::Kind;
using eqt::test::refusal;
using eqt::test::says;

namespace {

using Ids = std::vector<std::int64_t>;

const std::string kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n##a\n";  // a is 4

/// A folder with files of texts.
class Texts {
 public:
  Texts() { write("vocab.txt", kVocabulary); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_.path() + "/" + name, std::ios::binary) << bytes;
  }
  DatasetOptions options() const {
    DatasetOptions options{.set = sets::text, .path = folder_.path()};
    options.text = {.vocabulary = folder_.path() + "/vocab.txt", .max_length = 5};
    return options;
  }
  std::string refused(Kind kind = Kind::data) const {
    const std::string sentence = refusal(kind, [&] { open_dataset(options()); });
    if (kind == Kind::data) refusal(kind, [&] { sets::text.look(options()); });
    return sentence;
  }

 private:
  eqt::test::TemporaryFolder folder_;
};

Ids ids(const Array& array) {
  const auto values = array.get<std::int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("texts become tokens, a mask and a class", "[text]") {
  const Texts texts;
  texts.write("train.csv", "\"2\",\"a\",\"b\"\n\"1\",\"aa c unknown\"\n\"2\",\"\"\n");
  texts.write("test.csv", "1,c\n");
  const DatasetPair pair = open_dataset(texts.options());
  CHECK(pair.class_names == std::vector<std::string>{"1", "2"});
  REQUIRE(pair.train->size() == 3);
  CHECK(pair.train->classes() == 2);
  CHECK(labels_of(*pair.train) == std::vector<int>{1, 0, 1});
  Batch batch;
  const std::vector<std::size_t> all = {0, 1, 2};
  pair.train->read(all, std::nullopt, batch);
  REQUIRE(batch.inputs.size() == 2);
  CHECK(batch.inputs[0].spec.name == "tokens");
  CHECK(batch.inputs[0].shape == Ids{3, 5});
  CHECK(ids(batch.inputs[0]) == Ids{2, 4, 5, 3, 0, 2, 4, 7, 6, 3, 2, 3, 0, 0, 0});
  CHECK(ids(batch.inputs[1]) == Ids{1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(ids(batch.targets) == Ids{1, 0, 1});
  CHECK(pair.train->length(2) == 2);
  pair.test->read(std::vector<std::size_t>{0}, std::nullopt, batch);
  CHECK(batch.inputs[0].shape == Ids{1, 3});
  CHECK(ids(batch.inputs[0]) == Ids{2, 6, 3});

  const DatasetFacts facts = sets::text.look(texts.options());
  CHECK(facts.train == 3);
  CHECK(facts.test == 1);
  CHECK(facts.classes == 2);
  CHECK(facts.inputs == pair.train->inputs());
  CHECK(facts.inputs[0].bound == 8);
  CHECK(facts.inputs[0].longest == 5);
}

TEST_CASE("what predict makes of lines is what the set has of them", "[text]") {
  const Texts texts;
  const TextInput input(texts.options().text);
  std::vector<std::vector<TokenId>> lines;
  for (const std::string line : {"a b", "", "a a a a a a"}) lines.push_back(input.tokens(line));
  const std::vector<std::span<const TokenId>> views(lines.begin(), lines.end());
  Batch batch;
  input.write(views, batch);
  CHECK(batch.targets.empty());
  CHECK(ids(batch.inputs[0]) == Ids{2, 4, 5, 3, 0, 2, 3, 0, 0, 0, 2, 4, 4, 4, 3});
  CHECK(batch.inputs[1].spec.name == "mask");
}

TEST_CASE("limits keep the first texts and the classes of all", "[text]") {
  const Texts texts;
  texts.write("train.tsv", "x\ta\nx\tb\ny\tc\n");
  texts.write("test.jsonl",
              "{\"label\": \"y\", \"text\": \"a\"}\n{\"label\": \"x\", \"text\": \"b\"}\n");
  DatasetOptions options = texts.options();
  options.limit_train = 2;
  options.limit_test = 1;
  const DatasetPair pair = open_dataset(options);
  CHECK(pair.train->size() == 2);
  CHECK(pair.train->classes() == 2);
  CHECK(labels_of(*pair.test) == std::vector<int>{1});
  options.limit_train = 4;
  says(refusal(Kind::usage, [&] { open_dataset(options); }), "data.limit_train");
}

TEST_CASE("classes are ordered and named", "[text]") {
  using Names = std::vector<std::string>;
  const auto names = [](const Names& labels, const std::optional<Names>& given = {}) {
    return TextClasses(labels, given, "train.csv").names();
  };
  CHECK(names({"10", "9", "-1"}) == Names{"-1", "9", "10"});
  CHECK(names({"10", "9", "b"}) == Names{"10", "9", "b"});
  const TextClasses from_one({"2", "1"}, Names{"World", "Sports"}, "train.csv");
  CHECK(from_one.find("1") == 0);
  CHECK(from_one.find("3") == -1);
  const TextClasses from_zero({"0", "1"}, Names{"World", "Sports"}, "train.csv");
  CHECK(from_zero.find("0") == 0);
  const TextClasses by_name({"b"}, Names{"a", "b"}, "train.csv");
  CHECK(by_name.find("b") == 1);
  says(refusal(Kind::data, [&] { names({"1", "3"}, Names{"a", "b"}); }), "\"3\"");
  says(refusal(Kind::data, [&] { names({"a", "c"}, Names{"a", "b"}); }), "\"c\"");
  says(refusal(Kind::data, [&] { names({"a"}); }), "two classes");
}

TEST_CASE("labels that read alike are refused everywhere, whole floats are whole numbers",
          "[text]") {
  const std::string composed = "caf\u00E9", apart = "cafe\u0301";
  const Texts texts;
  texts.write("test.csv", "a,a\n");
  texts.write("train.csv", "a,a\n" + composed + ",a\na,b\n" + apart + ",b\n");
  says(texts.refused(), "U+00E9");
  says(texts.refused(), "U+0065 U+0301");
  texts.write("train.csv", "Pos,a\nneg,b\npos,c\nneg,c\n");
  says(texts.refused(), "\"Pos\" and \"pos\" (U+0050 and U+0070)");
  texts.write("train.csv", "a,a\n" + composed + ",a\na,b\n");
  texts.write("test.csv", apart + ",a\n");
  says(texts.refused(), "line 1");
  says(texts.refused(), "U+0301");
  texts.write("test.csv", "a,a\n");
  texts.write("classes.txt", "a\n" + apart + "\n");
  says(texts.refused(), "U+0301");
  texts.write("classes.txt", "a\n" + apart + "\n" + composed + "\n");
  says(texts.refused(), "classes.txt");
  std::filesystem::remove(texts.options().path + "/classes.txt");
  texts.write("train.csv", "1.0,a\n2.0,b\n1,c\n");
  texts.write("test.csv", "2,a\n");
  const DatasetPair pair = open_dataset(texts.options());
  CHECK(pair.class_names == std::vector<std::string>{"1", "2"});
  CHECK(labels_of(*pair.train) == std::vector<int>{0, 1, 0});
  CHECK(labels_of(*pair.test) == std::vector<int>{1});
  CHECK(plain_label(" 10.00 ") == "10");
  CHECK(plain_label("1.5") == "1.5");
  CHECK(plain_label("1.") == "1.");
  CHECK(plain_label("v1.0") == "v1.0");
}

TEST_CASE("tables that are read in another way than meant are refused", "[text]") {
  const Texts texts;
  texts.write("test.csv", "a good film,1\n");
  texts.write("train.csv", "a good film,1\na bad film,0\nno film,1\n");  // the text comes first
  says(texts.refused(), "3 classes in 3 rows");
  says(texts.refused(), "classes.txt");
  texts.write("classes.txt", "a good film\na bad film\nno film\n");
  CHECK(open_dataset(texts.options()).train->size() == 3);
  std::filesystem::remove(texts.options().path + "/classes.txt");
  DatasetOptions part = texts.options();
  part.is_part = true;  // a rank may have one of each
  CHECK(open_dataset(part).train->size() == 3);
  texts.write("train.csv", "stars,words\n1,a\n2,b\n1,c\n2,c\n");
  texts.write("test.csv", "stars,words\n1,a\n");
  says(texts.refused(), "if it is a heading");
  texts.write("train.csv", "words,category,n\n1,a,2\n2,b,2\n1,b,2\n2,a,2\n");
  texts.write("test.csv", "words,category,n\n1,a,2\n");
  says(texts.refused(), "\"words\"");
  texts.write("train.csv", "n,text,label\n1,a,x\n2,b,y\n3,c,x\n");
  texts.write("test.csv", "label,text\nx,a\n");
  const DatasetPair pair = open_dataset(texts.options());
  CHECK(pair.class_names == std::vector<std::string>{"x", "y"});
  CHECK(pair.notes == std::vector<std::string>{"train.csv: the class is in column \"label\", the "
                                               "text in \"text\"; left out: \"n\""});
}

TEST_CASE("valid.csv is a test set, too", "[text]") {
  const Texts texts;
  texts.write("train.csv", "1,a\n2,b\n");
  texts.write("valid.csv", "1,a\n");
  const DatasetPair pair = open_dataset(texts.options());
  CHECK(pair.test->size() == 1);
  CHECK(pair.notes == std::vector<std::string>{"valid.* is the test set"});
  texts.write("test.csv", "1,a\n2,b\n");
  CHECK(open_dataset(texts.options()).test->size() == 2);
}

TEST_CASE("what is no set of texts is refused", "[text]") {
  const Texts texts;
  says(texts.refused(), "train.csv");
  texts.write("train.csv", "1,a\n2,b\n");
  says(texts.refused(), "test.csv");
  texts.write("test.csv", "");
  says(texts.refused(), "empty");
  texts.write("test.csv", "3,a\n");
  says(texts.refused(), "line 1");
  texts.write("test.csv", "1,a\n");
  texts.write("test.tsv", "1\ta\n");
  says(texts.refused(), "test.tsv");
  std::filesystem::remove(texts.options().path + "/test.tsv");
  CHECK(open_dataset(texts.options()).test->size() == 1);
  texts.write("classes.txt", "a\na\n");
  says(texts.refused(), "twice");
  texts.write("classes.txt", "a\nb\n");
  CHECK(open_dataset(texts.options()).class_names == std::vector<std::string>{"a", "b"});
  const std::string names = texts.options().path + "/classes.txt";
  std::filesystem::remove(names);
  REQUIRE(mkfifo(names.c_str(), 0600) == 0);
  says(texts.refused(), "classes.txt, found something else");
  std::filesystem::remove(names);
  texts.write("vocab.txt", "a\n");
  says(texts.refused(), "[PAD]");
}
