// SPDX-License-Identifier: Apache-2.0
#include "setup/local_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "comm/session.hpp"
#include "config/facts.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "data/class_names.hpp"
#include "data/wrapped_sets.hpp"
#include "setup/build_data.hpp"

namespace eqt::setup {
namespace {

constexpr std::uint64_t kMaxTestBytes = std::uint64_t{4} << 30;  // that rank 0 sends

constexpr const char* kForm = "form";  // the names of facts that ranks tell each other
constexpr const char* kTrain = "train";
constexpr const char* kTest = "test";
constexpr const char* kMoments = "moments";
constexpr const char* kTokens = "tokens";
constexpr const char* kClass = "class ";  // and the name

/// A rank's set, as the others see it.
struct ToldSet {
  config::Facts form;  // equal on all ranks
  std::uint64_t train = 0, test = 0;
  std::uint64_t tokens = 0;                                    // DatasetPair::tokens
  std::vector<std::pair<std::string, std::uint64_t>> classes;  // with their training samples
  std::vector<data::Moments> moments;
};

/// @param agreed whether ranks agree on the bound, so that it may differ
std::string form_of(data::ArraySpec spec, bool agreed) {
  if (agreed) spec.bound = 0;
  return data::text_of(spec);
}

std::string form_of(const data::DatasetPair& pair) {
  const data::Dataset& set = *pair.train;
  const bool counted = pair.tokens > 0;
  std::string text;
  for (const data::ArraySpec& spec : set.inputs()) text += form_of(spec, counted) + ", ";
  const auto target = set.target();
  return text + "targets " + (target ? form_of(*target, counted || set.classes() > 0) : "none");
}

std::string normalization_of(const data::DatasetPair& pair) {
  if (!pair.moments.empty()) return "measured";
  return fmt::format("mean [{}], deviation [{}]", fmt::join(pair.normalization.mean, ", "),
                     fmt::join(pair.normalization.deviation, ", "));
}

std::uint64_t count_in(const std::string& text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Kind::wire, "expected a number of samples from another rank, found \"{}\"", text);
  return count;
}

std::vector<data::Moments> moments_in(const std::string& text) {
  std::vector<double> numbers;
  const char* at = text.c_str();
  for (char* end = nullptr;; at = end) {
    const double number = std::strtod(at, &end);
    if (end == at) break;
    numbers.push_back(number);
  }
  std::vector<data::Moments> moments;
  for (std::size_t i = 0; i + 2 < numbers.size(); i += 3)
    moments.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  return moments;
}

std::uint64_t tokens_in(const std::string& text) {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  const std::uint64_t tokens = count_in(text);
  if (tokens > kMost)
    fail(Kind::wire, "expected at most {} tokens from another rank, found {}", kMost, tokens);
  return tokens;
}

ToldSet heard(const std::string& text) {
  ToldSet set;
  for (const config::Fact& fact : config::unpacked(text, "the data of another rank")) {
    if (fact.name == kTrain)
      set.train = count_in(fact.value);
    else if (fact.name == kTest)
      set.test = count_in(fact.value);
    else if (fact.name == kTokens)
      set.tokens = tokens_in(fact.value);
    else if (fact.name == kMoments)
      set.moments = moments_in(fact.value);
    else if (fact.name.starts_with(kClass))
      set.classes.emplace_back(fact.name.substr(std::string_view(kClass).size()),
                               count_in(fact.value));
    else
      set.form.push_back(fact);
  }
  return set;
}

std::vector<ToldSet> heard(const std::vector<std::string>& texts) {
  std::vector<ToldSet> sets;
  for (const std::string& text : texts) sets.push_back(heard(text));
  return sets;
}

/// All ranks have heard the same, so all throw the same.
void require_same_form(const std::vector<ToldSet>& sets) {
  for (std::size_t rank = 1; rank < sets.size(); ++rank) {
    const std::string found = config::differences(sets[0].form, sets[rank].form);
    if (found.empty() && sets[rank].moments.size() == sets[0].moments.size()) continue;
    throw comm::AgreedError(
        Kind::data,
        fmt::format("rank {}: expected samples like those of rank 0, found {}; give all ranks data "
                    "of one kind in data.path, and pictures the same data.mean and data.deviation",
                    rank, found.empty() ? "another number of standardized features" : found));
  }
}

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// Sorts the classes by name, or by number if every name is one.
std::vector<std::string> all_classes(const std::vector<ToldSet>& sets) {
  std::vector<std::string> names;
  for (const ToldSet& set : sets)
    for (const auto& [name, count] : set.classes) names.push_back(name);
  const bool numbers = std::ranges::all_of(
      names, [](const std::string& name) { return number_in(name).has_value(); });
  std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
    return numbers && number_in(a) != number_in(b) ? *number_in(a) < *number_in(b) : a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() == 1)
    throw comm::AgreedError(
        Kind::data, fmt::format("data.path: expected at least 2 classes on all ranks together, "
                                "found \"{}\" alone; add samples of other classes",
                                names.front()));
  if (const auto alike = data::names_read_alike(names))
    throw comm::AgreedError(Kind::data,
                            fmt::format("data.path: {} on all ranks together, found {}; {}",
                                        data::kReadableNames, *alike, data::kReadableRemedy));
  return names;
}

