// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/unit/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/pictures.hpp"

using namespace eqt;
using namespace eqt::data;
using test::images_in;
using test::labels_in;
namespace fs = std::filesystem;

namespace {

Error error_of(const DatasetOptions& options) {
  try {
    open_dataset(options);
  } catch (const Error& error) {
    return error;
  }
  return Error(Kind::bug, "no error");
}

bool holds(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

void put_sparse(const fs::path& file, std::uintmax_t bytes) {
  std::ofstream(file).close();
  fs::resize_file(file, bytes);
}

}  // namespace

TEST_CASE("the synthetic set opens without files", "[dataset]") {
  const DatasetPair pair = open_dataset({sets::synthetic, "", 0, 0, 1});
  REQUIRE(pair.train->size() == 10000);
  REQUIRE(pair.test->size() == 2000);
  REQUIRE(image_shape(pair.train->inputs()) == ImageShape{3, 32, 32});
  REQUIRE(pair.train->classes() == 10);
}

TEST_CASE("limits keep the first samples", "[dataset]") {
  const DatasetPair all = open_dataset({sets::synthetic, "", 0, 0, 1});
  const DatasetPair few = open_dataset({sets::synthetic, "", 30, 20, 1});
  REQUIRE(few.train->size() == 30);
  REQUIRE(few.test->size() == 20);
  Batch a, b;
  const std::array<std::size_t, 2> indices = {0, 19};
  all.test->read(indices, std::nullopt, a);
  few.test->read(indices, std::nullopt, b);
  REQUIRE(std::ranges::equal(images_in(a), images_in(b)));
  REQUIRE_THROWS_AS(few.test->read(std::array<std::size_t, 1>{20}, std::nullopt, b), Error);
}

TEST_CASE("labels equal those of batches, as many as the limit", "[dataset]") {
  const DatasetPair few = open_dataset({sets::synthetic, "", 30, 20, 1});
  const std::vector<int> labels = labels_of(*few.train);
  REQUIRE(labels.size() == 30);
  std::vector<std::size_t> indices(30);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  Batch batch;
  few.train->read(indices, std::nullopt, batch);
  REQUIRE(
      std::equal(labels.begin(), labels.end(), labels_in(batch).begin(), labels_in(batch).end()));
  REQUIRE(few.test->label(19) == 9);  // classes alternate
  REQUIRE_THROWS_AS(few.test->label(20), Error);
}

TEST_CASE("a limit above the set's size is a usage error with the range", "[dataset]") {
  const Error train = error_of({sets::synthetic, "", 10001, 0, 1});
  REQUIRE(train.kind() == Kind::usage);
  REQUIRE(holds(train, "data.limit_train"));
  REQUIRE(holds(train, "10000"));
  REQUIRE(holds(train, "10001"));
  const Error test = error_of({sets::synthetic, "", 0, 2001, 1});
  REQUIRE(test.kind() == Kind::usage);
  REQUIRE(holds(test, "data.limit_test"));
}

TEST_CASE("CIFAR needs data.path and says how to get the files", "[dataset]") {
  for (const Entry<DatasetRow> set : {Entry(sets::cifar10), Entry(sets::cifar100)}) {
    const std::string name(set->name);
    const Error no_path = error_of({set, "", 0, 0, 1});
    REQUIRE(no_path.kind() == Kind::data);
    REQUIRE(holds(no_path, "data.path"));
    REQUIRE(holds(no_path, "scripts/get_data.sh " + name));
    const Error no_folder = error_of({set, "/nonexistent/folder", 0, 0, 1});
    REQUIRE(no_folder.kind() == Kind::data);
    REQUIRE(holds(no_folder, "/nonexistent/folder"));
    REQUIRE(holds(no_folder, "scripts/get_data.sh " + name));
  }
}

TEST_CASE("CIFAR is found in its folder and in the folder above", "[dataset]") {
  const TemporaryFolder folder;
  const fs::path inner = folder.path() / "cifar-100-binary";
  fs::create_directory(inner);
  put_sparse(inner / "train.bin", 50000u * 3074u);
  put_sparse(inner / "test.bin", 10000u * 3074u);
  for (const fs::path& path : {folder.path(), inner}) {
    const DatasetPair pair = open_dataset({sets::cifar100, path.string(), 100, 0, 1});
    REQUIRE(pair.train->size() == 100);
    REQUIRE(pair.test->size() == 10000);
    REQUIRE(pair.train->classes() == 100);
    // A black image, by hand: -mean / deviation.
    Batch batch;
    pair.test->read(std::array<std::size_t, 1>{9999}, std::nullopt, batch);
    REQUIRE(labels_in(batch)[0] == 0);
    REQUIRE(images_in(batch)[0] == Approx(-0.5071 / 0.2673));
    REQUIRE(images_in(batch)[1] == Approx(-0.4865 / 0.2564));
    REQUIRE(images_in(batch)[2] == Approx(-0.4409 / 0.2762));
  }
}

TEST_CASE("CIFAR-10 needs all six files with their full size", "[dataset]") {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    put_sparse(folder.path() / ("data_batch_" + std::to_string(i) + ".bin"), 30730000);
  }
  const DatasetOptions options{sets::cifar10, folder.path().string(), 0, 0, 1};
  REQUIRE(holds(error_of(options), "test_batch.bin"));
  put_sparse(folder.path() / "test_batch.bin", 30729999);
  const Error truncated = error_of(options);
  REQUIRE(truncated.kind() == Kind::data);
  REQUIRE(holds(truncated, "test_batch.bin"));
  REQUIRE(holds(truncated, "expected 30730000 bytes, found 30729999"));
  REQUIRE(holds(truncated, "scripts/get_data.sh cifar10"));
  put_sparse(folder.path() / "test_batch.bin", 30730000);
  const DatasetPair pair = open_dataset(options);
  REQUIRE(pair.train->size() == 50000);
  REQUIRE(pair.test->size() == 10000);
}

