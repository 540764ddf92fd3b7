// SPDX-License-Identifier: Apache-2.0
#include "data/array_set.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "data/text/text_input.hpp"

namespace eqt::data {
namespace {

class NpySource final : public ArraySource {
 public:
  explicit NpySource(const std::filesystem::path& file) : file_(file) {
    if (file_.shape().empty())
      fail(Kind::data,
           "{}: expected an array whose first dimension is the sample, found a single number",
           path());
    shape_.assign(file_.shape().begin() + 1, file_.shape().end());
    values_ = values();
  }

  std::size_t samples() const override { return file_.shape().front(); }
  const std::vector<std::size_t>& shape() const override { return shape_; }
  bool whole() const override { return is_whole(file_.type()); }
  void read(std::size_t sample, std::span<double> out) const override {
    file_.read(sample * values_, out);
  }
  void read(std::size_t sample, std::span<float> out) const override {
    file_.read(sample * values_, out);
  }
  void read(std::size_t sample, std::span<std::int64_t> out) const override {
    file_.read(sample * values_, out);
  }
  std::string place(std::size_t sample, std::size_t index) const override {
    if (shape_.empty()) return fmt::format("{}, row {} (from 0)", path(), sample);
    if (shape_.size() == 1)
      return fmt::format("{}, row {}, column {} (from 0)", path(), sample, index);
    std::vector<std::size_t> at(shape_.size());
    for (std::size_t axis = shape_.size(); axis-- > 0; index /= shape_[axis])
      at[axis] = index % shape_[axis];
    return fmt::format("{}, row {}, place {} (from 0)", path(), sample, shape_text(at));
  }
  const std::string& path() const override { return file_.path(); }

 private:
  NpyFile file_;
  std::vector<std::size_t> shape_;
  std::size_t values_ = 1;
};

class CsvSource final : public ArraySource {
 public:
  CsvSource(std::shared_ptr<const CsvTable> table, std::vector<std::size_t> columns)
      : table_(std::move(table)), columns_(std::move(columns)), shape_{columns_.size()} {}

  std::size_t samples() const override { return table_->rows(); }
  const std::vector<std::size_t>& shape() const override { return shape_; }
  bool whole() const override {
    return std::ranges::all_of(columns_, [&](std::size_t column) {
      for (std::size_t row = 0; row < table_->rows(); ++row) {
        const double value = table_->at(row, column);
        if (value != std::trunc(value) || std::abs(value) > kLargestExact) return false;
      }
      return true;
    });
  }
  void read(std::size_t sample, std::span<double> out) const override { copy(sample, out); }
  void read(std::size_t sample, std::span<float> out) const override { copy(sample, out); }
  void read(std::size_t sample, std::span<std::int64_t> out) const override { copy(sample, out); }
  std::string place(std::size_t sample, std::size_t index) const override {
    return table_->place(sample, columns_[index]);
  }
  const std::string& path() const override { return table_->path; }

 private:
  static constexpr double kLargestExact = 0x1p53;  // whole numbers up to it are exact as doubles

  template <typename To>
  void copy(std::size_t sample, std::span<To> out) const {
    EQT_CHECK(sample < samples() && out.size() == columns_.size(), "row {} of {}, {} columns of {}",
              sample, samples(), out.size(), columns_.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double value = table_->at(sample, columns_[i]);
      constexpr double kMax = static_cast<double>(std::numeric_limits<float>::max());
      if (std::is_same_v<To, float> && std::abs(value) > kMax)
        out[i] = static_cast<To>(std::copysign(HUGE_VALF, value < 0 ? -1.0f : 1.0f));
      else
        out[i] = static_cast<To>(value);
    }
  }