/// The set's classes get their common numbers.
void relabel(const std::vector<std::string>& names, data::DatasetPair& pair) {
  if (pair.train->classes() == 0 || pair.class_names == names) return;
  std::map<std::string, int> numbers;
  for (const std::string& name : names) numbers.emplace(name, static_cast<int>(numbers.size()));
  std::vector<int> labels;
  for (const std::string& name : pair.class_names) labels.push_back(numbers.at(name));
  const auto classes = static_cast<int>(names.size());
  pair.train = data::relabelled(std::move(pair.train), labels, classes);
  if (pair.test != nullptr) pair.test = data::relabelled(std::move(pair.test), labels, classes);
  pair.class_names = names;
}

std::vector<data::Moments> pooled(const std::vector<ToldSet>& sets) {
  std::vector<data::Moments> sums = sets[0].moments;
  for (std::size_t rank = 1; rank < sets.size(); ++rank)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(sets[rank].moments[i]);
  return sums;
}

/// Rank 0 sends its test set to the others, prepared for the network.
void share_test_set(comm::Communicator& comm, data::DatasetPair& pair) {
  std::uint64_t samples = 0;
  std::vector<std::byte> bytes;
  comm.heartbeat("sending of the test set", true);
  comm.agree_after([&] {
    if (comm.rank() != 0) return;
    if (!data::has_fixed_shapes(*pair.test))
      fail(Kind::usage,
           "data.partition.test \"rank0\": expected samples of one shape, found texts of several "
           "lengths; set it to \"local\"");
    const std::uint64_t found = data::packed_bytes(*pair.test);
    if (found > kMaxTestBytes)
      fail(Kind::usage,
           "data.partition.test \"rank0\": expected a test set of at most {} MiB to send, found {} "
           "MiB; set data.limit_test, or data.partition.test to \"local\"",
           kMaxTestBytes / kMib, found / kMib);
    bytes = data::packed_samples(*pair.test);
    samples = pair.test->size();
  });
  std::array<std::uint64_t, 2> counts = {samples, bytes.size()};
  comm.broadcast(std::as_writable_bytes(std::span(counts)), 0);
  comm.agree_after([&] {
    if (counts[1] > kMaxTestBytes)
      fail(Kind::wire, "expected at most {} bytes of a test set from rank 0, found {}",
           kMaxTestBytes, counts[1]);
    bytes.resize(counts[1]);
  });
  comm.broadcast(bytes, 0);
  comm.agree_after([&] {
    if (comm.rank() != 0)
      pair.test = data::unpacked_samples(std::move(bytes), counts[0], *pair.train);
  });
}

/// The steps of an epoch in which ranks have the batches with which the run begins.
std::uint64_t steps_by_rank(const config::RunConfig& config,
                            const std::vector<std::uint64_t>& sizes) {
  const std::vector<std::size_t> batches = first_batches(config, static_cast<int>(sizes.size()));
  std::vector<std::uint64_t> steps;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    steps.push_back(sizes[rank] / (batches[rank] * config.train.accumulate));
  const data::LocalEpoch epoch = config.data.partition.epoch;
  if (epoch == data::LocalEpoch::smallest) return std::ranges::min(steps);
  if (epoch == data::LocalEpoch::largest) return std::ranges::max(steps);
  return std::accumulate(steps.begin(), steps.end(), std::uint64_t{0}) / steps.size();
}

}  // namespace

std::string told(const data::DatasetPair& pair) {
  const data::Dataset& train = *pair.train;
  config::Facts facts = {{kForm, form_of(pair)},
                         {"normalization", normalization_of(pair)},
                         {kTrain, fmt::format("{}", train.size())},
                         {kTest, fmt::format("{}", pair.test == nullptr ? 0 : pair.test->size())},
                         {kTokens, fmt::format("{}", pair.tokens)}};
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(train.classes()));
  if (!counts.empty())
    for (const int label : data::labels_of(train)) ++counts.at(static_cast<std::size_t>(label));
  EQT_CHECK(counts.empty() || counts.size() == pair.class_names.size(), "{} names of {} classes",
            pair.class_names.size(), counts.size());
  for (std::size_t c = 0; c < counts.size(); ++c)
    facts.push_back({kClass + pair.class_names[c], fmt::format("{}", counts[c])});
  if (counts.empty() && !pair.class_names.empty())  // of flags
    facts.push_back({"names of classes", fmt::format("{}", fmt::join(pair.class_names, ", "))});
  std::string moments;
  for (const data::Moments& m : pair.moments)
    moments += fmt::format("{:a} {:a} {:a} ", m.count, m.mean, m.squares);
  facts.push_back({kMoments, moments});
  return config::packed(facts);
}

