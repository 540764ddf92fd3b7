// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/files.hpp"

namespace eqt::data {

const Catalogue<DatasetRow>& DatasetRow::all() {
  static const Catalogue<DatasetRow> rows = {
#define EQT_DATASET(id) sets::id,
#include "data/datasets.def"
  };
  return rows;
}

int Dataset::label(std::size_t sample) const {
  fail(Kind::bug, "sample {} of a set without classes was asked for its class", sample);
}

void Dataset::standardize_by(std::span<const Moments> moments) {
  fail(Kind::bug, "{} moments for a set that measures none", moments.size());
}

void Dataset::settle_tokens(std::int64_t tokens) {
  fail(Kind::bug, "{} tokens for a set that counts none", tokens);
}

Normalization normalization_of(std::span<const Moments> moments) {
  constexpr double kMinDeviation = 1.0 / 255;
  Normalization result;
  for (const Moments& channel : moments) {
    result.mean.push_back(channel.mean);
    result.deviation.push_back(std::max(kMinDeviation, channel.deviation()));
  }
  return result;
}

void standardize(DatasetPair& pair, std::span<const Moments> moments) {
  if (pair.train != nullptr) pair.train->standardize_by(moments);
  if (pair.test != nullptr) pair.test->standardize_by(moments);
  if (!pair.normalization.mean.empty()) pair.normalization = normalization_of(moments);
  pair.moments = std::vector<Moments>(moments.begin(), moments.end());  // may be the same
}

namespace {

constexpr double kMostFigure = 1e30, kLeastDeviation = 1e-30;

/// @param where, remedy  for the message
void require_usable_figure(double mean, double deviation, const std::string& where,
                           std::string_view remedy) {
  if (fits_float32(mean, deviation)) return;
  fail(Kind::data,
       "expected a mean of at most {} in size and a deviation from {} to {}, so that float32 can "
       "hold what they standardize, found the mean {} and the deviation {} of {}; {}",
       kMostFigure, kLeastDeviation, kMostFigure, mean, deviation, where, remedy);
}

/// Says which numbers of the samples share a mean and a deviation.
std::string group_text(const DatasetPair& pair, std::size_t group) {
  if (group < pair.columns.size()) return "column " + shown(pair.columns[group]);
  return fmt::format("index {} (from 0) with data.standardize \"{}\"", group,
                     eqt::name_of(pair.standardize));
}

}  // namespace

bool fits_float32(double mean, double deviation) {
  return std::abs(mean) <= kMostFigure && deviation <= kMostFigure &&
         deviation >= kLeastDeviation && std::abs(mean) / deviation <= kMostFigure;
}

void require_usable_figures(const DatasetPair& pair) {
  const auto& [mean, deviation] = pair.normalization;
  for (std::size_t i = 0; i < mean.size(); ++i)
    require_usable_figure(mean[i], deviation[i],
                          fmt::format("channel {} of {}", i + 1, mean.size()),
                          "correct data.mean and data.deviation, or leave them out");
  if (!mean.empty()) return;
  for (std::size_t i = 0; i < pair.moments.size(); ++i)
    require_usable_figure(pair.moments[i].mean, pair.moments[i].divisor(), group_text(pair, i),
                          "scale these numbers, or leave them out");
}

void settle_tokens(DatasetPair& pair, std::int64_t tokens) {
  EQT_CHECK(pair.tokens > 0 && pair.tokens <= tokens, "{} tokens, found {}", tokens, pair.tokens);
  if (pair.train != nullptr) pair.train->settle_tokens(tokens);
  if (pair.test != nullptr) pair.test->settle_tokens(tokens);
  pair.tokens = tokens;
}

std::span<const Named<Standardize>> names_of(Standardize) {
  static constexpr Named<Standardize> kNames[] = {
      {Standardize::off, "off", "numbers stay as they are"},
      {Standardize::first_axis, "first-axis",
       "one mean and deviation for each index of a sample's first axis: channels of (channels, "
       "steps)"},
      {Standardize::last_axis, "last-axis",
       "one for each index of its last axis: features of (features) or (steps, features)"}};
  return kNames;
}

std::vector<int> labels_of(const Dataset& dataset) {
  std::vector<int> labels(dataset.size());
  if (dataset.classes() == 0) return labels;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = dataset.label(i);
  return labels;
}

std::string_view text_of(TargetKind kind) {
  switch (kind) {
    case TargetKind::classes:
      return "a class for each sample";
    case TargetKind::flags:
      return "float32 targets of one dimension, 0 or 1 for each class";
    case TargetKind::values:
      return "float32 targets";
    case TargetKind::tokens:
      return "int64 targets of one dimension, the next token at each place";
    case TargetKind::any:
      return "any targets";
  }
  return "";
}

bool fits(TargetKind kind, const std::optional<ArraySpec>& target, int classes) {
  if (kind == TargetKind::any) return true;
  if (!target) return false;
  const bool floats = target->type == ElementType::float32;
  const bool integers = target->type == ElementType::int64;
  const std::size_t dimensions = target->shape.size();
  switch (kind) {
    case TargetKind::classes:
      return integers && dimensions == 0 && classes > 0;
    case TargetKind::flags:
      return floats && dimensions == 1 && target->shape.front() > 0;
    case TargetKind::values:
      return floats && target->values() > 0;
    case TargetKind::tokens:
      return integers && dimensions == 1 && target->bound > 0;
    case TargetKind::any:
      break;
  }
  return true;
}

void require_limit(std::size_t limit, std::size_t samples, std::string_view key) {
  if (limit <= samples) return;
  fail(Kind::usage, "{} must be between 0 (all) and {}, the size of the set, found {}", key,
       samples, limit);
}

DatasetPair open_dataset(const DatasetOptions& options) {
  DatasetPair pair = options.set->open(options);
  // Parts are standardized by the figures of all of them.
  if (options.needs_train && !options.is_part) require_usable_figures(pair);
  return pair;
}

}  // namespace eqt::data
