// SPDX-License-Identifier: Apache-2.0
#include "data/known_images.hpp"

#include <sys/stat.h>

#include <functional>

#include "core/error.hpp"
#include "data/unit/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::data;
namespace fs = std::filesystem;

namespace {

constexpr const char* kRemedy = "get it again";

/// Runs `read`, which must throw Error{data} with all `parts` and the remedy in its message.
void require_data_error(const std::function<void()>& read, const std::vector<std::string>& parts) {
  try {
    read();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    INFO(sentence);
    REQUIRE(error.kind() == Kind::data);
    for (const std::string& part : parts) REQUIRE(sentence.find(part) != std::string::npos);
    REQUIRE(sentence.find(kRemedy) != std::string::npos);
    REQUIRE(sentence.find('\n') == std::string::npos);
    return;
  }
  FAIL("no error");
}

// Three images of 2 x 2.
const Bytes kImageHeader = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2};
const Bytes kPixels = {0, 1, 2, 3, 10, 11, 12, 13, 255, 254, 253, 252};
const Bytes kLabels = {0, 0, 8, 1, 0, 0, 0, 3, 9, 0, 4};

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

LabelledBytes read_three(const fs::path& images, const fs::path& labels) {
  return read_idx(images, labels, 3, {1, 2, 2}, 10, kRemedy);
}

/// Two records per file: labels, then planes with a value that depends on label, record, colour,
/// position.
Bytes cifar_records(const std::vector<Bytes>& labels, unsigned first) {
  Bytes bytes;
  for (unsigned i = 0; i < labels.size(); ++i) {
    bytes = bytes + labels[i];
    for (unsigned v = 0; v < 3072; ++v) {
      bytes.push_back(static_cast<std::uint8_t>((first + i) * 31 + v / 1024 * 85 + v % 1024 % 83));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("IDX files are read plain and compressed", "[formats]") {
  const TemporaryFolder folder;
  const auto plain = folder.write("images", kImageHeader + kPixels);
  const auto packed = folder.write_gzip("images.gz", kImageHeader + kPixels);
  const auto labels = folder.write_gzip("labels.gz", kLabels);
  REQUIRE(read_all(packed)[0] == 0x1f);  // it is gzip
  for (const auto& images : {plain, packed}) {
    const LabelledBytes data = read_three(images, labels);
    REQUIRE(data.pixels == kPixels);
    REQUIRE(data.labels == Bytes{9, 0, 4});
    REQUIRE(data.shape == ImageShape{1, 2, 2});
    REQUIRE(data.classes == 10);
  }
}

TEST_CASE("every defect of an IDX file is an error with a message", "[formats]") {
  const TemporaryFolder folder;
  const auto images = folder.write("images", kImageHeader + kPixels);
  const auto labels = folder.write("labels", kLabels);
  const auto bad_image = [&](const Bytes& bytes, const std::vector<std::string>& parts) {
    for (const auto& bad : {folder.write("bad", bytes), folder.write_gzip("bad.gz", bytes)}) {
      auto all = parts;
      all.push_back(bad.string());
      require_data_error([&] { read_three(bad, labels); }, all);
    }
  };
  const auto with = [](Bytes bytes, std::size_t at, std::uint8_t value) {
    bytes.at(at) = value;
    return bytes;
  };
  const Bytes whole = kImageHeader + kPixels;
  bad_image({}, {"expected 28 bytes", "found 0"});
  bad_image(Bytes(whole.begin(), whole.end() - 1), {"expected 28 bytes", "found 27"});
  bad_image(whole + Bytes{7}, {"expected 28 bytes", "found more than 28"});
  bad_image(whole + Bytes(100000, 7), {"found more than 28"});
  bad_image(with(whole, 0, 1), {"found 1, 0, 8, 3"});
  bad_image(with(whole, 2, 0x0D), {"unsigned byte", "found 0, 0, 13, 3"});
  bad_image(with(whole, 3, 1), {"3 dimensions", "found 0, 0, 8, 1"});
  bad_image(with(whole, 7, 4), {"expected dimensions 3 x 2 x 2", "found 4 x 2 x 2"});
  bad_image(with(whole, 4, 255), {"found 4278190083 x 2 x 2"});
  bad_image(with(whole, 15, 1), {"found 3 x 2 x 1"});

  const auto bad_label = folder.write("bad", with(kLabels, 9, 10));
  require_data_error([&] { read_three(images, bad_label); },
                     {"labels below 10", "found 10 at sample 1"});
  const auto two_labels = folder.write("bad", {0, 0, 8, 1, 0, 0, 0, 2, 9, 0});
  require_data_error([&] { read_three(images, two_labels); }, {"expected 11 bytes", "found 10"});
}

TEST_CASE("a damaged gzip file is an error", "[formats]") {
  const TemporaryFolder folder;
  const auto labels = folder.write("labels", kLabels);
  const Bytes good = read_all(folder.write_gzip("good.gz", kImageHeader + kPixels));
  const auto require_bad = [&](const Bytes& bytes) {
    const auto bad = folder.write("bad.gz", bytes);
    require_data_error([&] { read_three(bad, labels); }, {bad.string()});
  };
  for (std::size_t length = 2; length < good.size() - 8; ++length) {
    require_bad(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)));
  }
  for (std::size_t at = 10; at < good.size(); ++at) {
    Bytes flipped = good;
    flipped[at] ^= 0x10;
    const auto bad = folder.write("bad.gz", flipped);
    // The checksum detects changes of the content; no read may crash or give other pixels.
    Bytes pixels = kPixels;
    try {
      pixels = read_three(bad, labels).pixels;
    } catch (const Error& error) {
      REQUIRE(error.kind() == Kind::data);
    }
    REQUIRE(pixels == kPixels);
  }
  Bytes wrong_sum = good;
  wrong_sum[good.size() - 8] ^= 1;
  require_bad(wrong_sum);
}

TEST_CASE("anything but a regular file is an error and does not block", "[formats]") {
  const TemporaryFolder folder;
  const auto labels = folder.write("labels", kLabels);
  require_data_error([&] { read_three(folder.path() / "absent", labels); }, {"absent"});
  require_data_error([&] { read_three(folder.path(), labels); }, {folder.path().string()});
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  require_data_error([&] { read_three(pipe, labels); }, {"pipe"});
}

TEST_CASE("CIFAR records become pixels with channels last", "[formats]") {
  const TemporaryFolder folder;
  const std::vector<fs::path> files = {folder.write("a", cifar_records({{3}, {9}}, 0)),
                                       folder.write("b", cifar_records({{0}, {1}}, 2))};
  const LabelledBytes data = read_cifar(files, 2, {1, 10}, kRemedy);
  REQUIRE(data.labels == Bytes{3, 9, 0, 1});
  REQUIRE(data.shape == ImageShape{3, 32, 32});
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned place = 0; place < 1024; ++place) {
      for (unsigned c = 0; c < 3; ++c) {
        const auto expected = static_cast<std::uint8_t>(i * 31 + c * 85 + place % 83);
        REQUIRE(data.pixels[(i * 1024 + place) * 3 + c] == expected);
      }
    }
  }
}

