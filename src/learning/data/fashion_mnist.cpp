// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST: greyscale images of clothes, in IDX files.
//
// Source   H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747; class names from table 2

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"
#include "data/files.hpp"
#include "data/known_images.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint8_t kUnsignedByte = 0x08;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

/// The values of an IDX file of unsigned bytes with exactly these dimensions.
std::vector<std::uint8_t> read_values(const fs::path& file, const std::vector<std::size_t>& shape,
                                      std::string_view remedy) {
  const std::size_t header_bytes = 4 + 4 * shape.size();
  std::size_t values = 1;
  for (const std::size_t extent : shape)
    values = checked_product({values, extent}, Kind::data, "bytes");
  std::vector<std::uint8_t> bytes = read_exactly(file, header_bytes + values, remedy);

  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedByte || bytes[3] != shape.size()) {
    fail(Kind::data,
         "{}: expected an IDX file that starts with 0, 0, type {} (unsigned byte) and {} "
         "dimensions, found {}, {}, {}, {}; {}",
         file.string(), kUnsignedByte, shape.size(), bytes[0], bytes[1], bytes[2], bytes[3],
         remedy);
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < shape.size(); ++i) found.push_back(big_endian(&bytes[4 + 4 * i]));
  if (found != shape) {
    fail(Kind::data, "{}: expected dimensions {}, found {}; {}", file.string(),
         fmt::join(shape, " x "), fmt::join(found, " x "), remedy);
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header_bytes));
  return bytes;
}

}  // namespace

LabelledBytes read_idx(const fs::path& images, const fs::path& labels, std::size_t count,
                       const ImageShape& shape, int classes, std::string_view remedy) {
  EQT_CHECK(shape.channels == 1, "IDX images have one channel, not {}", shape.channels);
  LabelledBytes data;
  data.shape = shape;
  data.classes = classes;
  data.labels = read_values(labels, {count}, remedy);
  const auto bad = std::find_if(data.labels.begin(), data.labels.end(),
                                [classes](std::uint8_t label) { return label >= classes; });
  if (bad != data.labels.end()) {
    fail(Kind::data, "{}: expected labels below {}, found {} at sample {}; {}", labels.string(),
         classes, *bad, bad - data.labels.begin(), remedy);
  }
  data.pixels = read_values(
      images,
      {count, static_cast<std::size_t>(shape.height), static_cast<std::size_t>(shape.width)},
      remedy);
  return data;
}

namespace {

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
