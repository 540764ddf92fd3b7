#include "data/dataset.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "data/class_names.hpp"
#include "data/files.hpp"
#include "data/formats.hpp"
#include "data/image_set.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

struct Parts {
  LabelledBytes train;
  LabelledBytes test;
  Normalization normalization;
};

// H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747: 60000 and 10000 images of 28 x 28. Mean and
// deviation are those of its training pixels.
Parts open_fashion_mnist(const DatasetOptions& options) {
  constexpr std::string_view kDebianFolder = "/usr/share/datasets/fashion-mnist";
  constexpr std::string_view kRemedy =
      "install Debian's dataset-fashion-mnist or run scripts/get_data.sh fashion-mnist";
  const fs::path given = options.path.empty() ? fs::path(kDebianFolder) : fs::path(options.path);
  const fs::path folder = find_folder(given, "FashionMNIST/raw", kRemedy);
  const auto read = [&](const std::string& prefix, std::size_t count) {
    const auto find = [&](const std::string& name) {
      return find_file(folder, {name + ".gz", name}, kRemedy);
    };
    const fs::path images = find(prefix + "-images-idx3-ubyte");
    const fs::path labels = find(prefix + "-labels-idx1-ubyte");
    return read_idx(images, labels, count, {1, 28, 28}, 10, kRemedy);
  };
  return {read("train", 60000), read("t10k", 10000), {{0.2860}, {0.3530}}};
}

/// The folder of a set that no distribution packages.
fs::path required_folder(const DatasetOptions& options, std::string_view subfolder,
                         const std::string& remedy) {
  if (options.path.empty()) {
    fail(Kind::data, "data.path must name the folder with the files of {}, found it empty; {}",
         options.name, remedy);
  }
  return find_folder(options.path, subfolder, remedy);
}

std::string cifar_remedy(const std::string& name) {
  return fmt::format("run scripts/get_data.sh {} and set data.path to the folder it names", name);
}

// A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009: 50000 and 10000
// images. Means and deviations are those of the training pixels, as commonly used.
Parts open_cifar10(const DatasetOptions& options) {
  const std::string remedy = cifar_remedy(options.name);
  const fs::path folder = required_folder(options, "cifar-10-batches-bin", remedy);
  std::vector<fs::path> train;
  for (int i = 1; i <= 5; ++i) train.push_back(folder / fmt::format("data_batch_{}.bin", i));
  const std::vector<fs::path> test = {folder / "test_batch.bin"};
  constexpr CifarFormat kFormat{1, 10};
  return {read_cifar(train, 10000, kFormat, remedy),
          read_cifar(test, 10000, kFormat, remedy),
          {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}}};
}

Parts open_cifar100(const DatasetOptions& options) {
  const std::string remedy = cifar_remedy(options.name);
  const fs::path folder = required_folder(options, "cifar-100-binary", remedy);
  const std::vector<fs::path> train = {folder / "train.bin"};
  const std::vector<fs::path> test = {folder / "test.bin"};
  constexpr CifarFormat kFormat{2, 100};
  return {read_cifar(train, 50000, kFormat, remedy),
          read_cifar(test, 10000, kFormat, remedy),
          {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}}};
}

Parts open_synthetic(const DatasetOptions& options) {
  return {make_synthetic(10000, SyntheticPart::train, options.seed),
          make_synthetic(2000, SyntheticPart::test, options.seed),
          {{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}}};
}

struct Entry {
  const char* name;
  const char* about;
  Parts (*open)(const DatasetOptions&);
  DatasetFacts facts;
};

constexpr Entry kEntries[] = {
    {"fashion-mnist",
     "70000 grey images of clothes, 28 x 28, 10 classes (packaged by Debian)",
     open_fashion_mnist,
     {{1, 28, 28}, 10, 60000, 10000}},
    {"cifar10",
     "60000 colour photographs, 32 x 32, 10 classes",
     open_cifar10,
     {{3, 32, 32}, 10, 50000, 10000}},
    {"cifar100",
     "60000 colour photographs, 32 x 32, 100 classes",
     open_cifar100,
     {{3, 32, 32}, 100, 50000, 10000}},
    {"synthetic",
     "12000 generated colour images, 32 x 32, 10 classes; needs no files",
     open_synthetic,
     {{3, 32, 32}, 10, 10000, 2000}},
};

const Entry& find_entry(const std::string& name) {
  std::string names;
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry;
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  fail(Kind::usage, "data.name must be one of {}, found \"{}\"", names, name);
}

void keep_first(LabelledBytes& data, std::size_t limit, const char* key) {
  const std::size_t count = data.labels.size();
  if (limit > count) {
    fail(Kind::usage, "{} must be between 0 (all) and {}, the size of the set, found {}", key,
         count, limit);
  }
  if (limit == 0 || limit == count) return;
  data.labels.resize(limit);
  data.pixels.resize(limit * data.shape.values());
  data.pixels.shrink_to_fit();
}

}  // namespace

std::vector<int> labels_of(const Dataset& dataset) {
  std::vector<int> labels(dataset.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = dataset.label(i);
  return labels;
}

DatasetPair open_dataset(const DatasetOptions& options) {
  Parts parts = find_entry(options.name).open(options);
  keep_first(parts.train, options.limit_train, "data.limit_train");
  keep_first(parts.test, options.limit_test, "data.limit_test");
  return {std::make_unique<ImageSet>(std::move(parts.train), parts.normalization),
          std::make_unique<ImageSet>(std::move(parts.test), parts.normalization),
          parts.normalization, class_names(options.name)};
}

DatasetFacts dataset_facts(const std::string& name) { return find_entry(name).facts; }

std::vector<DatasetInfo> list_datasets() {
  std::vector<DatasetInfo> infos;
  for (const Entry& entry : kEntries) infos.push_back({entry.name, entry.about});
  return infos;
}

}  // namespace eqt::data
