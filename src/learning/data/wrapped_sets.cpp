// SPDX-License-Identifier: Apache-2.0
#include "data/wrapped_sets.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "data/images.hpp"

namespace eqt::data {
namespace {

class RelabelledSet final : public Dataset {
 public:
  RelabelledSet(std::unique_ptr<Dataset> set, std::vector<int> labels, int classes)
      : set_(std::move(set)), labels_(std::move(labels)), classes_(classes) {
    EQT_CHECK(set_->classes() == static_cast<int>(labels_.size()), "{} labels for {} classes",
              labels_.size(), set_->classes());
    target_ = *set_->target();
    target_.bound = class_spec(classes).bound;
  }

  std::size_t size() const override { return set_->size(); }
  std::vector<ArraySpec> inputs() const override { return set_->inputs(); }
  std::optional<ArraySpec> target() const override { return target_; }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override {
    return labels_.at(static_cast<std::size_t>(set_->label(sample)));
  }
  std::size_t length(std::size_t sample) const override { return set_->length(sample); }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override {
    set_->read(indices, augment, out);
    out.targets.spec = target_;
    for (std::int64_t& label : out.targets.get<std::int64_t>())
      label = labels_.at(static_cast<std::size_t>(label));
  }
  void standardize_by(std::span<const Moments> moments) override { set_->standardize_by(moments); }

 private:
  std::unique_ptr<Dataset> set_;
  std::vector<int> labels_;
  int classes_;
  ArraySpec target_;
};

/// Appends the samples of `part` to `all`; their shapes beyond the sample are equal.
template <typename T>
void append(const Array& part, Array& all) {
  const auto from = part.get<T>();
  auto& to = std::get<std::vector<T>>(all.values);
  to.insert(to.end(), from.begin(), from.end());
  all.shape.front() += part.shape.front();
}

void append(const Array& part, Array& all) {
  EQT_CHECK(part.shape.size() == all.shape.size() &&
                std::equal(part.shape.begin() + 1, part.shape.end(), all.shape.begin() + 1),
            "samples of {} of several shapes in one batch", part.spec.name);
  switch (part.spec.type) {
    case ElementType::float32:
      return append<float>(part, all);
    case ElementType::uint8:
      return append<std::uint8_t>(part, all);
    case ElementType::int64:
      return append<std::int64_t>(part, all);
  }
}

class JoinedSet final : public Dataset {
 public:
  explicit JoinedSet(std::vector<const Dataset*> sets) : sets_(std::move(sets)) {
    for (const Dataset* const set : sets_) ends_.push_back(size() + set->size());
  }

  std::size_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::vector<ArraySpec> inputs() const override { return sets_.front()->inputs(); }
  std::optional<ArraySpec> target() const override { return sets_.front()->target(); }
  int classes() const override { return sets_.front()->classes(); }
  int label(std::size_t sample) const override {
    const std::size_t set = set_of(sample);
    return sets_[set]->label(sample - begin_of(set));
  }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override {
    std::vector<std::size_t> own;
    bool first = true;
    for (std::size_t i = 0; i < indices.size(); i += own.size()) {
      const std::size_t set = set_of(indices[i]);
      own.clear();
      for (std::size_t j = i; j < indices.size() && set_of(indices[j]) == set; ++j)
        own.push_back(indices[j] - begin_of(set));
      if (std::exchange(first, false)) {
        sets_[set]->read(own, augment, out);
        continue;
      }
      Batch part;
      sets_[set]->read(own, augment, part);
      for (std::size_t input = 0; input < out.inputs.size(); ++input)
        append(part.inputs[input], out.inputs[input]);
      if (!out.targets.empty()) append(part.targets, out.targets);
    }
  }

 private:
  std::size_t set_of(std::size_t sample) const {
    EQT_CHECK(sample < size(), "sample {} of {}", sample, size());
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, sample) - ends_.begin());
  }
  std::size_t begin_of(std::size_t set) const { return set == 0 ? 0 : ends_[set - 1]; }

  std::vector<const Dataset*> sets_;
  std::vector<std::size_t> ends_;  // of each set's samples
};

std::vector<ArraySpec> specs_of(const Dataset& set) {
  std::vector<ArraySpec> specs = set.inputs();
  if (const auto target = set.target()) specs.push_back(*target);
  return specs;
}

std::size_t sample_bytes(const Dataset& set) {
  std::size_t bytes = 0;
  for (const ArraySpec& spec : specs_of(set)) bytes += spec.bytes();
  return bytes;
}

/// The arrays of a batch in the order of specs_of().
std::vector<Array*> arrays_of(Batch& batch) {
  std::vector<Array*> arrays;
  for (Array& input : batch.inputs) arrays.push_back(&input);
  if (!batch.targets.empty()) arrays.push_back(&batch.targets);
  return arrays;
}

std::span<const std::byte> bytes_of(const Array& array) {
  return std::visit([](const auto& values) { return std::as_bytes(std::span(values)); },
                    array.values);
}

