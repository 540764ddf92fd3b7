// SPDX-License-Identifier: Apache-2.0
// The data set `text`: from files to batches.

#include <fstream>
#include <string>
#include <vector>

#include "data/catalogue.hpp"
#include "data/text_classes.hpp"
#include "data/text_input.hpp"
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
  const std::vector<std::string> lines = {"a b", "", "a a a a a a"};
  const Batch batch = input.batch_of(lines);
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
  texts.write("vocab.txt", "a\n");
  says(texts.refused(), "[PAD]");
}
