// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/restoring_visitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/checksum.hpp"
#include "core/error.hpp"

namespace eqt::checkpoint {
namespace {

constexpr std::size_t kMaxBytesAtOnce = std::size_t{256} << 20;  // of a broadcast [bytes]
constexpr const char* kWeight = "run/weight";

const Section* section_of(const StateFile* file, std::string_view name, SectionKind kind,
                          std::optional<std::size_t> count) {
  const Section* const section = file == nullptr ? nullptr : file->find(name);
  if (section == nullptr || section->kind != kind) return nullptr;
  if (count && section->count() != *count) return nullptr;
  return section;
}

std::string missing(StepId step, std::string_view name, std::optional<std::size_t> count) {
  return fmt::format(
      "checkpoint of step {}: expected \"{}\"{}, found none; resume with the config and the "
      "equant-train that saved it",
      step, name, count ? fmt::format(" of {} values", *count) : "");
}

/// The holder's bytes on all ranks; empty on all if it has no such section.
std::optional<std::vector<std::byte>> shared(comm::Communicator& comm, Rank holder,
                                             const Section* section) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t size = section == nullptr ? kNone : section->bytes.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), holder);
  if (size == kNone) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (comm.rank() == holder && size > 0)
    std::memcpy(bytes.data(), section->bytes.data(), bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kMaxBytesAtOnce) {
    comm.broadcast(std::span(bytes).subspan(at, std::min(kMaxBytesAtOnce, bytes.size() - at)),
                   holder);
  }
  return bytes;
}

template <typename T>
void copy_to(std::span<const std::byte> bytes, std::span<T> values) {
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
}

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// Finds the value of a place.
class PlaceIndex {
 public:
  explicit PlaceIndex(std::span<const SliceRange> ranges) {
    std::size_t at = 0;
    for (const SliceRange& range : ranges) {
      entries_.push_back({range, at});
      at += static_cast<std::size_t>(range.count);
    }
    std::ranges::sort(entries_, {},
                      [](const Entry& s) { return std::pair(s.range.slice, s.range.first); });
  }

  /// Calls found(offset in `range`, place in the values, count) for each part that is in both.
  template <typename Found>
  void overlap(const SliceRange& range, Found found) const {
    const auto key = std::pair(range.slice, range.first);
    auto entry = std::ranges::upper_bound(
        entries_, key, {}, [](const Entry& s) { return std::pair(s.range.slice, s.range.first); });
    if (entry != entries_.begin()) --entry;
    for (; entry != entries_.end() && entry->range.slice <= range.slice; ++entry) {
      if (entry->range.slice < range.slice) continue;
      if (entry->range.first >= range.first + range.count) return;
      const std::uint64_t begin = std::max(range.first, entry->range.first);
      const std::uint64_t end =
          std::min(range.first + range.count, entry->range.first + entry->range.count);
      if (begin >= end) continue;
      found(static_cast<std::size_t>(begin - range.first),
            entry->at + static_cast<std::size_t>(begin - entry->range.first),
            static_cast<std::size_t>(end - begin));
    }
  }

 private:
  struct Entry {
    SliceRange range;
    std::size_t at;
  };
  std::vector<Entry> entries_;  // ascending
};

}  // namespace

RestoringVisitor::RestoringVisitor(comm::Communicator& comm, const SavedSet& set,
                                   InitialParts* initial)
    : comm_(comm),
      set_(set),
      initial_(initial),
      as_it_was_(set.ranks() == comm.size() && !set.lacks_any()) {}

void RestoringVisitor::values(std::string_view name, std::span<float> values, Across across) {
  restore(full(name), SectionKind::floats, values, across);
}

void RestoringVisitor::doubles(std::string_view name, std::span<double> values, Across across) {
  restore(full(name), SectionKind::doubles, values, across);
}

void RestoringVisitor::numbers(std::string_view name, std::span<std::uint64_t> values,
                               Across across) {
  restore(full(name), SectionKind::numbers, values, across);
}

template <typename T>
void RestoringVisitor::restore(const std::string& name, SectionKind kind, std::span<T> values,
                               Across across) {
  if (as_it_was_) return copy_to(own_section(name, kind, values.size()).bytes, values);
  const int n = set_.ranks();
  switch (across) {
    case Across::same:
      return take_same(name, kind, values);
    case Across::mean:
      return take_mean(name, kind, values);
    case Across::sum:
      return take_sum(name, kind, values);
    case Across::own:
      return take_from(name, kind, values, [&](Rank rank) { return present(rank % n); });
    case Across::fresh:
      return begin_again(name, values);
  }
}

