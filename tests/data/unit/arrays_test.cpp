// SPDX-License-Identifier: Apache-2.0
// The data set "arrays": NumPy files and tables of one's own as batches.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/dataset.hpp"
#include "support/catch.hpp"
#include "support/npy_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace eqt;
using namespace eqt::data;
using test::npy_bytes;

class Folder {
 public:
  const std::string& path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path() + "/" + name, std::ios::binary) << bytes;
  }
  /// Four samples of two numbers with classes for training, two for testing.
  void write_usual() const {
    write("x_train.npy", npy_bytes<float>("<f4", "(4, 2)", {1, 10, 2, 20, 3, 30, 4, 40}));
    write("y_train.npy", npy_bytes<std::int32_t>("<i4", "(4,)", {0, 2, 1, 2}));
    write("x_test.npy", npy_bytes<float>("<f4", "(2, 2)", {5, 50, 6, 60}));
    write("y_test.npy", npy_bytes<std::int64_t>("<i8", "(2,)", {1, 0}));
  }
  DatasetOptions options() const { return {.set = sets::arrays, .path = path()}; }

 private:
  test::TemporaryFolder folder_;
};

Batch batch_of(const Dataset& set, const std::vector<std::size_t>& indices) {
  Batch batch;
  set.read(indices, std::nullopt, batch);
  return batch;
}

template <typename T>
std::vector<T> values_of(const Array& array) {
  const auto span = array.get<T>();
  return {span.begin(), span.end()};
}

std::vector<float> inputs_of(const Dataset& set, const std::vector<std::size_t>& indices) {
  return values_of<float>(batch_of(set, indices).inputs.at(0));
}

void refuses(const DatasetOptions& options, const std::vector<std::string>& words,
             Kind kind = Kind::data) {
  const std::string sentence = test::refusal(kind, [&] { (void)open_dataset(options); });
  for (const std::string& word : words) test::says(sentence, word);
}

}  // namespace

TEST_CASE("arrays: NumPy files are read as they are") {
  const Folder folder;
  folder.write_usual();
  const DatasetPair pair = open_dataset(folder.options());
  CHECK(pair.train->size() == 4);
  CHECK(pair.test->size() == 2);
  CHECK(pair.train->classes() == 3);
  CHECK(pair.test->classes() == 3);
  CHECK(pair.class_names == std::vector<std::string>{"0", "1", "2"});
  CHECK(labels_of(*pair.train) == std::vector<int>{0, 2, 1, 2});
  const Batch batch = batch_of(*pair.train, {3, 0});
  REQUIRE(batch.inputs.size() == 1);
  CHECK(batch.inputs[0].spec == pair.train->inputs()[0]);
  CHECK(batch.inputs[0].shape == std::vector<std::int64_t>{2, 2});
  CHECK(values_of<float>(batch.inputs[0]) == std::vector<float>{4, 40, 1, 10});
  CHECK(values_of<std::int64_t>(batch.targets) == std::vector<std::int64_t>{2, 0});
  CHECK(inputs_of(*pair.test, {1}) == std::vector<float>{6, 60});

  const DatasetFacts facts = sets::arrays.look(folder.options());
  CHECK(facts.train == 4);
  CHECK(facts.test == 2);
  CHECK(facts.classes == 3);
  CHECK(facts.inputs == pair.train->inputs());
  CHECK(facts.target == pair.train->target());

  DatasetOptions limited = folder.options();
  limited.limit_train = 1;
  limited.limit_test = 1;
  refuses(limited, {"y_test.npy, row 0", "[0, 1)", "found 1"});
  limited.limit_train = 3;
  CHECK(open_dataset(limited).train->size() == 3);
  limited.limit_train = 5;
  refuses(limited, {"data.limit_train", "5"}, Kind::usage);
}

