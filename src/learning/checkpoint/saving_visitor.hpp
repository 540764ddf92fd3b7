// SPDX-License-Identifier: Apache-2.0
// Writes a run's state into the bytes of a file: values, and the places that they belong to.

#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/state_file.hpp"
#include "core/saved_state.hpp"

namespace eqt::checkpoint {

/// Writes a list of ranges, the values for which a rank is responsible, as bytes: per range three
/// varints (7 bits per byte, lowest first): the change of the slice and the gap to the end of the
/// range before, both with their sign in the lowest bit, then the count.
std::vector<std::byte> write_places(std::span<const SliceRange> ranges);

/// @throws Error{data} unless these are ranges of `values` values in total
std::vector<SliceRange> read_places(std::span<const std::byte> bytes, std::size_t values,
                                    std::string_view origin);

/// Adds the names of scopes: "synchronizer/memory/residual".
class ScopedVisitor : public StateVisitor {
 public:
  void enter(std::string_view scope) override;
  void leave() override;

 protected:
  /// The full name of a part of the current scope.
  std::string full(std::string_view name) const;

 private:
  std::string prefix_;
};

/// The name of the section with the places of `name`.
std::string places_name(const std::string& name);

/// Places as bytes, by section. They do not change during a run, so they are computed once.
using KnownPlaces = std::map<std::string, std::vector<std::byte>>;

/// Copies the values that it visits.
class SavingVisitor final : public ScopedVisitor {
 public:
  SavingVisitor(StateImage& image, KnownPlaces& places) : image_(image), places_(places) {}

  void values(std::string_view name, std::span<float> values, Across across) override;
  void doubles(std::string_view name, std::span<double> values, Across across) override;
  void numbers(std::string_view name, std::span<std::uint64_t> values, Across across) override;
  void placed(std::string_view name, std::span<float> values,
              const std::function<std::vector<SliceRange>()>& places) override;
  bool restores() const noexcept override { return false; }

 private:
  StateImage& image_;
  KnownPlaces& places_;
};

/// Counts the bytes that a SavingVisitor would copy, so that memory is allocated once.
class SizingVisitor final : public ScopedVisitor {
 public:
  explicit SizingVisitor(KnownPlaces& places) : places_(places) {}
  std::size_t bytes() const noexcept { return bytes_; }

  void values(std::string_view name, std::span<float> values, Across across) override;
  void doubles(std::string_view name, std::span<double> values, Across across) override;
  void numbers(std::string_view name, std::span<std::uint64_t> values, Across across) override;
  void placed(std::string_view name, std::span<float> values,
              const std::function<std::vector<SliceRange>()>& places) override;
  bool restores() const noexcept override { return false; }

 private:
  void count(std::string_view name, std::size_t bytes);

  KnownPlaces& places_;
  std::size_t bytes_ = 0;
};

}  // namespace eqt::checkpoint