/// Gives a part its initial values, which it has the first time that it is visited.
template <typename T>
void RestoringVisitor::begin_again(const std::string& name, std::span<T> values) {
  if (initial_ == nullptr) return;
  const std::span<const std::byte> now = std::as_bytes(values);
  const auto [at, is_first] = initial_->try_emplace(name, now.begin(), now.end());
  if (!is_first) copy_to(at->second, values);
}

template <typename T>
void RestoringVisitor::take_from(const std::string& name, SectionKind kind, std::span<T> values,
                                 const std::function<Rank(Rank rank)>& whose) {
  hand_out(
      name, kind, values.size(), [&](Rank old, Rank rank) { return old == whose(rank); },
      [&](Rank, std::span<const std::byte> bytes) { copy_to(bytes, values); });
}

template <typename T>
void RestoringVisitor::take_same(const std::string& name, SectionKind kind, std::span<T> values) {
  const Section* own = nullptr;
  for (Rank old = set_.ranks() - 1; old >= 0; --old)
    if (const StateFile* const file = set_.file(old))
      own = section_of(file, name, kind, values.size());
  // Broadcasting a network takes seconds on a slow link, and its checksum nothing.
  const std::uint64_t none = 0;
  const auto sums = comm_.allgather(own == nullptr ? none : checksum(own->bytes) | 1);
  const bool equal = std::ranges::count(sums, sums.front()) == std::ssize(sums);
  if (equal && sums.front() != none) return copy_to(own->bytes, values);
  copy_to(shared_section(name, kind, set_.any_old(), values.size()), values);
}

