// SPDX-License-Identifier: Apache-2.0
// Which set lies in a folder or a file, what its targets are, and the part of a table that is the
// test set.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/find_own.hpp"
#include "data/test_split.hpp"
#include "data/text/word_piece.hpp"
#include "support/catch.hpp"
#include "support/npy_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::data;
namespace fs = std::filesystem;

namespace {

class Place {
 public:
  fs::path path(const std::string& name = "") const { return fs::path(folder_.path()) / name; }
  void write(const std::string& name, const std::string& bytes = "x") const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

 private:
  test::TemporaryFolder folder_;
};

void finds(const Place& place, const Entry<DatasetRow>& set, const std::string& in = "",
           const std::string& given = "") {
  const FoundSet found = find_own(place.path(given.empty() ? in : given));
  CHECK(found.set == set);
  CHECK(fs::weakly_canonical(found.path) == fs::weakly_canonical(place.path(in)));
}

std::string refused(const fs::path& path) {
  return test::refusal(Kind::data, [&] { (void)find_own(path); });
}

}  // namespace

TEST_CASE("sets are found by the names of their files") {
  const Place place;
  place.write("pictures/train/cat/1.jpg");
  place.write("pictures/README.md");
  finds(place, sets::folder, "pictures");
  place.write("flat/cat/1.PNG");
  finds(place, sets::folder, "flat");
  place.write("inner/cat/summer/1.webp");
  place.write("inner/dog/1.webp");
  finds(place, sets::folder, "inner");
  place.write("tar/train-00.tar");
  finds(place, sets::shards, "tar");
  place.write("npy/x_train.npy");
  place.write("npy/net.pt");
  finds(place, sets::arrays, "npy");
  place.write("mnist/train-images-idx3-ubyte.gz");
  finds(place, sets::fashion_mnist, "mnist");
  place.write("cifar/cifar-10-batches-bin/data_batch_1.bin");
  finds(place, sets::cifar10, "cifar");
  place.write("hundred/train.bin");
  place.write("hundred/test.bin");
  finds(place, sets::cifar100, "hundred");
  place.write("stream/train.txt");
  finds(place, sets::text, "stream");
  CHECK(find_own(place.path("stream")).is_stream);
}

TEST_CASE("tables of numbers and of texts are told apart by their first rows") {
  const Place place;
  place.write("numbers/train.csv", ",sepal length,sepal width,class\n0,1.5,2,0\n1,3e-2,nan,1\n");
  finds(place, sets::arrays, "numbers");
  finds(place, sets::arrays, "numbers", "numbers/train.csv");
  place.write("numbers/vocab.txt");
  finds(place, sets::arrays, "numbers");
  // A column of names in a table of numbers is for the reader to refuse, with its own sentence.
  place.write("iris.csv", "5.1,3.5,1.4,setosa\n6.2,3.4,5.4,virginica\n");
  finds(place, sets::arrays, "iris.csv");
  place.write("labelled.csv", "1,good\n2,bad\n");
  finds(place, sets::text, "labelled.csv");
  place.write("news.csv", "Class Index,Title,Description\n3,Wall St. falls,A bad day\n");
  finds(place, sets::text, "news.csv");
  place.write("texts/reviews.tsv", "label\ttext\n0\ta long \"day\n");
  finds(place, sets::text, "texts/reviews.tsv", "texts");
  place.write("lines/train.jsonl", "{\"label\": 1, \"text\": \"a\"}\n");
  finds(place, sets::text, "lines");
}