LocalData known_of(const std::vector<std::string>& told) {
  const std::vector<ToldSet> sets = heard(told);
  require_same_form(sets);
  LocalData all;
  all.class_names = all_classes(sets);
  std::map<std::string, std::size_t> places;
  for (const std::string& name : all.class_names) places.emplace(name, places.size());
  for (const ToldSet& set : sets) {
    all.train_samples.push_back(set.train);
    all.test_samples.push_back(set.test);
    std::vector<std::uint64_t> counts(all.class_names.size());
    for (const auto& [name, count] : set.classes) counts.at(places.at(name)) = count;
    all.class_histogram.push_back(std::move(counts));
  }
  return all;
}

LocalData agree_on_local_data(const config::RunConfig& config, comm::Communicator& comm,
                              std::vector<data::DatasetPair>& own) {
  comm.heartbeat("agreement on the data");
  std::vector<std::string> texts;
  for (const data::DatasetPair& pair : own) texts.push_back(told(pair));
  if (comm.size() > 1) texts = comm.allgather(texts.front());
  LocalData all = known_of(texts);
  const std::vector<ToldSet> sets = heard(texts);
  const std::vector<data::Moments> moments = pooled(sets);
  const std::uint64_t tokens = std::ranges::max(sets, {}, &ToldSet::tokens).tokens;
  for (data::DatasetPair& pair : own) {
    if (!moments.empty()) data::standardize(pair, moments);
    data::require_usable_figures(pair);
    if (tokens > 0) data::settle_tokens(pair, static_cast<std::int64_t>(tokens));
    relabel(all.class_names, pair);
  }
  if (config.data.partition.test == data::LocalTest::own) return all;
  all.test_samples.resize(1);
  if (comm.size() > 1) share_test_set(comm, own.front());
  return all;
}

std::uint64_t local_steps_per_epoch(const config::RunConfig& config, const LocalData& data) {
  const std::vector<std::uint64_t>& sizes = data.train_samples;
  const std::uint64_t all = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const data::LocalEpoch epoch = config.data.partition.epoch;
  std::uint64_t samples = all / sizes.size();
  if (epoch == data::LocalEpoch::smallest) samples = std::ranges::min(sizes);
  if (epoch == data::LocalEpoch::largest) samples = std::ranges::max(sizes);
  const std::uint64_t steps = config.train.has_batches_by_rank()
                                  ? steps_by_rank(config, sizes)
                                  : samples / config.train.samples_per_step();
  if (steps > 0) return steps;
  fail(Kind::usage,
       "train.batch_size times train.accumulate: expected at most {} (the samples of an epoch with "
       "data.partition.epoch \"{}\"; ranks have {}), found {}",
       samples, name_of(epoch), fmt::join(sizes, ", "), config.train.samples_per_step());
}

std::vector<double> loss_weights(const config::RunConfig& config, const LocalData& data) {
  const std::vector<std::uint64_t>& sizes = data.train_samples;
  std::vector<double> weights(sizes.size(), 1.0);
  if (config.data.partition.epoch != data::LocalEpoch::weighted) return weights;
  const auto all =
      static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    weights[rank] = static_cast<double>(sizes.size()) * static_cast<double>(sizes[rank]) / all;
  return weights;
}

metrics::PartitionRecord describe_local(const config::RunConfig& config, const LocalData& data) {
  metrics::PartitionRecord record;
  record.kind = config.data.partition.kind->name;
  record.epoch = name_of(config.data.partition.epoch);
  record.test = name_of(config.data.partition.test);
  record.classes = data.class_names;
  record.sizes = data.train_samples;
  if (!record.classes.empty()) record.class_histogram = data.class_histogram;
  const auto all = static_cast<double>(
      std::accumulate(record.sizes.begin(), record.sizes.end(), std::uint64_t{0}));
  std::vector<double> everywhere(record.classes.size());  // by class
  for (const auto& counts : data.class_histogram)
    for (std::size_t c = 0; c < everywhere.size(); ++c)
      everywhere[c] += static_cast<double>(counts[c]);
  for (std::size_t rank = 0; rank < record.sizes.size() && !record.classes.empty(); ++rank) {
    double distance = 0;
    for (std::size_t c = 0; c < everywhere.size(); ++c) {
      const auto here = static_cast<double>(data.class_histogram[rank][c]);
      distance += std::abs(here / static_cast<double>(record.sizes[rank]) - everywhere[c] / all);
    }
    record.rank_skew.push_back(distance / 2);
  }
  return record;
}

}  // namespace eqt::setup
