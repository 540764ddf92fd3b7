// SPDX-License-Identifier: Apache-2.0
// Values of keys that have no type of their own elsewhere.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace eqt::config {

/// A name that a key accepts, and one line about it.
struct Choice {
  std::string name;
  std::string about;
};

/// A number of steps, or a rule that finds it, which a word stands for.
template <const char* Word>
struct StepsOr {
  static constexpr const char* kWord = Word;
  std::optional<std::uint64_t> count;  // empty: the rule

  bool operator==(const StepsOr&) const = default;
};
inline constexpr char kQsr[] = "qsr";
inline constexpr char kAuto[] = "auto";
using StepsOrQsr = StepsOr<kQsr>;
using StepsOrAuto = StepsOr<kAuto>;

/// Nothing, a number for all ranks, or one for each rank.
using PerRank = std::variant<std::monostate, double, std::vector<double>>;

/// The compute time of an emulated rank from a step on.
struct BoardChange {
  std::uint64_t step = 1;  // counted from 1
  std::uint64_t rank = 0;
  double factor = 1;

  bool operator==(const BoardChange&) const = default;
};
using BoardChanges = std::vector<BoardChange>;

/// Nothing, a list with a number for each class, or a rule that finds them.
enum class WeightRule { balanced };
using ClassWeights = std::variant<std::monostate, WeightRule, std::vector<double>>;

/// Nothing, a list with a whole number for each rank, or a rule that finds them.
enum class BatchRule { by_speed };
using BatchSizes = std::variant<std::monostate, BatchRule, std::vector<std::uint64_t>>;

/// The rate of links is measured, given [Mb/s], or of no interest.
enum class LinkRule { measured, ignore };
using LinkRate = std::variant<LinkRule, double>;

/// Parameters that the optimizer treats in a way of their own.
struct ParameterGroup {
  std::vector<std::string> names;      // patterns, see core/pattern.hpp
  double rate_factor = 1;              // of the learning rate
  std::optional<double> weight_decay;  // in place of optimizer.weight_decay
  bool frozen = false;                 // they are not trained
  std::optional<double> momentum;      // sgd, muon: in place of optimizer.momentum
  bool orthogonal = true;              // muon: matrices are made orthogonal

  bool operator==(const ParameterGroup&) const = default;
};
using ParameterGroups = std::vector<ParameterGroup>;

}  // namespace eqt::config
