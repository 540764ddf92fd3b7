// SPDX-License-Identifier: Apache-2.0
// Frozen payloads of int8, int8-channels, natural and the sign codecs; make_codec_simple.py
// computes them without this program.

#include "codec/golden/frozen_payloads.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  const auto name = row.at("codec").get<std::string>();
  return make_compressor(
      name, {.bucket_size = row.value("bucket_size", CompressorOptions{}.bucket_size)});
}

}  // namespace

TEST_CASE("payloads of the simple codecs equal the frozen ones on every target", "[golden]") {
  check_frozen_payloads("codec_simple.json", 45, make);
}