  std::shared_ptr<const CsvTable> table_;
  std::vector<std::size_t> columns_;
  std::vector<std::size_t> shape_;
};

}  // namespace

std::size_t ArraySource::values() const {
  return std::accumulate(shape().begin(), shape().end(), std::size_t{1}, std::multiplies<>());
}

std::unique_ptr<ArraySource> open_npy(const std::filesystem::path& file) {
  return std::make_unique<NpySource>(file);
}

std::unique_ptr<ArraySource> make_csv_source(std::shared_ptr<const CsvTable> table,
                                             std::vector<std::size_t> columns) {
  return std::make_unique<CsvSource>(std::move(table), std::move(columns));
}

namespace {

constexpr std::int64_t kMaxClasses = std::int64_t{1} << 20;

std::vector<std::int64_t> spec_shape(std::span<const std::size_t> shape) {
  std::vector<std::int64_t> sizes;
  for (const std::size_t size : shape) sizes.push_back(static_cast<std::int64_t>(size));
  return sizes;
}

/// The number of a sample whose single number is whole, also where floats hold it.
/// @param is_whole source.whole()
std::optional<std::int64_t> whole_number(const ArraySource& source, bool is_whole,
                                         std::size_t sample) {
  std::int64_t number = 0;
  if (is_whole) {
    source.read(sample, std::span(&number, 1));
    return number;
  }
  double value = 0;
  source.read(sample, std::span(&value, 1));
  constexpr double kLarge = 0x1p53;  // no class, and may not fit
  if (value != std::trunc(value) || !(std::abs(value) < kLarge)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

[[noreturn]] void refuse_classes(const ArraySource& source, const std::string& found) {
  fail(Kind::data,
       "{}: expected one whole number for each sample, its class from 0 on, found {} of shape {}; "
       "set task.kind to \"regression\" or \"multi-label\" to learn others",
       source.path(), found, shape_text(source.shape()));
}

ArrayTargets read_classes(const ArraySource& source, std::size_t count) {
  const bool is_whole = source.whole();
  if (source.values() != 1) refuse_classes(source, is_whole ? "whole numbers" : "numbers");
  ArrayTargets targets;
  targets.integers.resize(count);
  std::int64_t largest = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    const std::optional<std::int64_t> label = whole_number(source, is_whole, sample);
    if (!label) refuse_classes(source, "numbers with fractions");
    if (*label < 0 || *label >= kMaxClasses)
      fail(Kind::data, "{}: expected a class in [0, {}), found {}; number the classes from 0 on",
           source.place(sample, 0), kMaxClasses, *label);
    targets.integers[sample] = *label;
    largest = std::max(largest, *label);
  }
  targets.classes = static_cast<int>(largest) + 1;
  targets.spec = class_spec(targets.classes);
  return targets;
}

ArrayTargets read_numbers(const ArraySource& source, bool flags, std::size_t count) {
  const std::size_t values = source.values();
  if (flags && source.shape().size() != 1)
    fail(Kind::data,
         "{}: expected a flag, 0 or 1, for each sample and class, found a sample of shape {}; save "
         "an array of shape (samples, classes)",
         source.path(), shape_text(source.shape()));
  ArrayTargets targets;
  targets.floats.resize(count * values);
  for (std::size_t sample = 0; sample < count; ++sample) {
    const std::span<float> row = std::span(targets.floats).subspan(sample * values, values);
    source.read(sample, row);
    for (std::size_t i = 0; i < values; ++i) {
      if (std::isfinite(row[i]) && (!flags || row[i] == 0 || row[i] == 1)) continue;
      fail(Kind::data, "{}: expected {}, found {}; correct the target or leave the sample out",
           source.place(sample, i), flags ? "0 or 1" : "a finite number that float32 can hold",
           row[i]);
    }
  }
  targets.spec = ArraySpec{
      .name = "targets", .type = ElementType::float32, .shape = spec_shape(source.shape())};
  return targets;
}

ArrayTargets read_integers(const ArraySource& source, std::size_t count) {
  const std::size_t values = source.values();
  ArrayTargets targets;
  targets.integers.resize(count * values);
  for (std::size_t sample = 0; sample < count; ++sample)
    source.read(sample, std::span(targets.integers).subspan(sample * values, values));
  targets.spec =
      ArraySpec{.name = "targets", .type = ElementType::int64, .shape = spec_shape(source.shape())};
  return targets;
}

}  // namespace

ArrayTargets read_targets(const ArraySource& source, TargetKind kind, std::size_t count) {
  switch (kind) {
    case TargetKind::classes:
      return read_classes(source, count);
    case TargetKind::flags:
      return read_numbers(source, true, count);
    case TargetKind::values:
      return read_numbers(source, false, count);
    case TargetKind::any:
      return source.whole() ? read_integers(source, count) : read_numbers(source, false, count);
    case TargetKind::tokens:
      break;
  }
  fail(Kind::bug, "tokens of {} were asked for as targets in memory", source.path());
}

std::int64_t vocabulary_of(const ArraySource& source, bool ignored) {
  std::vector<std::int64_t> row(source.values());
  std::int64_t largest = 0;
  for (std::size_t sample = 0; sample < source.samples(); ++sample) {
    source.read(sample, std::span(row));
    // The mean over a batch of nothing would be no number.
    if (ignored && std::ranges::all_of(row, [](std::int64_t token) { return token == kIgnored; }))
      fail(Kind::data,
           "{}: expected a token that counts in each sample, found {} alone; leave the "
           "sample out",
           source.place(sample, 0), kIgnored);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] >= 0 && row[i] < kMaxClasses)
        largest = std::max(largest, row[i]);
      else if (!ignored || row[i] != kIgnored)
        fail(Kind::data, "{}: expected a token in [0, {}){}, found {}; number the tokens from 0 on",
             source.place(sample, i), kMaxClasses,
             ignored ? fmt::format(", or {} for what counts for nothing", kIgnored) : "", row[i]);
    }
  }
  return largest + 1;
}

