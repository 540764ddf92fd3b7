// SPDX-License-Identifier: Apache-2.0
// NumPy's array files: every type that is read, and the error for each kind of malformed file.

#include "data/npy_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/npy_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_files.hpp"

namespace {

using namespace eqt;
using data::NpyFile;
using test::npy_bytes;
using test::npy_header;

template <typename To>
std::vector<To> all_of(const NpyFile& file) {
  std::vector<To> values(file.size());
  file.read(0, std::span(values));
  return values;
}

template <typename T>
std::vector<T> swapped(std::vector<T> values) {
  for (T& value : values) {
    auto* const bytes = reinterpret_cast<unsigned char*>(&value);
    std::reverse(bytes, bytes + sizeof value);
  }
  return values;
}

/// Reads the values in both byte orders, as every type that holds them.
template <typename T>
void check_type(const std::string& code, const std::vector<T>& values, bool whole) {
  INFO(code);
  const test::TemporaryFiles files;
  const std::string shape = "(" + std::to_string(values.size()) + ",)";
  for (const bool big : {false, true}) {
    const std::string type = (sizeof(T) == 1 ? "|" : big ? ">" : "<") + code;
    const NpyFile file(
        files.write("a.npy", npy_bytes(type, shape, big ? swapped(values) : values)));
    REQUIRE(file.size() == values.size());
    const auto floats = all_of<float>(file);
    const auto doubles = all_of<double>(file);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(floats[i] == static_cast<float>(values[i]));
      CHECK(doubles[i] == static_cast<double>(values[i]));
    }
    CHECK(data::is_whole(file.type()) == whole);
    if (!whole) continue;
    const auto integers = all_of<std::int64_t>(file);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(integers[i] == static_cast<std::int64_t>(values[i]));
  }
}

template <typename T>
std::vector<T> extremes() {
  return {0, 1, 100, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
}

const std::vector<float> kValues = {1.5f, -2, 0, 0.25f, 3, -7};

}  // namespace

TEST_CASE("numbers of every plain type are read in both byte orders") {
  check_type<std::int8_t>("i1", extremes<std::int8_t>(), true);
  check_type<std::int16_t>("i2", extremes<std::int16_t>(), true);
  check_type<std::int32_t>("i4", extremes<std::int32_t>(), true);
  check_type<std::int64_t>("i8", extremes<std::int64_t>(), true);
  check_type<std::uint8_t>("u1", extremes<std::uint8_t>(), true);
  check_type<std::uint16_t>("u2", extremes<std::uint16_t>(), true);
  check_type<std::uint32_t>("u4", extremes<std::uint32_t>(), true);
  check_type<std::uint64_t>("u8", {0, 1, std::uint64_t{1} << 40}, true);
  check_type<float>("f4", {0, -1.5f, 1e-40f, 3e38f}, false);
  check_type<double>("f8", {0, -1.5, 0.1, 1e-30}, false);
}

TEST_CASE("truths are 0 and 1; a uint64 beyond int64 becomes the largest int64") {
  const test::TemporaryFiles files;
  const NpyFile truths(files.write("b.npy", npy_bytes<std::uint8_t>("|b1", "(3,)", {0, 1, 1})));
  CHECK(all_of<float>(truths) == std::vector<float>{0, 1, 1});
  CHECK(all_of<std::int64_t>(truths) == std::vector<std::int64_t>{0, 1, 1});
  const NpyFile large(
      files.write("u.npy", npy_bytes<std::uint64_t>("<u8", "(1,)", {std::uint64_t{1} << 63})));
  CHECK(all_of<std::int64_t>(large) == std::vector{std::numeric_limits<std::int64_t>::max()});
}

TEST_CASE("half precision is read as IEEE 754 defines it") {
  // Sign, 5 bits of exponent with bias 15, 10 bits of fraction.
  const std::vector<std::uint16_t> bits = {0x3C00, 0xC000, 0x0001, 0x03FF, 0x0400,
                                           0x7BFF, 0x3555, 0xFC00, 0x8000};
  const std::vector<double> expected = {
      1,         -2,  0x1p-24, 1023 * 0x1p-24, 0x1p-14, 65504, 0x1p-2 * (1 + 0x155 / 1024.0),
      -INFINITY, -0.0};
  const test::TemporaryFiles files;
  const NpyFile file(files.write("h.npy", npy_bytes("<f2", "(9,)", bits)));
  CHECK(all_of<double>(file) == expected);
  const NpyFile nan(files.write("n.npy", npy_bytes<std::uint16_t>("<f2", "(1,)", {0x7E00})));
  CHECK(std::isnan(all_of<float>(nan)[0]));
}

TEST_CASE("a double beyond float32 becomes infinite, a NaN stays one") {
  const test::TemporaryFiles files;
  const NpyFile file(files.write("d.npy", npy_bytes<double>("<f8", "(3,)", {1e300, -1e300, NAN})));
  const auto floats = all_of<float>(file);
  CHECK(floats[0] == INFINITY);
  CHECK(floats[1] == -INFINITY);
  CHECK(std::isnan(floats[2]));
}

