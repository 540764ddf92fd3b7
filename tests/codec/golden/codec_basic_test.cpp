// SPDX-License-Identifier: Apache-2.0
// Frozen payloads of the basic codecs; make_codec_basic.py computes them without this program.

#include "codec/golden/frozen_payloads.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  const auto name = row.at("codec").get<std::string>();
  return make_compressor(name, {.clip = row.value("clip", CompressorOptions{}.clip)});
}

}  // namespace

TEST_CASE("payloads equal the frozen ones on every target", "[golden]") {
  check_frozen_payloads("codec_basic.json", 30, make);
}