TEST_CASE("CIFAR-100 takes the fine label", "[formats]") {
  const TemporaryFolder folder;
  const std::vector<fs::path> files = {folder.write("a", cifar_records({{3, 77}, {19, 99}}, 0))};
  const LabelledBytes data = read_cifar(files, 2, {2, 100}, kRemedy);
  REQUIRE(data.labels == Bytes{77, 99});
  REQUIRE(data.classes == 100);
  REQUIRE(data.pixels[1] == 85);  // green of the first pixel: no shift by the second label
}

TEST_CASE("every defect of a CIFAR file is an error with a message", "[formats]") {
  const TemporaryFolder folder;
  const auto good = folder.write("good", cifar_records({{3}, {9}}, 0));
  const auto require_bad = [&](const Bytes& bytes, const std::vector<std::string>& parts) {
    const auto bad = folder.write("bad", bytes);
    auto all = parts;
    all.push_back(bad.string());
    require_data_error([&] { read_cifar(std::vector{good, bad}, 2, {1, 10}, kRemedy); }, all);
  };
  const Bytes whole = cifar_records({{3}, {9}}, 0);
  require_bad({}, {"expected 6146 bytes", "found 0"});
  require_bad(Bytes(whole.begin(), whole.begin() + 3073), {"expected 6146", "found 3073"});
  require_bad(whole + whole, {"expected 6146", "found more than 6146"});
  require_bad(cifar_records({{3}, {10}}, 0), {"labels below 10", "found 10 in record 1"});
  require_bad(Bytes(6146, 0xAB), {"labels below 10", "found 171 in record 0"});
  // CIFAR-100's files have one byte more per record.
  require_bad(cifar_records({{3, 7}, {9, 9}}, 0), {"expected 6146"});
  require_data_error(
      [&] {
        read_cifar(std::vector{folder.path() / "none"}, 2, {1, 10}, kRemedy);
      },
      {"none"});
}
