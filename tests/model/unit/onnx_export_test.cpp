// SPDX-License-Identifier: Apache-2.0
// Networks of LibTorch and of this program's own executor as files of ONNX, which are the same.

#include "model/export.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include "model/own/own_replica.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::model {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("exports to ONNX hold the file's weights, whatever computes the network", "[export]") {
  const test::TemporaryFolder folder;
  const data::ImageShape shape{3, 32, 32};
  const ModelOptions options = {.model = models::resnet20, .inputs = test::pictures(shape)};
  const auto trained = make_replica(options);
  trained->forward_backward(random_batch(16, shape), {});
  trained->save_weights(folder.path() + "/model.pt");
  const auto request = [&](const std::string& name) {
    return Export{.format = ExportFormat::onnx,
                  .weights = folder.path() + "/model.pt",
                  .preprocessing = R"({"shape": [3, 32, 32]})",
                  .out = folder.path() + name};
  };
  export_network(options, request("/usual.onnx"));
  export_without_torch(*make_float32_replica(options), options, request("/own.onnx"));
  const std::string usual = bytes_of(folder.path() + "/usual.onnx");
  REQUIRE(usual.size() > 4 * 272'474);
  CHECK(usual == bytes_of(folder.path() + "/own.onnx"));
  // Both kinds of values, as they lie in memory: they have one dimension.
  const Layout& layout = trained->layout();
  const auto bias = std::ranges::find(layout, "fc.bias", &TensorSlice::name);
  REQUIRE(bias != layout.end());
  for (const std::span<const float> values :
       {std::span<const float>(trained->parameters().subspan(bias->offset, bias->count)),
        std::span<const float>(trained->buffers().first(16))}) {
    const auto bytes = std::as_bytes(values);
    CHECK(usual.find(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())) !=
          std::string::npos);
  }
  CHECK(usual.find("preprocessing") != std::string::npos);
}

}  // namespace eqt::model
