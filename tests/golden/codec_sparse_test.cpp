// Frozen payloads of the sparse compressors; make_codec_sparse.py computes them without this
// program.

#include "golden/frozen_payloads.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  const auto name = row.at("codec").get<std::string>();
  const int bits = row.at("value_bits").get<int>();
  if (name == "threshold") {
    return make_threshold({.threshold = row.at("threshold").get<double>(), .value_bits = bits});
  }
  const double density = row.at("density").get<double>();
  if (name == "topk") return make_topk({.density = density, .value_bits = bits});
  if (name == "dgc") return make_dgc({.density = density, .value_bits = bits});
  REQUIRE(name == "randomk");
  return make_randomk(
      {.density = density, .value_bits = bits, .unbiased = row.at("unbiased").get<bool>()});
}

}  // namespace

TEST_CASE("sparse payloads are the frozen ones on every target", "[golden]") {
  check_frozen_payloads("codec_sparse.json", 124, make);
}
