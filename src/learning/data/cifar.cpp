// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 and CIFAR-100: small colour photographs.
//
// Source   A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009; means and
//          deviations of the training pixels as commonly used; class names as in batches.meta.txt
//          and fine_label_names.txt of the binary version

#include <fmt/format.h>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"
#include "data/files.hpp"
#include "data/known_images.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> kCifar10Classes = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

// clang-format off
constexpr std::array<std::string_view, 100> kCifar100Classes = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm"};
// clang-format on

constexpr ImageShape kShape{3, 32, 32};
constexpr std::size_t kPlane = std::size_t{32} * 32;  // [bytes] one colour of one image

/// Colour planes (c, h, w) to pixels (h, w, c).
void interleave(const std::uint8_t* planes, std::uint8_t* pixels) {
  for (std::size_t i = 0; i < kPlane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels[3 * i + c] = planes[c * kPlane + i];
  }
}

std::string cifar_remedy(const DatasetRow& set) {
  return fmt::format("run {} {} and set data.path to the folder it names",
                     shipped("scripts/get_data.sh"), set.name);
}

/// The folder of a set for which there is no Debian package.
fs::path cifar_folder(const DatasetOptions& options, std::string_view subfolder) {
  const std::string remedy = cifar_remedy(*options.set);
  if (options.path.empty()) {
    fail(Kind::data, "data.path must name the folder with the files of {}, found it empty; {}",
         options.set->name, remedy);
  }
  return find_folder(options.path, subfolder, remedy);
}

LabelledSets read_cifar10(const DatasetOptions& options) {
  const fs::path folder = cifar_folder(options, "cifar-10-batches-bin");
  std::vector<fs::path> train;
  for (int i = 1; i <= 5; ++i) train.push_back(folder / fmt::format("data_batch_{}.bin", i));
  const std::vector<fs::path> test = {folder / "test_batch.bin"};
  constexpr CifarFormat kFormat{1, 10};
  const std::string remedy = cifar_remedy(*options.set);
  return {options.needs_train ? read_cifar(train, 10000, kFormat, remedy) : LabelledBytes{},
          read_cifar(test, 10000, kFormat, remedy)};
}

const KnownImages kCifar10 = {.shape = kShape,
                              .classes = 10,
                              .train = 50000,
                              .test = 10000,
                              .mean = {0.4914, 0.4822, 0.4465},
                              .deviation = {0.2470, 0.2435, 0.2616},
                              .class_names = kCifar10Classes,
                              .read = read_cifar10};

LabelledSets read_cifar100(const DatasetOptions& options) {
  const fs::path folder = cifar_folder(options, "cifar-100-binary");
  const std::vector<fs::path> train = {folder / "train.bin"};
  const std::vector<fs::path> test = {folder / "test.bin"};
  constexpr CifarFormat kFormat{2, 100};
  const std::string remedy = cifar_remedy(*options.set);
  return {options.needs_train ? read_cifar(train, 50000, kFormat, remedy) : LabelledBytes{},
          read_cifar(test, 10000, kFormat, remedy)};
}

const KnownImages kCifar100 = {.shape = kShape,
                               .classes = 100,
                               .train = 50000,
                               .test = 10000,
                               .mean = {0.5071, 0.4865, 0.4409},
                               .deviation = {0.2673, 0.2564, 0.2762},
                               .class_names = kCifar100Classes,
                               .read = read_cifar100};

}  // namespace

LabelledBytes read_cifar(std::span<const std::filesystem::path> files, std::size_t records_per_file,
                         const CifarFormat& format, std::string_view remedy) {
  const std::size_t record_bytes = format.label_bytes + kShape.values();
  LabelledBytes data;
  data.shape = kShape;
  data.classes = format.classes;
  data.labels.reserve(checked_product({files.size(), records_per_file}, Kind::data, "samples"));
  data.pixels.resize(checked_product({files.size(), records_per_file, kShape.values()}, Kind::data,
                                     "bytes of images"));
  std::uint8_t* pixels = data.pixels.data();
  for (const auto& file : files) {
    const auto bytes = read_exactly(file, records_per_file * record_bytes, remedy);
    for (std::size_t i = 0; i < records_per_file; ++i) {
      const std::uint8_t* record = bytes.data() + i * record_bytes;
      const std::uint8_t label = record[format.label_bytes - 1];
      if (label >= format.classes) {
        fail(Kind::data, "{}: expected labels below {}, found {} in record {}; {}", file.string(),
             format.classes, label, i, remedy);
      }
      data.labels.push_back(label);
      interleave(record + format.label_bytes, pixels);
      pixels += kShape.values();
    }
  }
  return data;
}

const DatasetRow sets::cifar10 = {.name = "cifar10",
                                  .about = "50,000 + 10,000 colour 32 x 32 images, 10 classes",
                                  .title = "CIFAR-10",
                                  .needs_files = true,
                                  .keys = kKnownImageKeys,
                                  .look = look_at_known<kCifar10>,
                                  .open = open_known<kCifar10>};

const DatasetRow sets::cifar100 = {.name = "cifar100",
                                   .about = "50,000 + 10,000 colour 32 x 32 images, 100 classes",
                                   .title = "CIFAR-100",
                                   .needs_files = true,
                                   .keys = kKnownImageKeys,
                                   .look = look_at_known<kCifar100>,
                                   .open = open_known<kCifar100>};

}  // namespace eqt::data