/// Samples as they were packed: all arrays of the first one, then of the next.
class PackedSet final : public Dataset {
 public:
  PackedSet(std::vector<std::byte> bytes, std::size_t samples, const Dataset& like)
      : bytes_(std::move(bytes)),
        samples_(samples),
        inputs_(like.inputs()),
        target_(like.target()),
        classes_(like.classes()),
        stride_(sample_bytes(like)) {}

  std::size_t size() const override { return samples_; }
  std::vector<ArraySpec> inputs() const override { return inputs_; }
  std::optional<ArraySpec> target() const override { return target_; }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override {
    std::int64_t label = 0;  // the last number of a sample
    std::memcpy(&label, bytes_.data() + (sample + 1) * stride_ - sizeof label, sizeof label);
    return static_cast<int>(label);
  }
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& /*augment*/,
            Batch& out) const override {
    out.inputs.resize(inputs_.size());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      copy(inputs_[i], indices, offset, out.inputs[i]);
    if (target_)
      copy(*target_, indices, offset, out.targets);
    else
      out.targets.clear();
  }

 private:
  void copy(const ArraySpec& spec, std::span<const std::size_t> indices, std::size_t& offset,
            Array& out) const {
    switch (spec.type) {
      case ElementType::float32:
        return copy_as<float>(spec, indices, offset, out);
      case ElementType::uint8:
        return copy_as<std::uint8_t>(spec, indices, offset, out);
      case ElementType::int64:
        return copy_as<std::int64_t>(spec, indices, offset, out);
    }
  }
  template <typename T>
  void copy_as(const ArraySpec& spec, std::span<const std::size_t> indices, std::size_t& offset,
               Array& out) const {
    std::span<T> to = out.prepare<T>(spec, indices.size());
    for (const std::size_t index : indices) {
      EQT_CHECK(index < samples_, "sample {} of {}", index, samples_);
      std::memcpy(to.data(), bytes_.data() + index * stride_ + offset, spec.bytes());
      to = to.subspan(spec.values());
    }
    offset += spec.bytes();
  }

  std::vector<std::byte> bytes_;
  std::size_t samples_;
  std::vector<ArraySpec> inputs_;
  std::optional<ArraySpec> target_;
  int classes_;
  std::size_t stride_;  // [bytes] of a sample
};

/// Checks whole numbers of another rank, which networks and losses look up.
/// @throws Error{wire} for a class or token that is none
void require_bounds(const Dataset& set) {
  Batch batch;
  for (std::size_t sample = 0; sample < set.size(); ++sample) {
    set.read(std::span(&sample, 1), std::nullopt, batch);
    for (const Array* const array : arrays_of(batch)) {
      const std::int64_t bound = array->spec.bound;
      if (array->spec.type != ElementType::int64 || bound == 0) continue;
      const bool may_ignore = array == &batch.targets && set.classes() == 0;
      for (const std::int64_t value : array->get<std::int64_t>())
        if ((value < 0 || value >= bound) && !(may_ignore && value == kIgnored))
          fail(Kind::wire, "expected {} of the test set in [0, {}), found {}", array->spec.name,
               bound, value);
    }
  }
}

}  // namespace

std::unique_ptr<Dataset> relabelled(std::unique_ptr<Dataset> set, std::vector<int> labels,
                                    int classes) {
  return std::make_unique<RelabelledSet>(std::move(set), std::move(labels), classes);
}

std::unique_ptr<Dataset> joined(std::vector<const Dataset*> sets) {
  EQT_CHECK(!sets.empty(), "no sets to join");
  return std::make_unique<JoinedSet>(std::move(sets));
}

bool has_fixed_shapes(const Dataset& set) {
  return std::ranges::all_of(specs_of(set), [](const ArraySpec& spec) {
    return std::ranges::all_of(spec.shape, [](std::int64_t extent) { return extent >= 0; });
  });
}

std::size_t packed_bytes(const Dataset& set) {
  return checked_product({set.size(), sample_bytes(set)}, Kind::data, "bytes of the test set");
}

std::vector<std::byte> packed_samples(const Dataset& set) {
  EQT_CHECK(has_fixed_shapes(set), "samples of several shapes cannot be packed");
  std::vector<std::byte> bytes;
  bytes.reserve(packed_bytes(set));
  Batch batch;
  for (std::size_t sample = 0; sample < set.size(); ++sample) {
    set.read(std::span(&sample, 1), std::nullopt, batch);
    for (const Array* const array : arrays_of(batch)) {
      const auto part = bytes_of(*array);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
  return bytes;
}

std::unique_ptr<Dataset> unpacked_samples(std::vector<std::byte> bytes, std::size_t samples,
                                          const Dataset& like) {
  const std::size_t expected =
      checked_product({samples, sample_bytes(like)}, Kind::wire, "bytes of a test set");
  if (bytes.size() != expected)
    fail(Kind::wire, "expected {} bytes for {} samples of the test set, found {}", expected,
         samples, bytes.size());
  auto set = std::make_unique<PackedSet>(std::move(bytes), samples, like);
  require_bounds(*set);
  return set;
}

}  // namespace eqt::data