TEST_CASE("arrays: samples of any shape, and whole numbers for embeddings") {
  const Folder folder;
  folder.write_usual();
  folder.write("x_train.npy", npy_bytes<std::uint8_t>("|u1", "(4, 1, 3)",
                                                      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}));
  folder.write("x_test.npy", npy_bytes<std::int64_t>("<i8", "(2, 1, 3)", {1, 2, 3, 4, 5, 6}));
  DatasetOptions options = folder.options();
  DatasetPair pair = open_dataset(options);
  CHECK(pair.train->inputs()[0].shape == std::vector<std::int64_t>{1, 3});
  CHECK(inputs_of(*pair.train, {3}) == std::vector<float>{9, 10, 255});
  options.integers = true;
  pair = open_dataset(options);
  const Batch batch = batch_of(*pair.train, {3});
  CHECK(values_of<std::int64_t>(batch.inputs[0]) == std::vector<std::int64_t>{9, 10, 255});
  folder.write("x_test.npy", npy_bytes<float>("<f4", "(2, 1, 3)", {1, 2, 3, 4, 5, 6}));
  refuses(options, {"x_test.npy", "data.integers"});
}

TEST_CASE("arrays: targets as the task wants them") {
  const Folder folder;
  folder.write_usual();
  folder.write("y_train.npy", npy_bytes<double>("<f8", "(4, 2)", {0, 1, 1, 1, 0.5, 2, -3, 4}));
  folder.write("y_test.npy", npy_bytes<float>("<f4", "(2, 2)", {0, 1, 1, 0}));
  DatasetOptions options = folder.options();
  refuses(options, {"y_train.npy", "one whole number for each sample", "(2,)"});
  options.target = TargetKind::flags;
  refuses(options, {"y_train.npy, row 2, column 0", "0 or 1", "0.5"});
  options.target = TargetKind::values;
  DatasetPair pair = open_dataset(options);
  CHECK(pair.train->classes() == 0);
  CHECK(fits(options.target, pair.train->target(), 0));
  CHECK(values_of<float>(batch_of(*pair.train, {2, 0}).targets) ==
        std::vector<float>{0.5, 2, 0, 1});
  folder.write("y_train.npy", npy_bytes<std::uint8_t>("|b1", "(4, 2)", {0, 1, 1, 1, 0, 0, 1, 0}));
  options.target = TargetKind::flags;
  pair = open_dataset(options);
  CHECK(fits(options.target, pair.train->target(), 0));
  CHECK(values_of<float>(batch_of(*pair.train, {3}).targets) == std::vector<float>{1, 0});

  options.target = TargetKind::any;
  std::remove((folder.path() + "/y_train.npy").c_str());
  refuses(options, {"y_test.npy", "expected samples of shape none"});
  std::remove((folder.path() + "/y_test.npy").c_str());
  CHECK(batch_of(*open_dataset(options).train, {1}).targets.empty());
}

TEST_CASE("arrays: features are standardized by the training set's mean and deviation") {
  const Folder folder;
  folder.write_usual();
  // Two channels of three steps.
  folder.write("x_train.npy",
               npy_bytes<double>("<f8", "(4, 2, 3)", {1,  2,  3,  10, 20, 30, 4, 5, 6, 40, 50, 60,
                                                      -1, -2, -3, 0,  0,  0,  7, 7, 7, 5,  5,  5}));
  folder.write("x_test.npy", npy_bytes<double>("<f8", "(2, 2, 3)", std::vector<double>(12, 1.0)));
  DatasetOptions options = folder.options();
  for (const Standardize how : {Standardize::first_axis, Standardize::last_axis}) {
    options.standardize = how;
    const DatasetPair pair = open_dataset(options);
    const std::vector<float> all = inputs_of(*pair.train, {0, 1, 2, 3});
    const bool first = how == Standardize::first_axis;
    const std::size_t groups = first ? 2 : 3;
    REQUIRE(pair.moments.size() == groups);
    for (std::size_t g = 0; g < groups; ++g) {
      double sum = 0, squares = 0, count = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((first ? i / 3 % 2 : i % 3) != g) continue;
        sum += static_cast<double>(all[i]);
        squares += static_cast<double>(all[i]) * static_cast<double>(all[i]);
        count += 1;
      }
      CHECK(sum / count == Approx(0).margin(1e-6));
      CHECK(squares / count == Approx(1).epsilon(1e-6));
    }
    // The test set uses the same: 1 is where the training set has it.
    CHECK(inputs_of(*pair.test, {0})[0] == all[0]);
  }
}

