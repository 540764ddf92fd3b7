// SPDX-License-Identifier: Apache-2.0
// Reading gradient files, and the error for each kind of malformed file.

#include "analyze/dumped_gradient.hpp"

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
using namespace eqt::analyze;

using test::npy_bytes;

std::string header_of(std::size_t count) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }\n";
}

void refuses(const std::string& path, const std::string& word) {
  INFO(word);
  test::says(test::refusal(Kind::data, [&] { (void)read_dumped_gradient(path); }), word);
}

const std::vector<float> kValues = {1.5f, -2, 0, 0.25f, 3, -7};

}  // namespace

TEST_CASE("a file that is no gradient is refused, and the error says what it is") {
  const test::TemporaryFiles files;
  const auto refuses_npy = [&](const std::string& bytes, const std::string& word) {
    refuses(files.write("bad.npy", bytes), word);
  };
  refuses(files.path("none.npy"), "No such file");
  refuses_npy("not an array at all", "other first bytes");
  refuses_npy(npy_bytes(header_of(0), std::vector<float>()), "float32 of shape (0,)");
  refuses_npy(npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", kValues),
              "float64 of shape (3,)");
  refuses_npy(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", kValues),
              "float32 of shape (2, 3)");
  auto infinite = kValues;
  infinite[4] = std::numeric_limits<float>::infinity();
  refuses_npy(npy_bytes(header_of(6), infinite), "index 4");
}

TEST_CASE("a layout file names the tensors, and must match the array") {
  const test::TemporaryFiles files;
  const std::string path = files.write("g.npy", npy_bytes(header_of(6), kValues));
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
