// SPDX-License-Identifier: Apache-2.0
// The state that a part gives to a saving visitor.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/saved_state.hpp"

namespace eqt::test {

/// Collects the float values where they lie, so that a test can change them, and copies of the
/// rest.
class StateSpans final : public StateVisitor {
 public:
  std::vector<std::span<float>> floats;
  std::vector<double> reals;
  std::vector<std::uint64_t> counts;
  std::vector<SliceRange> places;

  void values(std::string_view, std::span<float> values, Across) override {
    floats.push_back(values);
  }
  void doubles(std::string_view, std::span<double> values, Across) override {
    reals.insert(reals.end(), values.begin(), values.end());
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    counts.insert(counts.end(), values.begin(), values.end());
  }
  void placed(std::string_view, std::span<float> values,
              const std::function<std::vector<SliceRange>()>& ranges) override {
    floats.push_back(values);
    for (const SliceRange& range : ranges()) places.push_back(range);
  }
  bool restores() const noexcept override { return false; }
  void enter(std::string_view) override {}
  void leave() override {}
};

/// A visit that restores values of a test.
class StateSource : public StateVisitor {
 public:
  void values(std::string_view, std::span<float>, Across) override {}
  void doubles(std::string_view, std::span<double>, Across) override {}
  void numbers(std::string_view, std::span<std::uint64_t>, Across) override {}
  void placed(std::string_view, std::span<float>,
              const std::function<std::vector<SliceRange>()>&) override {}
  bool restores() const noexcept override { return true; }
  void enter(std::string_view) override {}
  void leave() override {}
};

/// Copies the numbers of one part, which has no float values, to another.
template <typename Part>
void copy_numbers(Part& from, Part& to) {
  struct Target final : StateSource {
    explicit Target(const StateSpans& state) : saved(state) {}
    void doubles(std::string_view, std::span<double> values, Across) override {
      for (double& value : values) value = saved.reals.at(real++);
    }
    void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
      for (std::uint64_t& value : values) value = saved.counts.at(count++);
    }
    const StateSpans& saved;
    std::size_t real = 0, count = 0;
  };
  StateSpans saved;
  from.visit_state(saved);
  Target target(saved);
  to.visit_state(target);
}

/// Saves all state, or restores it.
class CopiedState final : public StateVisitor {
 public:
  void values(std::string_view, std::span<float> values, Across) override { copy(values, floats_); }
  void doubles(std::string_view, std::span<double> values, Across) override {
    copy(values, doubles_);
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across) override {
    copy(values, numbers_);
  }
  void placed(std::string_view, std::span<float> values,
              const std::function<std::vector<SliceRange>()>&) override {
    copy(values, floats_);
  }
  bool restores() const noexcept override { return restores_; }
  void enter(std::string_view) override {}
  void leave() override {}
  void restore_from_now() { restores_ = true; }

 private:
  template <typename T>
  void copy(std::span<T> values, std::deque<T>& kept) const {
    for (T& value : values) {
      if (restores_) {
        value = kept.front();
        kept.pop_front();
      } else {
        kept.push_back(value);
      }
    }
  }

  std::deque<float> floats_;
  std::deque<double> doubles_;
  std::deque<std::uint64_t> numbers_;
  bool restores_ = false;
};

/// All float values of a part, in the order of its visit.
template <typename Part, typename... Arguments>
std::vector<std::span<float>> spans_of(Part& part, Arguments... arguments) {
  StateSpans spans;
  part.visit_state(spans, arguments...);
  return spans.floats;
}

/// The values of a part with at most one buffer.
template <typename Part, typename... Arguments>
std::span<float> state_of(Part& part, Arguments... arguments) {
  const auto spans = spans_of(part, arguments...);
  return spans.empty() ? std::span<float>() : spans.front();
}

}  // namespace eqt::test