TEST_CASE("what is no set, or several, is refused in one sentence") {
  const Place place;
  test::says(refused(place.path("none")), "found nothing");
  fs::create_directories(place.path("empty"));
  test::says(refused(place.path("empty")), "found an empty folder");
  place.write("other/notes.md");
  test::says(refused(place.path("other")), "only files such as notes.md");
  test::says(refused(place.path("other/notes.md")), "found another file");
  place.write("outer/numbers/x_train.npy");
  test::says(refused(place.path("outer")), "the folder numbers");
  place.write("mixed/train/cat/1.jpg");
  place.write("mixed/train.csv", "1,2\n");
  test::says(refused(place.path("mixed")), "found that of data.name \"arrays\" and of \"folder\"");
  place.write("loose/1.jpg");
  test::says(refused(place.path("loose")), "pictures beside each other such as 1.jpg");
  place.write("deep/2023/cat/1.jpg");
  place.write("deep/2024/dog/1.jpg");
  test::says(refused(place.path("deep")), "found folders in folders such as 2023/cat");
  place.write("deeper/train/2023/cat/1.jpg");
  test::says(refused(place.path("deeper")), "such as 2023/cat");
  place.write("names/features.npy");
  test::says(refused(place.path("names")), "found features.npy; rename the arrays");
  place.write("two/a.csv", "1,2\n");
  place.write("two/b.csv", "1,2\n");
  test::says(refused(place.path("two")), "found a.csv and b.csv");
  place.write("tars/a.tar");
  test::says(refused(place.path("tars")), "found a.tar; rename the archives");
  place.write("python/data_batch_1");
  test::says(refused(place.path("python")), "CIFAR's binary version, found data_batch_1");
  place.write("tabs.tsv", "1\t2\n");
  test::says(refused(place.path("tabs.tsv")), "expected texts in a table with tabs, found numbers");
}

TEST_CASE("targets are classes, flags or values by what they are") {
  const auto kind_of = [](const std::vector<float>& targets, const std::string& shape) {
    const Place place;
    const std::size_t samples = std::stoul(shape.substr(1));
    const std::string size = "(" + std::to_string(samples) + ", 1)";
    place.write("x_train.npy", test::npy_bytes<float>("<f4", size, std::vector<float>(samples, 1)));
    place.write("y_train.npy", test::npy_bytes<float>("<f4", shape, targets));
    return look_at_targets({.set = sets::arrays, .path = place.path().string()});
  };
  CHECK(kind_of({0, 2, 2, 0}, "(4,)").kind == TargetKind::classes);
  CHECK(kind_of({0, 2, 2, 0}, "(4,)").classes == 3);
  CHECK(kind_of({0, 2, 2.5, 0}, "(4,)").kind == TargetKind::values);
  CHECK(kind_of({0, 1, 2, 3}, "(4,)").kind == TargetKind::values);  // numbers of rows
  CHECK(kind_of({-1, 1, 1, -1}, "(4,)").kind == TargetKind::values);
  CHECK(kind_of({0, 100, 100, 0}, "(4,)").kind == TargetKind::values);
  CHECK(kind_of({0, 1, 1, 1, 0, 0}, "(3, 2)").kind == TargetKind::flags);
  CHECK(kind_of({0, 1, 1, 1, 0, 2}, "(3, 2)").kind == TargetKind::values);
  test::says(test::refusal(Kind::data,
                           [&] {
                             (void)kind_of({1, 1, 1, 1}, "(4,)");
                           }),
             "found 1 for all samples");
}

