// SPDX-License-Identifier: Apache-2.0
// With the step that is chosen for it, every compressor makes the ranks of a ring agree.

#include <fmt/format.h>

#include <cmath>

#include "support/catch.hpp"
#include "support/gossip_cases.hpp"
#include "sync/gossip/consensus_step.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

constexpr std::size_t kNodes = 8;
const Shapes kShapes = {{50, 60}};

double consensus_error(const Vectors& models) {
  double sum = 0;
  for (std::size_t k = 0; k < models[0].size(); ++k) {
    double mean = 0;
    for (const auto& model : models) mean += model[k] / kNodes;
    for (const auto& model : models) sum += (model[k] - mean) * (model[k] - mean);
  }
  return std::sqrt(sum);
}

Vectors gaussian_models(std::size_t count) {
  Vectors models;
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    const auto values = gaussian(count, {.run_seed = 50, .rank = node});
    models.emplace_back(values.begin(), values.end());
  }
  return models;
}

/// Consensus error after `rounds` of pure averaging on the undirected ring, as a part of the first.
double remaining(Mixing mixing, const codec::Compressor& compressor, bool directed, int rounds,
                 double* gamma) {
  const Layout layout = layout_of(kShapes);
  const std::size_t count = total_count(layout);
  const auto plan = pipeline::plan_buckets(layout, compressor, {.skip_below = 1});
  const sync::Quality quality = sync::measure_quality(compressor, plan, 1);
  const auto step = mixing == Mixing::choco ? &sync::choco_step : &sync::squeeze_step;
  *gamma = step(quality.contraction, compressor.properties(), !directed);
  const auto ring = make(topology::GraphKind::ring, kNodes, directed);
  GossipOracle oracle({.name = "averaging", .mixing = mixing},
                      {.gamma = *gamma, .damping = static_cast<double>(quality.damping)}, *ring,
                      compressor, layout, 1, std::vector<double>(count));
  oracle.set_models(gaussian_models(count));
  const double before = consensus_error(oracle.models());
  for (int round = 0; round < rounds; ++round) {
    oracle.step(0, [&](std::size_t, const auto& z) { return std::vector<double>(z.size()); });
  }
  return consensus_error(oracle.models()) / before;
}

/// With default options, and with larger errors.
std::vector<NamedCompressor> allowed_compressors() {
  using namespace codec;
  std::vector<NamedCompressor> all;
  for (auto& [name, compressor] : all_compressors()) {
    if (name != "signsgd" && name != "dgc") all.emplace_back(name, std::move(compressor));
  }
  all.emplace_back("topk 1 %", make_compressor("topk", {.density = 0.01}));
  all.emplace_back("threshold 1 %", make_compressor("threshold", {.density = 0.01}));
  all.emplace_back("randomk, unbiased",
                   make_compressor("randomk", {.density = 0.1, .unbiased = true}));
  all.emplace_back("qsgd 2 bits", make_compressor("qsgd", {.bits = 2, .bucket_size = 512}));
  all.emplace_back("qsgd 8 bits", make_compressor("qsgd", {.bits = 8, .bucket_size = 512}));
  all.emplace_back("qsgd 8 bits, one bucket",
                   make_compressor("qsgd", {.bits = 8, .bucket_size = 3000}));
  all.emplace_back("qsgd-v 2 bits", make_compressor("qsgd-v", {.bits = 2, .bucket_size = 512}));
  all.emplace_back("elastiquant 2 bits", make_compressor("elastiquant", {.bits = 2}));
  all.emplace_back("elastiquant 8 bits", make_compressor("elastiquant", {.bits = 8}));
  all.emplace_back("nuqsgd 2 bits", make_compressor("nuqsgd", {.bits = 2}));
  all.emplace_back("powersgd 8", make_compressor("powersgd", {.rank = 8}));
  return all;
}

void check_all(Mixing mixing, bool directed, int rounds, double most) {
  for (const auto& [name, compressor] : allowed_compressors()) {
    double gamma = 0;
    const double left = remaining(mixing, *compressor, directed, rounds, &gamma);
    fmt::print("{}ring of 8, {}, {}: gamma {:.3g} leaves {:.2g} of the error after {} rounds\n",
               directed ? "directed " : "", mixing == Mixing::choco ? "CHOCO" : "DeepSqueeze", name,
               gamma, left, rounds);
    INFO(name);
    CHECK(left < most);
  }
}

}  // namespace

TEST_CASE("CHOCO contracts with every compressor", "[gossip]") {
  check_all(Mixing::choco, false, 300, 0.5);
}

TEST_CASE("CHOCO contracts on a directed ring", "[gossip]") {
  // Its spectral gap is 0.08, not 0.2, so half the exponent is required.
  check_all(Mixing::choco, true, 300, 0.75);
}

TEST_CASE("DeepSqueeze contracts with every compressor", "[gossip]") {
  check_all(Mixing::squeeze, false, 300, 0.75);
}