TEST_CASE("arrays: a feature that never changes becomes 0; large numbers lose nothing") {
  const Folder folder;
  folder.write_usual();
  folder.write("x_train.npy",
               npy_bytes<double>("<f8", "(4, 2)", {1e9, 3, 1e9 + 1, 3, 1e9 + 2, 3, 1e9 + 3, 3}));
  folder.write("x_test.npy", npy_bytes<double>("<f8", "(2, 2)", {1e300, 3, 0, 4}));
  DatasetOptions options = folder.options();
  refuses(options, {"x_test.npy, row 0, column 0", "1e+300"});
  options.standardize = Standardize::last_axis;
  folder.write("x_test.npy", npy_bytes<double>("<f8", "(2, 2)", {1e9, 3, 0, 4}));
  const DatasetPair pair = open_dataset(options);
  const auto first = inputs_of(*pair.train, {0, 3});
  const float expected = static_cast<float>(1.5 / std::sqrt(1.25));
  CHECK(first[0] == Approx(-expected));
  CHECK(first[2] == Approx(expected));
  CHECK(first[1] == 0);
}

TEST_CASE("arrays: figures that float32 cannot standardize by are refused before training") {
  const Folder folder;
  folder.write("test.csv", "a,height,y\n1,1,0\n2,2,1\n");
  DatasetOptions options = folder.options();
  options.standardize = Standardize::last_axis;
  for (const std::string large : {"1e32", "-1e35", "1e200", "1e308"}) {
    folder.write("train.csv", "a,height,y\n1," + large + ",0\n2,0,1\n3,0,1\n");
    refuses(options, {"column \"height\"", "scale"});
  }
  folder.write("train.csv", "a,height,y\n1e31,5,0\n1e31,6,1\n");  // the mean alone
  refuses(options, {"column \"a\"", "1e+31"});
  folder.write("train.csv", "a,height,y\n1,0,0\n2,3e-31,1\n");
  refuses(options, {"column \"height\"", "e-31 of"});
  folder.write("train.csv", "a,height,y\n1,0,0\n1,1e29,1\n");  // a never changes
  CHECK(inputs_of(*open_dataset(options).train, {1}) == std::vector<float>{0, 1});
  folder.write_usual();
  folder.write("x_train.npy", npy_bytes<double>("<f8", "(4, 2)", {1, 1e33, 2, 0, 3, 0, 4, 0}));
  refuses(options, {"index 1", "last-axis"});
  options.is_part = true;  // those of all parts count
  CHECK_NOTHROW(open_dataset(options));
}

TEST_CASE("pictures: a deviation that float32 cannot divide by is refused") {
  DatasetPair pair;
  pair.normalization = {{0.5, 0.5, 0.5}, {1, 1e-31, 1}};
  const std::string sentence = test::refusal(Kind::data, [&] { require_usable_figures(pair); });
  test::says(sentence, "channel 2 of 3");
  test::says(sentence, "data.deviation");
  pair.normalization.deviation[1] = 1e-29;
  CHECK_NOTHROW(require_usable_figures(pair));
}

TEST_CASE("arrays: moments of parts together are those of the whole") {
  Moments whole, one, two;
  for (int i = 0; i < 7; ++i) {
    const double value = 1e6 + i * i;
    whole.add(value);
    (i < 3 ? one : two).add(value);
  }
  one.add(two);
  CHECK(one.count == 7);
  CHECK(one.mean == Approx(whole.mean).epsilon(1e-14));
  CHECK(one.deviation() == Approx(whole.deviation()).epsilon(1e-12));
  // 0, 1, 4, 9, 16, 25, 36: mean 13, mean square 325.
  CHECK(whole.mean == Approx(1e6 + 13).epsilon(1e-14));
  CHECK(whole.deviation() == Approx(std::sqrt(325.0 - 169.0)).epsilon(1e-9));
}