StandardGroups::StandardGroups(Standardize standardize, std::span<const std::size_t> shape)
    : count_(standardize == Standardize::first_axis ? shape.front() : shape.back()), stride_(1) {
  if (standardize == Standardize::last_axis) return;
  for (const std::size_t size : shape.subspan(1)) stride_ *= size;
}

ArraySet::ArraySet(std::unique_ptr<ArraySource> source, ArrayTargets targets,
                   const Options& options)
    : source_(std::move(source)),
      targets_(std::move(targets)),
      options_(options),
      input_{.name = options.tokens > 0 ? std::string(kTokens) : "x",
             .type = options.integers ? ElementType::int64 : ElementType::float32,
             .shape = spec_shape(source_->shape()),
             .bound = options.tokens},
      values_(source_->values()) {
  if (input_.shape.empty()) input_.shape = {1};  // a column
  if (options.standardize == Standardize::off) return;
  const std::vector<std::size_t> column = {1};
  groups_.emplace(options.standardize, source_->shape().empty() ? column : source_->shape());
}

int ArraySet::label(std::size_t sample) const {
  EQT_CHECK(targets_.classes > 0 && sample < size(), "sample {} of {}, {} classes", sample, size(),
            targets_.classes);
  return static_cast<int>(targets_.integers[sample]);
}

std::vector<Moments> ArraySet::measure() const {
  std::vector<Moments> moments(groups_ ? groups_->count() : 0);
  if (options_.integers) return moments;
  std::vector<double> values(values_);
  for (std::size_t sample = 0; sample < size(); ++sample) {
    source_->read(sample, std::span(values));
    for (std::size_t i = 0; i < values_; ++i) {
      const double value = values[i];
      // Standardized values of any size become small ones.
      const bool fits = groups_ ? std::isfinite(value)
                                : std::abs(value) <= double{std::numeric_limits<float>::max()};
      if (!fits)
        fail(Kind::data,
             "{}: expected a finite number that float32 can hold, found {}; correct the number or "
             "leave the sample out",
             source_->place(sample, i), value);
      if (groups_) moments[groups_->of(i)].add(value);
    }
  }
  return moments;
}

void ArraySet::standardize_by(std::span<const Moments> moments) {
  EQT_CHECK(groups_ && moments.size() == groups_->count(), "{} moments for {} groups",
            moments.size(), groups_ ? groups_->count() : 0);
  mean_.clear();
  factor_.clear();
  for (const Moments& group : moments) {
    mean_.push_back(group.mean);
    factor_.push_back(1 / group.divisor());
  }
}

void ArraySet::settle_tokens(std::int64_t tokens) {
  EQT_CHECK(input_.bound > 0, "{} tokens for numbers", tokens);
  input_.bound = tokens;
  if (targets_.spec) targets_.spec->bound = tokens;
}

void ArraySet::read_floats(std::span<const std::size_t> indices, std::span<float> out) const {
  if (!groups_) {
    for (std::size_t i = 0; i < indices.size(); ++i)
      source_->read(indices[i], out.subspan(i * values_, values_));
    return;
  }
  EQT_CHECK(!mean_.empty(), "values are standardized before they were measured");
  std::vector<double> row(values_);
  for (const std::size_t index : indices) {
    source_->read(index, std::span(row));
    for (std::size_t i = 0; i < values_; ++i) {
      const std::size_t group = groups_->of(i);
      out[i] = static_cast<float>((row[i] - mean_[group]) * factor_[group]);
    }
    out = out.subspan(values_);
  }
}

void ArraySet::read_targets(std::span<const std::size_t> indices, Array& out) const {
  if (!targets_.spec) return out.clear();
  const std::size_t values = targets_.spec->values();
  const auto copy = [&](const auto& from, auto to) {
    for (const std::size_t index : indices) {
      std::ranges::copy(std::span(from).subspan(index * values, values), to.begin());
      to = to.subspan(values);
    }
  };
  if (targets_.tokens != nullptr) {
    const auto to = out.prepare<std::int64_t>(*targets_.spec, indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i)
      targets_.tokens->read(indices[i], to.subspan(i * values, values));
  } else if (targets_.spec->type == ElementType::int64) {
    copy(targets_.integers, out.prepare<std::int64_t>(*targets_.spec, indices.size()));
  } else {
    copy(targets_.floats, out.prepare<float>(*targets_.spec, indices.size()));
  }
}

void ArraySet::read(std::span<const std::size_t> indices,
                    const std::optional<AugmentKey>& /*augment*/, Batch& out) const {
  for (const std::size_t index : indices)
    EQT_CHECK(index < size(), "sample {} of {}", index, size());
  out.inputs.resize(1);
  if (options_.integers) {
    const auto to = out.inputs[0].prepare<std::int64_t>(input_, indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i)
      source_->read(indices[i], to.subspan(i * values_, values_));
  } else {
    read_floats(indices, out.inputs[0].prepare<float>(input_, indices.size()));
  }
  read_targets(indices, out.targets);
}

}  // namespace eqt::data