TEST_CASE("rows of whole numbers without targets are tokens") {
  const Place place;
  const auto kind = [&] {
    return look_at_targets({.set = sets::arrays, .path = place.path().string()}).kind;
  };
  place.write("x_train.npy", test::npy_bytes<std::uint16_t>("<u2", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  CHECK(kind() == TargetKind::tokens);
  place.write("y_train.npy", test::npy_bytes<std::uint16_t>("<u2", "(2,)", {7, 8}));
  CHECK(kind() == TargetKind::values);
  fs::remove(place.path() / "y_train.npy");
  place.write("x_train.npy", test::npy_bytes<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  test::says(test::refusal(Kind::data, [&] { (void)kind(); }), "y_train.npy");
}

TEST_CASE("a part of each class is for the test, by seed and the class's name alone") {
  std::vector<int> labels(60);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 3 == 0 ? 0 : 1;
  const auto split = [&](std::uint64_t seed) {
    return samples_for_test(labels, {"a", "b"}, 0.2, seed, "rows", "a folder");
  };
  const std::vector<bool> first = split(1);
  std::vector<int> tests(2);
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (first[i]) ++tests[static_cast<std::size_t>(labels[i])];
  CHECK(tests == std::vector<int>{4, 8});
  CHECK(first == split(1));
  CHECK(first != split(2));
  labels.assign({0, 1, 0});
  test::says(test::refusal(Kind::data, [&] { (void)split(1); }),
             "b: expected at least 2 rows of the class");
}

TEST_CASE("a table of numbers alone is training and test set") {
  const Place place;
  std::string table = "a,class\n";
  for (int row = 0; row < 40; ++row)
    table += std::to_string(row) + "," + std::to_string(row % 2) + "\n";
  place.write("table.csv", table);
  DatasetOptions options{.set = sets::arrays,
                         .path = place.path("table.csv").string(),
                         .seed = 3,
                         .test_fraction = 0.25};
  const auto rows_of = [](const Dataset& set) {
    std::vector<std::size_t> all(set.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    Batch batch;
    set.read(all, std::nullopt, batch);
    const auto x = batch.inputs.at(0).get<float>();
    const auto y = batch.targets.get<std::int64_t>();
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(y[i] == static_cast<std::int64_t>(x[i]) % 2);  // a row keeps its target
    return std::vector<float>(x.begin(), x.end());
  };
  const DatasetPair pair = open_dataset(options);
  const std::vector<float> train = rows_of(*pair.train), test = rows_of(*pair.test);
  CHECK(train.size() == 30);
  CHECK(test.size() == 10);
  std::set<float> all(train.begin(), train.end());
  all.insert(test.begin(), test.end());
  CHECK(all.size() == 40);
  const DatasetFacts facts = sets::arrays.look(options);
  CHECK(facts.train == 30);
  CHECK(facts.test == 10);
  CHECK(facts.classes == 2);
  CHECK(sets::arrays.files(options) == std::vector<fs::path>{place.path("table.csv")});
  // A trained network is tested on the same rows.
  options.needs_train = false;
  CHECK(rows_of(*open_dataset(options).test) == test);
  options.needs_train = true;
  // They are the same wherever the table lies.
  place.write("elsewhere/copy.csv", table);
  DatasetOptions copied = options;
  copied.path = place.path("elsewhere/copy.csv").string();
  CHECK(rows_of(*open_dataset(copied).test) == test);
  options.target = TargetKind::values;
  CHECK(open_dataset(options).test->size() == 10);
}

TEST_CASE("a table of texts alone is training and test set") {
  const Place place;
  std::string table = "label,text\n";
  for (int row = 0; row < 40; ++row)
    table += std::string(row % 4 == 0 ? "warm" : "cold") + ",day " +
             static_cast<char>('a' + row % 26) + "\n";
  place.write("table.csv", table);
  const FoundSet found = find_own(place.path("table.csv"));
  place.write("vocab.txt", vocabulary_of_texts(found));
  DatasetOptions options{.set = sets::text,
                         .path = found.path.string(),
                         .test_fraction = 0.2,
                         .text = {.vocabulary = place.path("vocab.txt").string()}};
  const DatasetPair pair = open_dataset(options);
  CHECK(pair.train->size() == 32);
  CHECK(pair.test->size() == 8);
  CHECK(pair.class_names == std::vector<std::string>{"cold", "warm"});
  CHECK(std::ranges::count(labels_of(*pair.train), 1) == 8);
  CHECK(std::ranges::count(labels_of(*pair.test), 1) == 2);
  CHECK(sets::text.look(options).test == 8);
  options.needs_train = false;
  CHECK(labels_of(*open_dataset(options).test) == labels_of(*pair.test));
  place.write("one.csv", "stars,words\n1,a b\n1,c d\n2,e f\n2,g h\n");
  options.path = place.path("one.csv").string();
  options.needs_train = true;
  test::says(test::refusal(Kind::data, [&] { (void)open_dataset(options); }), "stars");
}

TEST_CASE("a vocabulary has the characters and the frequent words of the texts") {
  const Place place;
  place.write("train.txt", "Über den Bergen,\nüber den Tälern\n");
  const FoundSet found = find_own(place.path());
  const std::string file = vocabulary_of_texts(found);
  const Vocabulary vocabulary(file, "vocab.txt");
  for (const char* const token : {"uber", "den", ",", "b", "[MASK]"})
    CHECK(vocabulary.find_first(token) >= 0);
  CHECK(vocabulary.find_first("bergen") < 0);  // occurs once
  CHECK(vocabulary.find_next("n") >= 0);
  const WordPiece cut(std::make_shared<const Vocabulary>(file, "vocab.txt"), true);
  const auto tokens = cut.tokens("den Bergen", 100);
  CHECK(tokens.size() == 1 + 6);
  CHECK(std::ranges::count(tokens, vocabulary.unknown()) == 0);
  CHECK(lengths_of_texts(found) == std::vector<std::size_t>{4, 3});
}