TEST_CASE("arrays: tables give features and targets by column") {
  const Folder folder;
  folder.write("train.csv", "a,b,c\n1,2,0\n3,4,1\n5,6,1\n");
  folder.write("test.csv", "a,b,c\n7,8,1\n");
  DatasetOptions options = folder.options();
  DatasetPair pair = open_dataset(options);
  CHECK(pair.train->classes() == 2);
  CHECK(pair.train->inputs()[0].shape == std::vector<std::int64_t>{2});
  CHECK(inputs_of(*pair.train, {1}) == std::vector<float>{3, 4});
  CHECK(labels_of(*pair.test) == std::vector<int>{1});
  options.columns = "a";
  options.target = TargetKind::values;
  pair = open_dataset(options);
  CHECK(inputs_of(*pair.train, {2}) == std::vector<float>{6, 1});
  CHECK(values_of<float>(batch_of(*pair.train, {2}).targets) == std::vector<float>{5});
  options.columns = "a,b,c";
  refuses(options, {"train.csv", "besides those of data.target"});
  options.columns = "";
  folder.write("test.csv", "a,B,c\n7,8,1\n");
  refuses(options, {"test.csv", "column 2 is \"b\"", "\"B\""});
  options.target = TargetKind::classes;
  folder.write("test.csv", "a,b,c\n7,8,-1\n");
  refuses(options, {"test.csv, line 2, column 3 \"c\"", "found -1"});
  folder.write("test.csv", "a,b,c\n7,8,0.5\n");
  refuses(options, {"test.csv", "fractions"});
}

TEST_CASE("arrays: tables as pandas writes them, and classes as floats") {
  const Folder folder;
  folder.write("train.csv", ",a,b,label\n3,1,2,1.0\n0,3,4,0.0\n");
  folder.write("val.csv", ",a,b,label\n1,5,6,1.0\n");
  const DatasetPair pair = open_dataset(folder.options());
  CHECK(pair.columns == std::vector<std::string>{"a", "b"});
  CHECK(inputs_of(*pair.train, {0, 1}) == std::vector<float>{1, 2, 3, 4});
  CHECK(labels_of(*pair.train) == std::vector<int>{1, 0});
  REQUIRE(pair.notes.size() == 2);
  test::says(pair.notes[0], "val is the test set");
  test::says(pair.notes[1], "column 1 is left out, which has no name and the numbers of rows");
  folder.write("train.csv", "label,a,b\n1,1,2\n0,3,4\n");
  folder.write("val.csv", "label,a,b\n1,5,6\n");
  const DatasetPair leading = open_dataset(folder.options());
  CHECK(inputs_of(*leading.train, {0, 1}) == std::vector<float>{1, 2, 3, 4});
  test::says(leading.notes.back(), "the target is column 1 \"label\"");

  const Folder floats;
  floats.write_usual();
  floats.write("y_train.npy", npy_bytes<float>("<f4", "(4,)", {0, 2, 1, 2}));
  CHECK(labels_of(*open_dataset(floats.options()).train) == std::vector<int>{0, 2, 1, 2});
  floats.write("y_train.npy", npy_bytes<float>("<f4", "(4,)", {0, 2, 0.5F, 2}));
  refuses(floats.options(), {"y_train.npy", "fractions"});
  floats.write("y_train.npy", npy_bytes<float>("<f4", "(4,)", {0, 2, NAN, 2}));
  refuses(floats.options(), {"y_train.npy", "fractions"});
}

TEST_CASE("arrays: a class of its own for each sample is refused") {
  const Folder folder;
  std::string rows = "a,n\n";
  for (int row = 0; row < 20; ++row) rows += "1.5," + std::to_string(row) + "\n";
  folder.write("train.csv", rows);
  folder.write("test.csv", rows);
  refuses(folder.options(), {"train.csv", "each of 20 samples", "data.target"});
  folder.write("train.csv", rows + "1.5,7\n");
  CHECK(open_dataset(folder.options()).train->classes() == 20);
}

