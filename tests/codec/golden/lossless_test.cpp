// SPDX-License-Identifier: Apache-2.0
// Frozen payloads of lossless coding; make_lossless.py computes them without this program.

#include "codec/golden/frozen_payloads.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> make(const nlohmann::json& row) {
  return make_compressor(row.at("codec").get<std::string>(), {.coding = Coding::lossless});
}

}  // namespace

TEST_CASE("payloads of lossless coding equal the frozen ones on every target", "[golden]") {
  check_frozen_payloads("lossless.json", 20, make);
}
