// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saving_visitor.hpp"

#include <span>

#include "checkpoint/places.hpp"

namespace eqt::checkpoint {
namespace {

const std::vector<std::byte>& known(KnownPlaces& places, const std::string& name,
                                    const std::function<std::vector<SliceRange>()>& ranges) {
  const auto found = places.find(name);
  if (found != places.end()) return found->second;
  return places.emplace(name, write_places(ranges())).first->second;
}

}  // namespace

void ScopedVisitor::enter(std::string_view scope) {
  prefix_ += scope;
  prefix_ += '/';
}

void ScopedVisitor::leave() {
  prefix_.pop_back();
  const std::size_t slash = prefix_.rfind('/');
  prefix_.resize(slash == std::string::npos ? 0 : slash + 1);
}

std::string ScopedVisitor::full(std::string_view name) const { return prefix_ + std::string(name); }

std::string places_name(const std::string& name) { return name + ", places"; }

void SavingVisitor::values(std::string_view name, std::span<float> values, Across across) {
  image_.append(full(name), SectionKind::floats, across, std::as_bytes(values));
}

void SavingVisitor::doubles(std::string_view name, std::span<double> values, Across across) {
  image_.append(full(name), SectionKind::doubles, across, std::as_bytes(values));
}

void SavingVisitor::numbers(std::string_view name, std::span<std::uint64_t> values, Across across) {
  image_.append(full(name), SectionKind::numbers, across, std::as_bytes(values));
}

void SavingVisitor::placed(std::string_view name, std::span<float> values,
                           const std::function<std::vector<SliceRange>()>& places) {
  const std::string section = full(name);
  image_.append(section, SectionKind::floats, Across::sum, std::as_bytes(values));
  image_.append(places_name(section), SectionKind::places, Across::own,
                known(places_, section, places));
}

void SizingVisitor::count(std::string_view name, std::size_t bytes) {
  constexpr std::size_t kTableEntry = 32;  // or a little less
  bytes_ += bytes + kTableEntry + full(name).size();
}

void SizingVisitor::values(std::string_view name, std::span<float> values, Across) {
  count(name, values.size_bytes());
}

void SizingVisitor::doubles(std::string_view name, std::span<double> values, Across) {
  count(name, values.size_bytes());
}

void SizingVisitor::numbers(std::string_view name, std::span<std::uint64_t> values, Across) {
  count(name, values.size_bytes());
}

void SizingVisitor::placed(std::string_view name, std::span<float> values,
                           const std::function<std::vector<SliceRange>()>& places) {
  count(name, values.size_bytes());
  const std::string section = full(name);
  count(places_name(section), known(places_, section, places).size());
}

}  // namespace eqt::checkpoint