template <typename T>
void RestoringVisitor::take_mean(const std::string& name, SectionKind kind, std::span<T> values) {
  if constexpr (std::is_floating_point_v<T>) {
    std::vector<double> sums(values.size());
    double weights = 0;
    for (Rank old = 0; old < set_.ranks(); ++old) {
      if (set_.holder(old) == SavedSet::kLost) continue;
      const double weight = weight_of(old);
      const auto bytes = shared_section(name, kind, old, values.size());
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += weight * static_cast<double>(element<T>(bytes, i));
      weights += weight;
    }
    for (std::size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<T>(sums[i] / weights);
  } else {
    EQT_CHECK(false, "the mean of {}", name);
  }
}

template <typename T>
void RestoringVisitor::take_sum(const std::string& name, SectionKind kind, std::span<T> values) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const int n = set_.ranks(), m = comm_.size(), me = comm_.rank();
  std::vector<Sum> sums(values.size());
  const auto wants = [&](Rank old, Rank rank) {
    return m <= n ? old % m == rank : old == rank % n;
  };
  hand_out(name, kind, values.size(), wants, [&](Rank old, std::span<const std::byte> bytes) {
    // Ranks that share an old rank's values: old, old + n, ... below m; one if there are fewer
    // ranks now.
    const int sharers = m <= n ? 1 : (m - 1 - old) / n + 1;
    const bool last = me / n + 1 == sharers || sharers == 1;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const T whole = element<T>(bytes, i);
      const T share = whole / static_cast<T>(sharers);
      sums[i] += static_cast<Sum>(last ? whole - share * static_cast<T>(sharers - 1) : share);
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<T>(sums[i]);
}

void RestoringVisitor::placed(std::string_view name, std::span<float> values,
                              const std::function<std::vector<SliceRange>()>& places) {
  const std::string section = full(name);
  const std::vector<SliceRange> ranges = places();
  bool unmoved = as_it_was_;
  if (unmoved) {
    const Section* const saved =
        section_of(set_.file(comm_.rank()), places_name(section), SectionKind::places, {});
    const std::vector<std::byte> now = write_places(ranges);
    unmoved = saved != nullptr && std::ranges::equal(saved->bytes, now);
  }
  // This can differ between ranks, if hosts have changed places or fusion buckets have other
  // borders.
  const auto all = comm_.allgather(unmoved ? 1 : 0);
  if (std::ranges::count(all, 1u) == std::ssize(all)) {
    return copy_to(own_section(section, SectionKind::floats, values.size()).bytes, values);
  }
  gather_placed(section, values, ranges);
}

void RestoringVisitor::gather_placed(const std::string& name, std::span<float> values,
                                     std::span<const SliceRange> ranges) {
  const PlaceIndex index(ranges);
  std::ranges::fill(values, 0.0f);
  for (Rank old = 0; old < set_.ranks(); ++old) {
    if (set_.holder(old) == SavedSet::kLost) continue;
    const auto bytes = shared_section(name, SectionKind::floats, old, {});
    const auto places = shared_section(places_name(name), SectionKind::places, old, {});
    std::size_t at = 0;
    for (const SliceRange& range : read_places(places, bytes.size() / sizeof(float), name)) {
      index.overlap(range, [&](std::size_t offset, std::size_t to, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
          values[to + i] += element<float>(bytes, at + offset + i);
      });
      at += static_cast<std::size_t>(range.count);
    }
  }
}

const Section& RestoringVisitor::own_section(const std::string& name, SectionKind kind,
                                             std::size_t count) const {
  const StateFile* const file = set_.file(comm_.rank());
  EQT_CHECK(file != nullptr, "rank {} has no file of its own", comm_.rank());
  const Section* const section = section_of(file, name, kind, count);
  if (section == nullptr) fail(Kind::data, "{}", missing(set_.step(), name, count));
  return *section;
}

void RestoringVisitor::hand_out(
    const std::string& name, SectionKind kind, std::size_t count,
    const std::function<bool(Rank old, Rank rank)>& wants,
    const std::function<void(Rank old, std::span<const std::byte> bytes)>& use) {
  constexpr const char* kOperation = "parts of a saved state";
  const auto section = [&](Rank old) { return section_of(set_.file(old), name, kind, count); };
  bool whole = true;
  for (Rank old = 0; old < set_.ranks(); ++old)
    whole = whole && (set_.holder(old) != comm_.rank() || section(old) != nullptr);
  const auto all = comm_.allgather(whole ? 1 : 0);
  if (std::ranges::count(all, 1u) != std::ssize(all))
    throw comm::AgreedError(Kind::data, missing(set_.step(), name, count));
  std::vector<std::byte> received;
  for (Rank old = 0; old < set_.ranks(); ++old) {
    const Rank holder = set_.holder(old);
    if (holder == SavedSet::kLost) continue;
    const bool mine = holder == comm_.rank(), wanted = wants(old, comm_.rank());
    if (mine) {
      for (Rank rank = 0; rank < comm_.size(); ++rank)
        if (rank != holder && wants(old, rank))
          send_whole(comm_, rank, section(old)->bytes, kOperation);
    } else if (wanted) {
      received.resize(count * element_bytes(kind));
      receive_whole(comm_, holder, received, kOperation);
    }
    if (wanted) use(old, mine ? std::span<const std::byte>(section(old)->bytes) : received);
  }
}

std::vector<std::byte> RestoringVisitor::shared_section(const std::string& name, SectionKind kind,
                                                        Rank old,
                                                        std::optional<std::size_t> count) {
  const Rank holder = set_.holder(old);
  const bool mine = holder == comm_.rank();
  const Section* const section = mine ? section_of(set_.file(old), name, kind, count) : nullptr;
  auto bytes = shared(comm_, holder, section);
  if (!bytes) throw comm::AgreedError(Kind::data, missing(set_.step(), name, count));
  return std::move(*bytes);
}

double RestoringVisitor::weight_of(Rank old) {
  weights_.resize(static_cast<std::size_t>(set_.ranks()));
  double& weight = weights_.at(static_cast<std::size_t>(old));
  if (weight != 0) return weight;
  const auto bytes = shared_section(kWeight, SectionKind::doubles, old, 1);
  weight = element<double>(bytes, 0);
  if (!(weight > 0))
    fail(Kind::data, "rank {}'s weight: expected a number above 0, found {}", old, weight);
  return weight;
}

/// `old`, or the next rank whose file exists.
Rank RestoringVisitor::present(Rank old) const {
  while (set_.holder(old) == SavedSet::kLost) old = (old + 1) % set_.ranks();
  return old;
}

std::optional<std::string> find_text(comm::Communicator& comm, const SavedSet& set,
                                     std::string_view name) {
  const Rank old = set.any_old();
  const auto bytes =
      shared(comm, set.holder(old), section_of(set.file(old), name, SectionKind::text, {}));
  if (!bytes) return {};
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

std::string text_of(comm::Communicator& comm, const SavedSet& set, std::string_view name) {
  auto text = find_text(comm, set, name);
  if (!text) throw comm::AgreedError(Kind::data, missing(set.step(), name, {}));
  return *std::move(text);
}

std::optional<std::vector<std::uint64_t>> find_numbers(comm::Communicator& comm,
                                                       const SavedSet& set, std::string_view name,
                                                       std::size_t count) {
  const Rank old = set.any_old();
  const auto bytes =
      shared(comm, set.holder(old), section_of(set.file(old), name, SectionKind::numbers, count));
  if (!bytes) return {};
  std::vector<std::uint64_t> numbers(count);
  copy_to<std::uint64_t>(*bytes, numbers);
  return numbers;
}

std::vector<std::uint64_t> numbers_of(comm::Communicator& comm, const SavedSet& set,
                                      std::string_view name, std::size_t count) {
  auto numbers = find_numbers(comm, set, name, count);
  if (!numbers) throw comm::AgreedError(Kind::data, missing(set.step(), name, count));
  return *std::move(numbers);
}

}  // namespace eqt::checkpoint
