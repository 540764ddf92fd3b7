// SPDX-License-Identifier: Apache-2.0
// Reading gradient files, and the error for each kind of malformed file.

#include "analyze/dumped_gradient.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "analyze/npy_file.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace eqt;
using namespace eqt::analyze;

/// A NumPy file of format version 1.0.
std::string npy(const std::string& header, const std::vector<float>& values) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return bytes;
}

std::string header_of(std::size_t count) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }\n";
}

class Files {
 public:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  test::TemporaryFolder folder_;
};

void refuses(const std::string& path, const std::string& word) {
  INFO(word);
  test::says(test::refusal(Kind::data, [&] { (void)read_dumped_gradient(path); }), word);
}

const std::vector<float> kValues = {1.5f, -2, 0, 0.25f, 3, -7};

}  // namespace

TEST_CASE("NumPy's own spellings of the header are read") {
  const Files files;
  CHECK(read_npy(files.write("a.npy", npy(header_of(6), kValues))) == kValues);
  CHECK(read_npy(files.write("b.npy",
                             npy("{\"shape\":(6,),\"descr\":\"<f4\",\"fortran_order\":True}   \n",
                                 kValues))) == kValues);
  // Version 2.0: a length of four bytes.
  std::string second = npy(header_of(6), kValues);
  second[6] = 2;
  second.insert(10, std::string(2, '\0'));
  CHECK(read_npy(files.write("c.npy", second)) == kValues);
}

TEST_CASE(
    "a file that is no one-dimensional float32 array is refused, and the error says what it is") {
  const Files files;
  const auto refuses_npy = [&](const std::string& bytes, const std::string& word) {
    refuses(files.write("bad.npy", bytes), word);
  };
  refuses(files.path("none.npy"), "found none");
  refuses_npy("", "bytes too early");
  refuses_npy("not an array at all", "other first bytes");
  const std::string good = npy(header_of(6), kValues);
  refuses_npy(good.substr(0, 20), "bytes too early");
  refuses_npy(good.substr(0, good.size() - 1), "23 bytes for 6 values");
  refuses_npy(good + "x", "25 bytes for 6 values");
  refuses_npy(npy(header_of(0), {}), "0 values");
  refuses_npy(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", kValues), "<f8");
  refuses_npy(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", kValues), ">f4");
  refuses_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", kValues),
              "number of dimensions");
  refuses_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", kValues),
              "number of dimensions");
  refuses_npy(npy("{'descr': '<f4', 'fortran_order': False, }", kValues), "without descr or shape");
  refuses_npy(npy("{'descr': '<f4', 'secret': 'x'}", kValues), "secret");
  refuses_npy(npy("['descr']", kValues), "instead of {");
  refuses_npy(npy("{'descr': '<f4', 'fortran_order': Maybe}", kValues), "True or False");
  refuses_npy(npy("{'descr': '<f4", kValues), "a text");
  refuses_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } junk", kValues),
              "its end");
  refuses_npy(npy("{'shape': (99999999999999999999,), }", kValues), "number of dimensions");
  refuses_npy(npy("{'descr': '<f4', 'shape': (4611686018427387904,), }", kValues),
              "4611686018427387904 values");
  std::string version = good;
  version[6] = 9;
  refuses_npy(version, "version 9");
  std::string long_header = good;
  long_header[6] = 2;
  std::memcpy(long_header.data() + 8, "\xff\xff\xff\x7f", 4);
  refuses_npy(long_header, "2147483647 bytes");
  auto infinite = kValues;
  infinite[4] = std::numeric_limits<float>::infinity();
  refuses_npy(npy(header_of(6), infinite), "index 4");
}

TEST_CASE("headers with cut or flipped bytes are only refused") {
  const Files files;
  const std::string good = npy(header_of(6), kValues);
  for (std::size_t i = 0; i < good.size() - kValues.size() * sizeof(float); ++i) {
    for (const unsigned flip : {1u, 0x20u, 0x80u, 0xFFu}) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ flip);
      try {
        const std::vector<float> found = read_npy(files.write("bad.npy", bad));
        CHECK(found.size() == 6);
      } catch (const Error& error) {
        CHECK(error.kind() == Kind::data);
      }
    }
  }
}

TEST_CASE("a layout file names the tensors, and must match the array") {
  const Files files;
  const std::string path = files.write("g.npy", npy(header_of(6), kValues));
  const DumpedGradient plain = read_dumped_gradient(path);
  CHECK_FALSE(plain.has_layout);
  CHECK(plain.values == kValues);
  REQUIRE(plain.layout.size() == 1);
  CHECK(total_count(plain.layout) == 6);
  files.write("g.json",
              R"({"step": 9, "rank": 1, "tensors": [
                  {"name": "a", "offset": 0, "count": 4, "shape": [2, 2], "stored_shape": [2, 2]},
                  {"name": "b", "offset": 4, "count": 2, "shape": [2]}]})");
  const DumpedGradient gradient = read_dumped_gradient(path);
  REQUIRE(gradient.has_layout);
  REQUIRE(gradient.layout.size() == 2);
  CHECK(gradient.layout[1].name == "b");
  CHECK(gradient.layout[1].offset == 4);
  CHECK(gradient.layout[0].shape == std::vector<std::int64_t>{2, 2});
  CHECK(gradient.step == 9);
  CHECK(gradient.rank == 1);

  const auto refuses_layout = [&](const std::string& json, const std::string& word) {
    files.write("g.json", json);
    refuses(path, word);
  };
  refuses_layout("{", "g.json");
  refuses_layout("{}", "tensors");
  refuses_layout(R"({"tensors": 3})", "tensors");
  refuses_layout(R"({"tensors": []})", "tensors of 0 values for a gradient of 6");
  refuses_layout(R"({"tensors": [{"offset": 0, "count": 6, "shape": [6]}]})", "without a name");
  refuses_layout(R"({"tensors": [{"name": "a", "offset": 1, "count": 5, "shape": [5]}]})",
                 "a gap or an overlap");
  refuses_layout(R"({"tensors": [{"name": "a", "offset": 0, "count": 7, "shape": [7]}]})",
                 "beyond the 6 values");
  refuses_layout(R"({"tensors": [{"name": "a", "offset": 0, "count": 6, "shape": [2, 2]}]})",
                 "does not hold 6 values");
  refuses_layout(
      R"({"tensors": [{"name": "a", "offset": 0, "count": 6, "shape": [2147483647, 2147483647, 2147483647]}]})",
      "does not hold 6 values");
  refuses_layout(R"({"tensors": [{"name": "a", "offset": 0, "count": -6, "shape": [6]}]})",
                 "\"count\"");
  refuses_layout(R"({"tensors": [{"name": "a", "offset": 0, "count": 6, "shape": [6.5]}]})", "6.5");
}
