// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST: greyscale images of clothes.
//
// Source   H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747; class names from table 2

#include <fmt/format.h>

#include "core/shipped.hpp"
#include "data/files.hpp"
#include "data/formats.hpp"
#include "data/known_images.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDebianFolder = "/usr/share/datasets/fashion-mnist";

constexpr std::array<std::string_view, 10> kFashionClasses = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

LabelledSets read_fashion_mnist(const DatasetOptions& options);

const KnownImages kFashionMnist = {.shape = {1, 28, 28},
                                   .classes = 10,
                                   .train = 60000,
                                   .test = 10000,
                                   .mean = {0.2860},
                                   .deviation = {0.3530},
                                   .class_names = kFashionClasses,
                                   .read = read_fashion_mnist};

LabelledSets read_fashion_mnist(const DatasetOptions& options) {
  const std::string remedy = fmt::format("install Debian's dataset-fashion-mnist or run {} {}",
                                         shipped("scripts/get_data.sh"), sets::fashion_mnist.name);
  const fs::path given = options.path.empty() ? fs::path(kDebianFolder) : fs::path(options.path);
  const fs::path folder = find_folder(given, "FashionMNIST/raw", remedy);
  const auto read = [&](const std::string& prefix, std::size_t count) {
    const auto find = [&](const std::string& name) {
      return find_file(folder, {name + ".gz", name}, remedy);
    };
    const fs::path images = find(prefix + "-images-idx3-ubyte");
    const fs::path labels = find(prefix + "-labels-idx1-ubyte");
    return read_idx(images, labels, count, kFashionMnist.shape, kFashionMnist.classes, remedy);
  };
  return {options.needs_train ? read("train", kFashionMnist.train) : LabelledBytes{},
          read("t10k", kFashionMnist.test)};
}

}  // namespace

const DatasetRow sets::fashion_mnist = {.name = "fashion-mnist",
                                        .about = "60,000 + 10,000 grey 28 x 28 images, 10 classes",
                                        .title = "Fashion-MNIST",
                                        .needs_files = true,
                                        .keys = kKnownImageKeys,
                                        .look = look_at_known<kFashionMnist>,
                                        .open = open_known<kFashionMnist>};

}  // namespace eqt::data
