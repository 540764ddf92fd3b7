// SPDX-License-Identifier: Apache-2.0
// Frozen payloads of the sparse compressors; make_codec_sparse.py computes them without this
// program.

#include "codec/golden/frozen_payloads.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  const auto name = row.at("codec").get<std::string>();
  const int bits = row.at("value_bits").get<int>();
  return make_compressor(name, {.threshold = row.value("threshold", 0.0),
                                .density = row.value("density", CompressorOptions{}.density),
                                .value_bits = bits,
                                .unbiased = row.value("unbiased", false)});
}

}  // namespace

TEST_CASE("sparse payloads equal the frozen ones on every target", "[golden]") {
  check_frozen_payloads("codec_sparse.json", 348, make);
}