TEST_CASE("arrays: what is wrong is named with its file and place") {
  const Folder folder;
  refuses({.set = sets::arrays}, {"data.path"}, Kind::usage);
  refuses(folder.options(), {"x_train.npy", "train.csv", "data.path"});
  folder.write_usual();
  folder.write("y_train.npy", npy_bytes<std::int32_t>("<i4", "(3,)", {0, 2, 1}));
  refuses(folder.options(), {"y_train.npy", "4 samples", "found 3"});
  folder.write("y_train.npy", npy_bytes<std::int32_t>("<i4", "(4,)", {0, -1, 2, 3}));
  refuses(folder.options(), {"y_train.npy, row 1", "found -1"});
  folder.write("y_train.npy",
               npy_bytes<std::uint64_t>("<u8", "(4,)", {0, 1, std::uint64_t{1} << 63, 3}));
  refuses(folder.options(), {"y_train.npy, row 2"});
  folder.write_usual();
  folder.write("x_train.npy", npy_bytes<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, NAN, 7, 8}));
  refuses(folder.options(), {"x_train.npy, row 2, column 1", "nan"});
  folder.write("x_train.npy",
               npy_bytes<float>("<f4", "(4, 1, 2)", {1, 2, 3, INFINITY, 5, 6, 7, 8}));
  refuses(folder.options(), {"x_test.npy", "(1, 2)", "found (2,)"});
  folder.write("x_test.npy", npy_bytes<float>("<f4", "(2, 1, 2)", {1, 2, 3, 4}));
  refuses(folder.options(), {"x_train.npy, row 1, place (0, 1)", "inf"});
  folder.write("x_train.npy", npy_bytes<float>("<f4", "(0, 2)", {}));
  refuses(folder.options(), {"x_train.npy", "samples, found none"});
  folder.write("x_train.npy", npy_bytes<float>("<f4", "(4, 0)", {}));
  refuses(folder.options(), {"x_train.npy", "(0,)"});
  folder.write("x_train.npy", npy_bytes<float>("<f4", "()", {1}));
  refuses(folder.options(), {"x_train.npy", "single number"});
}

TEST_CASE("arrays: tokens are followed by the next ones, or have targets") {
  const Folder folder;
  folder.write("x_train.npy", npy_bytes<std::uint8_t>("|u1", "(2, 3)", {0, 1, 2, 2, 1, 0}));
  folder.write("x_test.npy", npy_bytes<std::int64_t>("<i8", "(1, 3)", {3, 0, 6}));
  DatasetOptions options = folder.options();
  options.target = TargetKind::tokens;
  using Numbers = std::vector<std::int64_t>;
  const ArraySpec tokens{.name = "tokens", .type = ElementType::int64, .shape = {2}, .bound = 7};
  const auto named = [&](const std::string& name, std::int64_t places) {
    ArraySpec spec = tokens;
    spec.name = name;
    spec.shape = {places};
    return spec;
  };
  DatasetPair pair = open_dataset(options);
  CHECK(pair.tokens == 7);
  CHECK(pair.train->inputs() == std::vector{tokens});
  CHECK(pair.train->target() == named("next", 2));
  CHECK(pair.test->target() == named("next", 2));
  Batch batch = batch_of(*pair.train, {1, 0});
  CHECK(batch.inputs[0].spec == tokens);
  CHECK(values_of<std::int64_t>(batch.inputs[0]) == Numbers{2, 1, 0, 1});
  CHECK(values_of<std::int64_t>(batch.targets) == Numbers{1, 0, 1, 2});
  CHECK(values_of<std::int64_t>(batch_of(*pair.test, {0}).targets) == Numbers{0, 6});

  const DatasetFacts facts = sets::arrays.look(options);
  CHECK(facts.inputs == pair.train->inputs());
  CHECK(facts.target == pair.train->target());
  CHECK(facts.memory_bytes == 0);  // files are mapped
  options.limit_test = 1;
  CHECK(open_dataset(options).tokens == 7);

  settle_tokens(pair, 9);
  CHECK(pair.train->inputs()[0].bound == 9);
  CHECK(pair.test->target()->bound == 9);
  CHECK(batch_of(*pair.test, {0}).inputs[0].spec.bound == 9);

  folder.write("y_train.npy", npy_bytes<std::int32_t>("<i4", "(2, 3)", {-100, 1, 9, 0, 0, -100}));
  folder.write("y_test.npy", npy_bytes<std::int32_t>("<i4", "(1, 3)", {1, -100, 0}));
  pair = open_dataset(options);
  CHECK(pair.tokens == 10);
  CHECK(pair.train->target() == [&] {
    ArraySpec spec = named("targets", 3);
    spec.bound = 10;
    return spec;
  }());
  batch = batch_of(*pair.train, {0});
  CHECK(values_of<std::int64_t>(batch.inputs[0]) == Numbers{0, 1, 2});
  CHECK(values_of<std::int64_t>(batch.targets) == Numbers{kIgnored, 1, 9});
}

