// SPDX-License-Identifier: Apache-2.0
// The parameter update, over flat buffers.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"

namespace eqt::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update of `parameters` by the mean gradient at learning rate `rate`.
  virtual void step(std::span<float> parameters, std::span<const float> gradient, float rate) = 0;
  /// Visits the momentum. @param models rule for converting models and momentum
  virtual void visit_state(StateVisitor& visitor, Across models) = 0;
};

/// Returns the rules, or one for all values where there are none.
/// @throws Error{usage} for a factor or decay that is out of range
UpdateRules rules_for(std::size_t count, double weight_decay, const UpdateRules& rules);

/// Checks an option of an optimizer or a schedule.
/// @throws Error{usage} with the config key and its range, unless `valid`
void check(bool valid, std::string_view key, std::string_view range, double found);

/// The coefficients of all optimizers; each reads its own.
struct OptimizerOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  int iterations = 5;
  bool fixed_norm = false;
  double weight_decay = 0;
  std::vector<TensorSlice> momentum_corrected;  // see SgdOptions
  UpdateRules rules = {};
};

/// An optimizer. To add one, write its row in the file of its code, and a line in optimizers.def.
struct OptimizerRow {
  std::string_view name, about;
  std::span<const std::string_view> keys = {};  // of the config's section, read by no other
  std::size_t moments = 0;                      // values that it keeps for each parameter, at most
  /// With momentum 0 it is plain gradient descent and keeps nothing, so that the momentum can be
  /// elsewhere: in gradients (DGC), in votes, in the direction of an algorithm.
  bool is_plain_without_momentum = false;
  /// Its update does not grow with the gradient, so that factors of a rank's loss have no effect.
  bool is_scale_free = false;
  /// Its update is as large where the gradient is weak as where it is strong, so that it makes a
  /// compressor's noise larger there.
  bool amplifies_noise = false;
  /// @param layout of the parameters, which an optimizer of matrices needs
  /// @throws Error{usage} when a coefficient is out of range
  std::unique_ptr<Optimizer> (*make)(const Layout& layout,
                                     const OptimizerOptions& options) = nullptr;

  /// Returns all rows, in the order of the documentation.
  static const Catalogue<OptimizerRow>& all();
};

#define EQT_OPTIMIZER(row) extern const OptimizerRow row;
#include "optim/optimizers.def"
#undef EQT_OPTIMIZER

/// SGD as torch.optim.SGD with dampening 0: g += wd p; m = mu m + g; p -= rate (g + mu m | m).
struct SgdOptions {
  float momentum = 0.9f;
  bool nesterov = false;
  float weight_decay = 0;
  /// Ranges of the flat buffer whose gradient already includes momentum (the compressed slices of
  /// DGC). There the momentum buffer accumulates only the weight decay. In any order, without
  /// overlap.
  std::vector<TensorSlice> momentum_corrected;
  UpdateRules rules = {};
};

/// @throws Error{usage} when a coefficient is out of range or Nesterov's step has no momentum
std::unique_ptr<Optimizer> make_sgd(std::size_t count, const SgdOptions& options);

/// AdamW as torch.optim.AdamW without amsgrad: means of the gradient and of its square, corrected
/// for their start at 0, and weight decay that does not pass through them.
struct AdamWOptions {
  double beta1 = 0.9;    // of the mean of the gradient
  double beta2 = 0.999;  // of the mean of its square
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  UpdateRules rules = {};
};

/// @throws Error{usage} when a coefficient is out of range
std::unique_ptr<Optimizer> make_adamw(std::size_t count, const AdamWOptions& options);

/// Muon of matrices and convolutions, SGD of all other parameters and of those whose rule says so.
/// muon.cpp has the formulas.
struct MuonOptions {
  float momentum = 0.95f;
  bool nesterov = true;
  double weight_decay = 0;  // of matrices it does not pass through the momentum
  int iterations = 5;       // that make a matrix orthogonal
  bool fixed_norm = false;  // of matrices: the root of their rows, in place of decay
  UpdateRules rules = {};
};

/// @throws Error{usage} when a coefficient is out of range, or no parameter is a matrix
std::unique_ptr<Optimizer> make_muon(const Layout& layout, const MuonOptions& options);

}  // namespace eqt::optim
