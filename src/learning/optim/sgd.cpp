// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, weight decay and Nesterov's look-ahead, in one pass.
//
// Source   I. Sutskever et al., ICML 2013, as torch.optim.SGD writes it (dampening 0); momentum
//          correction: Y. Lin et al. (DGC), ICLR 2018, arXiv:1712.01887, section 3.2
// Symbols  p parameter, g gradient, m momentum buffer, mu momentum, wd weight decay
// Step     d = g + wd p;  m <- mu m + d;  p <- p - rate (nesterov ? d + mu m : m)
//          where g already includes momentum:
//          d = wd p;      m <- mu m + d;  p <- p - rate (g + (nesterov ? d + mu m : m))
// Speed limited by memory: 12 bytes read and 8 written per parameter; without momentum 8 and 4

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "optim/optimizer.hpp"

namespace eqt::optim {
namespace {

struct Coefficients {
  float rate;
  float momentum;
  float weight_decay;
};

// The three buffers never overlap; __restrict lets the compiler use vector instructions without
// checks.
void update_plain(std::size_t count, const Coefficients& k, float* __restrict p,
                  const float* __restrict g) {
  for (std::size_t i = 0; i < count; ++i) p[i] -= k.rate * (g[i] + k.weight_decay * p[i]);
}

template <bool kNesterov, bool kCorrected>
void update(std::size_t count, const Coefficients& k, float* __restrict p,
            const float* __restrict g, float* __restrict m) {
  for (std::size_t i = 0; i < count; ++i) {
    const float decay = k.weight_decay * p[i];
    const float d = kCorrected ? decay : g[i] + decay;
    m[i] = k.momentum * m[i] + d;
    const float ahead = kNesterov ? d + k.momentum * m[i] : m[i];
    p[i] -= k.rate * (kCorrected ? g[i] + ahead : ahead);
  }
}

/// A range of values with the same update rule.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool corrected = false;
  float rate_factor = 1;
  float weight_decay = 0;
  std::optional<float> momentum = {};
};

/// Cuts [0, count) at the borders of the corrected slices.
std::vector<Range> cut_ranges(std::size_t count, std::vector<TensorSlice> corrected) {
  std::sort(corrected.begin(), corrected.end(),
            [](const TensorSlice& a, const TensorSlice& b) { return a.offset < b.offset; });
  std::vector<Range> ranges;
  std::size_t at = 0;
  const auto append = [&](std::size_t end, bool is_corrected) {
    if (end == at) return;
    if (!ranges.empty() && ranges.back().corrected == is_corrected) {
      ranges.back().end = end;
    } else {
      ranges.push_back({.begin = at, .end = end, .corrected = is_corrected});
    }
    at = end;
  };
  for (const TensorSlice& slice : corrected) {
    EQT_CHECK(slice.offset >= at && slice.offset <= count && slice.count <= count - slice.offset,
              "slice {} covers {} values at {}, of {} values with the first {} taken", slice.name,
              slice.count, slice.offset, count, at);
    append(slice.offset, false);
    append(slice.offset + slice.count, true);
  }
  append(count, false);
  return ranges;
}

/// Returns the ranges, cut where the rules change.
std::vector<Range> cut_by_rules(const std::vector<Range>& ranges, const UpdateRules& rules) {
  std::vector<Range> cut;
  for (const Range& range : ranges) {
    for (const UpdateRule& rule : rules) {
      const std::size_t begin = std::max(range.begin, rule.begin);
      const std::size_t end = std::min(range.end, rule.end);
      if (begin < end)
        cut.push_back({begin, end, range.corrected, rule.rate_factor,
                       static_cast<float>(rule.weight_decay), rule.momentum});
    }
  }
  return cut;
}

class Sgd final : public Optimizer {
 public:
  Sgd(std::size_t count, const SgdOptions& options)
      : count_(count),
        options_(options),
        ranges_(cut_by_rules(
            cut_ranges(count, options.momentum_corrected),
            rules_for(count, static_cast<double>(options.weight_decay), options.rules))) {
    // Without momentum the buffer would be a copy of d.
    const auto has = [](const Range& range) { return range.momentum.value_or(0) != 0; };
    if (options.momentum != 0 || std::ranges::any_of(ranges_, has)) momentum_.resize(count);
  }

  void step(std::span<float> parameters, std::span<const float> gradient, float rate) override {
    EQT_CHECK(parameters.size() == count_ && gradient.size() == count_,
              "{} parameters and {} gradient values, {} expected", parameters.size(),
              gradient.size(), count_);
    float* p = parameters.data();
    const float* g = gradient.data();
    for (const Range& range : ranges_) {
      const Coefficients k{rate * range.rate_factor, range.momentum.value_or(options_.momentum),
                           range.weight_decay};
      if (momentum_.empty()) {
        update_plain(range.end - range.begin, k, p + range.begin, g + range.begin);
        continue;
      }
      const auto kernel = options_.nesterov
                              ? (range.corrected ? update<true, true> : update<true, false>)
                              : (range.corrected ? update<false, true> : update<false, false>);
      kernel(range.end - range.begin, k, p + range.begin, g + range.begin,
             momentum_.data() + range.begin);
    }
  }

  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.values("momentum", momentum_, models);
  }

 private:
  std::size_t count_;
  SgdOptions options_;
  std::vector<Range> ranges_;
  std::vector<float> momentum_;  // (count), or empty without momentum
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(std::size_t count, const SgdOptions& options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    fail(Kind::usage, "optimizer.momentum must be at least 0 and below 1, found {}",
         options.momentum);
  }
  if (!(options.weight_decay >= 0 && std::isfinite(options.weight_decay))) {
    fail(Kind::usage, "optimizer.weight_decay must be a finite number >= 0, found {}",
         options.weight_decay);
  }
  if (options.nesterov && options.momentum == 0) {
    fail(Kind::usage, "optimizer.nesterov needs optimizer.momentum above 0, found 0");
  }
  return std::make_unique<Sgd>(count, options);
}

namespace {

constexpr std::string_view kKeys[] = {"momentum", "nesterov", "momentum_kind"};

std::unique_ptr<Optimizer> make(const Layout& layout, const OptimizerOptions& options) {
  return make_sgd(total_count(layout), {.momentum = static_cast<float>(options.momentum),
                                        .nesterov = options.nesterov,
                                        .weight_decay = static_cast<float>(options.weight_decay),
                                        .momentum_corrected = options.momentum_corrected,
                                        .rules = options.rules});
}

}  // namespace

const OptimizerRow kSgd = {.name = "sgd",
                           .about = "stochastic gradient descent with momentum",
                           .keys = kKeys,
                           .moments = 1,
                           .is_plain_without_momentum = true,
                           .make = make};

}  // namespace eqt::optim