TEST_CASE("Fashion-MNIST names the missing file and its package", "[dataset]") {
  const TemporaryFolder folder;
  const Error error = error_of({sets::fashion_mnist, folder.path().string(), 0, 0, 1});
  REQUIRE(error.kind() == Kind::data);
  REQUIRE(holds(error, "train-images-idx3-ubyte.gz"));
  REQUIRE(holds(error, folder.path().string()));
  REQUIRE(holds(error, "dataset-fashion-mnist"));
}

TEST_CASE("a row's facts are those of its set", "[dataset]") {
  for (const Entry<DatasetRow> set : DatasetRow::all()) {
    if (set->needs_files) continue;
    CAPTURE(set->name);
    const DatasetFacts facts = set->look({.set = set});
    const DatasetPair pair = open_dataset({.set = set});
    CHECK(pair.train->size() == facts.train);
    CHECK(pair.test->size() == facts.test);
    for (const auto& part : {pair.train.get(), pair.test.get()}) {
      CHECK(part->inputs() == facts.inputs);
      CHECK(part->target() == facts.target);
      CHECK(part->classes() == facts.classes);
    }
    const auto shape = image_shape(facts.inputs);
    if (shape) CHECK(pair.normalization.mean.size() == static_cast<std::size_t>(shape->channels));
  }
}

TEST_CASE("Debian's Fashion-MNIST is read completely and normalised", "[dataset]") {
  if (!fs::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")) {
    WARN("dataset-fashion-mnist is not installed");
    return;
  }
  const DatasetPair pair = open_dataset({sets::fashion_mnist, "", 0, 0, 1});
  REQUIRE(pair.train->size() == 60000);
  REQUIRE(pair.test->size() == 10000);
  REQUIRE(image_shape(pair.train->inputs()) == ImageShape{1, 28, 28});
  std::vector<std::size_t> indices(60000);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  Batch batch;
  pair.train->read(indices, std::nullopt, batch);
  double sum = 0, squares = 0;
  for (const float value : images_in(batch)) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(images_in(batch).size());
  REQUIRE(std::abs(sum / count) < 5e-4);  // the published mean and deviation have four digits
  REQUIRE(std::abs(squares / count - 1) < 1e-3);
  std::array<int, 10> counts{};
  for (const auto label : labels_in(batch)) ++counts.at(static_cast<std::size_t>(label));
  for (const int class_count : counts) REQUIRE(class_count == 6000);  // Xiao et al., section 2
}

TEST_CASE("what limits keep is copied, and that takes memory", "[dataset]") {
  const auto bytes = [](std::size_t train, std::size_t test) {
    return sets::synthetic.look({sets::synthetic, "", train, test, 1}).memory_bytes;
  };
  constexpr std::uint64_t kSample = 3 * 32 * 32 + 1;
  CHECK(bytes(0, 0) == 12000 * kSample);
  CHECK(bytes(10000, 0) == 12000 * kSample);
  CHECK(bytes(9999, 20) == (12000 + 9999 + 20) * kSample);
}

TEST_CASE("every class has its own name", "[dataset]") {
  const std::vector<std::string> names = open_dataset({sets::synthetic, "", 10, 10, 1}).class_names;
  CHECK(names.size() == 10);
  CHECK(std::set(names.begin(), names.end()).size() == 10);
  CHECK(names.front() == "0 degrees, 4 pixels");
}
