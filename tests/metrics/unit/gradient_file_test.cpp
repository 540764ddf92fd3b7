// SPDX-License-Identifier: Apache-2.0
#include "metrics/gradient_file.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "core/error.hpp"
#include "records_support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::metrics;
using namespace eqt::metrics::test;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const Layout kLayout = {{"conv.weight", {2, 3, 1, 5}, 0, 30}, {"conv.bias", {2}, 30, 2}};

}  // namespace

TEST_CASE("an array file is as NumPy's format 1.0 says", "[npy]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  for (const std::size_t count : {0u, 1u, 7u, 9999999u, 10000000u}) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.5f);
    write_npy(path.string(), values);
    const std::string bytes = bytes_of(path);
    REQUIRE(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\0", 8));
    const std::size_t header =
        static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
    CHECK((header + 10) % 64 == 0);
    const std::string text = bytes.substr(10, header);
    CHECK(text.back() == '\n');
    CHECK(text.substr(0, text.find_last_not_of(" \n") + 1) ==
          "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }");
    REQUIRE(bytes.size() == 10 + header + 4 * count);
    CHECK(bytes.substr(10 + header) ==
          std::string(reinterpret_cast<const char*>(values.data()), 4 * count));
  }
}

TEST_CASE("a gradient has a layout file, with kernels channels-last", "[npy]") {
  const TemporaryFolder folder;
  const std::vector<float> values(32, 1.0f);
  write_gradient(folder.path().string(), {.step = 120, .epoch = 3, .rank = 1, .batch_size = 64},
                 kLayout, values);
  CHECK(fs::exists(folder.path() / "step00000120.rank1.npy"));
  const auto json = nlohmann::json::parse(bytes_of(folder.path() / "step00000120.rank1.json"));
  CHECK(json == nlohmann::json::parse(R"({
      "schema": 1, "file": "step00000120.rank1.npy", "step": 120, "epoch": 3, "rank": 1,
      "batch_size": 64, "values": 32,
      "tensors": [{"name": "conv.weight", "offset": 0, "count": 30, "shape": [2, 3, 1, 5],
                   "stored_shape": [2, 1, 5, 3]},
                  {"name": "conv.bias", "offset": 30, "count": 2, "shape": [2],
                   "stored_shape": [2]}]})"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("a gradient that cannot be written is an output error", "[npy]") {
  const std::vector<float> values(32);
  eqt::test::refusal(Kind::output,
                     [&] { write_gradient("/proc/no-such-folder", {}, kLayout, values); });
}