TEST_CASE("headers are read as NumPy's versions spell them") {
  const test::TemporaryFiles files;
  CHECK(all_of<float>(NpyFile(
            files.write("a.npy", npy_bytes(npy_header("<f4", "(6,)"), kValues)))) == kValues);
  const std::string other = "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}   \n";
  const NpyFile matrix(files.write("b.npy", npy_bytes(other, kValues)));
  CHECK(matrix.shape() == std::vector<std::size_t>{2, 3});
  CHECK(data::shape_text(matrix.shape()) == "(2, 3)");
  std::vector<float> row(3);
  matrix.read(3, std::span(row));
  CHECK(row == std::vector<float>{0.25f, 3, -7});
  const NpyFile single(files.write("c.npy", npy_bytes<float>(npy_header("<f4", "()"), {2.5f})));
  CHECK(single.shape().empty());
  CHECK(all_of<float>(single) == std::vector<float>{2.5f});
  const NpyFile none(files.write("d.npy", npy_bytes<float>(npy_header("<f4", "(0, 7)"), {})));
  CHECK(none.size() == 0);
  // Versions 2.0 and 3.0: a length of four bytes.
  for (const char version : {'\2', '\3'}) {
    std::string bytes = npy_bytes(npy_header("<f4", "(6,)"), kValues);
    bytes[6] = version;
    bytes.insert(10, std::string(2, '\0'));
    CHECK(all_of<float>(NpyFile(files.write("e.npy", bytes))) == kValues);
  }
}

TEST_CASE("Fortran's order is read where it is the same as C's, and refused elsewhere") {
  const test::TemporaryFiles files;
  for (const std::string shape : {"(6,)", "(6, 1)", "(1, 6, 1)"})
    CHECK(all_of<float>(NpyFile(files.write(
              "a.npy", npy_bytes(npy_header("<f4", shape, true), kValues)))) == kValues);
  const std::string path =
      files.write("b.npy", npy_bytes(npy_header("<f4", "(2, 3)", true), kValues));
  test::says(test::refusal(Kind::data, [&] { const NpyFile file(path); }), "ascontiguousarray");
}

TEST_CASE("a file that is no array of plain numbers is refused, and the error says what it is") {
  const test::TemporaryFiles files;
  const auto refuses = [&](const std::string& bytes, const std::string& word) {
    INFO(word);
    const std::string path = files.write("bad.npy", bytes);
    const std::string sentence = test::refusal(Kind::data, [&] { const NpyFile file(path); });
    test::says(sentence, word);
    test::says(sentence, "bad.npy");
  };
  const auto refuses_header = [&](const std::string& header, const std::string& word) {
    refuses(npy_bytes(header, kValues), word);
  };
  refuses("", "bytes too early");
  refuses("not an array at all", "other first bytes");
  const std::string good = npy_bytes(npy_header("<f4", "(6,)"), kValues);
  refuses(good.substr(0, 20), "bytes too early");
  refuses(good.substr(0, good.size() - 1), "23 bytes for 6 values");
  refuses(good + "x", "25 bytes for 6 values");
  refuses_header(npy_header("|O", "(6,)"), "unpickled");
  refuses_header("{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (3,), }",
                 "structured");
  for (const std::string type :
       {"<U3", "|S4", "<M8[s]", "<c8", "|V4", "f4", "|f4", "=f4", "", "<f", "<f16", "<i3"})
    refuses_header(npy_header(type, "(6,)"), "values of type \"" + type + "\"");
  refuses_header("{'descr': '<f4', 'fortran_order': False, }", "without descr");
  refuses_header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
                 "twice");
  refuses_header("{'descr': '<f4', 'secret': 'x'}", "secret");
  refuses_header("['descr']", "instead of {");
  refuses_header("{'descr': '<f4', 'fortran_order': Maybe}", "True or False");
  refuses_header("{'descr': '<f4", "a text");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } junk", "its end");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "instead of ,");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}", "a size");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                 "a size");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
                 "bytes of");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 9)}",
                 "values of");
  std::string many;
  for (int i = 0; i < 40; ++i) many += "1, ";
  refuses_header(npy_header("<f4", "(" + many + ")"), "32 dimensions");
  std::string version = good;
  version[6] = 9;
  refuses(version, "version 9.0");
  std::string long_header = good;
  long_header[6] = 2;
  std::memcpy(long_header.data() + 8, "\xff\xff\xff\x7f", 4);
  refuses(long_header, "2147483647 bytes");
}

TEST_CASE("what is no regular file is refused") {
  const test::TemporaryFiles files;
  test::says(test::refusal(Kind::data, [&] { const NpyFile file(files.path("none.npy")); }),
             "none.npy");
  test::says(test::refusal(Kind::data, [] { const NpyFile file("/dev/null"); }), "regular file");
  test::says(test::refusal(Kind::data, [&] { const NpyFile file(files.path("")); }),
             "regular file");
}

TEST_CASE("a file that is cut while it is mapped is refused, not read") {
  const test::TemporaryFiles files;
  const std::string path =
      files.write("x.npy", npy_bytes<float>("<f4", "(4096,)", std::vector<float>(4096, 1.5f)));
  const NpyFile file(path);
  std::vector<float> values(4096);
  file.read(0, std::span<float>(values));
  std::filesystem::resize_file(path, 200);
  test::says(test::refusal(Kind::data, [&] { file.read(0, std::span<float>(values)); }),
             "as when the run began, found 200");
}

TEST_CASE("headers with flipped bytes are only refused") {
  const test::TemporaryFiles files;
  const std::string good = npy_bytes(npy_header("<f4", "(6,)"), kValues);
  for (std::size_t i = 0; i < good.size() - kValues.size() * sizeof(float); ++i) {
    for (const unsigned flip : {1u, 0x20u, 0x80u, 0xFFu}) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ flip);
      try {
        const NpyFile file(files.write("bad.npy", bad));
        CHECK(file.size() * data::bytes_of(file.type()) == 24);
      } catch (const Error& error) {
        CHECK(error.kind() == Kind::data);
      }
    }
  }
}