TEST_CASE("arrays: what is no set of tokens is named with its file and place") {
  const Folder folder;
  DatasetOptions options = folder.options();
  options.target = TargetKind::tokens;
  const auto x = [&](const std::string& shape, const std::vector<std::int64_t>& tokens) {
    for (const char* const name : {"x_train.npy", "x_test.npy"})
      folder.write(name, npy_bytes<std::int64_t>("<i8", shape, tokens));
  };
  folder.write_usual();
  refuses(options, {"x_train.npy", "fractions"});
  x("(4,)", {1, 2, 3, 4});
  refuses(options, {"x_train.npy", "(samples, places)", "reshape"});
  std::remove((folder.path() + "/y_train.npy").c_str());
  std::remove((folder.path() + "/y_test.npy").c_str());
  x("(2, 1)", {1, 2});
  refuses(options, {"x_train.npy", "2 tokens", "y_train.npy"});
  x("(2, 2)", {1, 2, 3, -1});
  refuses(options, {"x_train.npy, row 1, column 1", "found -1"});
  x("(2, 2)", {1, std::int64_t{1} << 20, 3, 4});
  refuses(options, {"x_train.npy, row 0, column 1", "1048576"});
  x("(2, 2)", {1, 2, 3, 4});
  const auto y = [&](const std::string& shape, const std::vector<std::int64_t>& tokens) {
    folder.write("y_train.npy", npy_bytes<std::int64_t>("<i8", shape, tokens));
  };
  y("(2, 2)", {1, 2, 3, 4});
  refuses(options, {"x_test.npy", "targets beside it", "x_train.npy"});
  y("(2, 1)", {1, 2});
  refuses(options, {"y_train.npy", "2 places", "found 1"});
  folder.write("y_test.npy", npy_bytes<std::int64_t>("<i8", "(2, 2)", {1, 2, 3, 4}));
  y("(2, 2)", {-1, 2, 3, 4});
  refuses(options, {"y_train.npy, row 0, column 0", "-100", "found -1"});
  y("(2, 2)", {1, 2, -100, -100});
  refuses(options, {"y_train.npy, row 1", "-100 alone"});
  std::remove((folder.path() + "/x_train.npy").c_str());
  folder.write("train.csv", "1,2\n3,4\n");
  refuses(options, {"train.csv", "NumPy files"}, Kind::usage);
}

TEST_CASE("arrays: a rank's part may lack classes of its test set, and the test set itself") {
  const Folder folder;
  folder.write_usual();
  folder.write("y_test.npy", npy_bytes<std::int64_t>("<i8", "(2,)", {1, 6}));
  DatasetOptions options = folder.options();
  refuses(options, {"y_test.npy, row 1", "[0, 3)", "found 6"});
  options.is_part = true;
  CHECK(open_dataset(options).train->classes() == 7);
  options.needs_test = false;
  std::remove((folder.path() + "/x_test.npy").c_str());
  const DatasetPair pair = open_dataset(options);
  CHECK(pair.train->classes() == 3);
  CHECK(pair.test == nullptr);
}
