// SPDX-License-Identifier: Apache-2.0
// Weight files: round trip, and every kind of malformed file.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

using Catch::Matchers::ContainsSubstring;
constexpr data::ImageShape kCifar{3, 32, 32};

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("eqt_weights." + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const char* name) const { return path_ / name; }
  auto count() const { return std::distance(std::filesystem::directory_iterator(path_), {}); }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<Replica> resnet20(
    std::uint64_t seed, Shortcut shortcut = Shortcut::projection,
    Entry<NormalizationRow> normalization = normalizations::batchnorm) {
  return make_replica({.model = models::resnet20,
                       .inputs = test::pictures(kCifar),
                       .normalization = normalization,
                       .shortcut = shortcut,
                       .seed = seed});
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST_CASE("weights come back bit by bit, buffers included") {
  const Folder folder;
  const auto batch = random_batch(8, kCifar);
  const auto normalization =
      GENERATE(Entry(normalizations::batchnorm), Entry(normalizations::evonorm_s0),
               Entry(normalizations::range_batchnorm));
  const auto one = resnet20(1, Shortcut::projection, normalization);
  const auto other = resnet20(2, Shortcut::projection, normalization);
  one->forward_backward(batch, {});  // changes the running statistics
  one->save_weights(folder.file("model.pt"));
  CHECK(folder.count() == 1);  // no temporary file is left
  other->load_weights(folder.file("model.pt"));
  CHECK(copy(other->parameters()) == copy(one->parameters()));
  CHECK(copy(other->buffers()) == copy(one->buffers()));
  CHECK(other->evaluate(batch).loss_sum == one->evaluate(batch).loss_sum);
}

TEST_CASE("a file that does not match is refused with a tensor's name, and nothing is loaded") {
  const Folder folder;
  const auto path = folder.file("model.pt");
  const auto replica = resnet20(1);
  const auto before = copy(replica->parameters());
  const auto refusal = [&] {
    return test::refusal(Kind::data, [&] { replica->load_weights(path); });
  };

  resnet20(2, Shortcut::padding)->save_weights(path);
  CHECK_THAT(refusal(), ContainsSubstring("layer2.0.downsample.0.weight"));
  resnet20(2, Shortcut::projection, normalizations::evonorm_s0)->save_weights(path);
  CHECK_THAT(refusal(), ContainsSubstring("bn1.") && ContainsSubstring("in the weights file"));
  make_replica({.model = models::resnet56, .inputs = test::pictures(kCifar)})->save_weights(path);
  CHECK_THAT(refusal(), ContainsSubstring("layer1.3.") && ContainsSubstring("model.name"));
  make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar), .outputs = 100})
      ->save_weights(path);
  CHECK_THAT(refusal(), ContainsSubstring("fc.weight") && ContainsSubstring("[10, 64]") &&
                            ContainsSubstring("[100, 64]"));
  const auto broken = resnet20(3);
  broken->parameters()[0] = std::numeric_limits<float>::infinity();
  broken->save_weights(path);
  CHECK_THAT(refusal(), ContainsSubstring("conv1.weight") && ContainsSubstring("finite"));
  CHECK(copy(replica->parameters()) == before);
}

TEST_CASE("a file that is missing, cut or malformed is refused in one sentence") {
  const Folder folder;
  const auto path = folder.file("model.pt");
  const auto replica = resnet20(1);
  const auto refusal = [&] {
    return test::refusal(Kind::data, [&] { replica->load_weights(path); });
  };
  CHECK_THAT(refusal(), ContainsSubstring("No such file"));

  replica->save_weights(path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto write = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    CAPTURE(size);
    write(bytes.substr(0, size));
    CHECK_THAT(refusal(), ContainsSubstring("torch.save(model.state_dict(), path)"));
  }
  write(std::string(5000, 'x'));
  CHECK_THAT(refusal(), ContainsSubstring("torch.save(model.state_dict(), path)"));
}

TEST_CASE("a file that cannot be written is an output error") {
  const Folder folder;
  const auto replica = resnet20(1);
  const auto message = test::refusal(
      Kind::output, [&] { replica->save_weights(folder.file("no such folder/model.pt")); });
  CHECK_THAT(message, ContainsSubstring("no such folder/model.pt"));
}

}  // namespace
}  // namespace eqt::model
