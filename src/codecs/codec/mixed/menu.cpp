// SPDX-License-Identifier: Apache-2.0
#include "codec/mixed/menu.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "codec/catalogue.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "core/error.hpp"
#include "core/lower_hull.hpp"

namespace eqt::codec {
namespace {

/// A grade as it is written.
struct Parsed {
  const CompressorRow* row = nullptr;
  CompressorOptions options;
};

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

constexpr std::string_view kForm =
    "a compressor's name, and where it has them \":bits\" and \"@factor\" of the best elasticity, "
    "as in \"e-elastiquant:4@0.75\", or \":rate=\" with the bits per value, or \":lossless\"";
constexpr std::string_view kRate = "rate=", kCodedFloats = "lossless";

std::string refuse(const std::string& text, std::string_view expected) {
  return fmt::format("expected {} in compressor.menu, found \"{}\"; correct it or leave it out",
                     expected, text);
}

bool is_cast(const CompressorRow& row) {
  return row.id == CodecId::fp16 || row.id == CodecId::bf16;
}

/// Empty: the compressor may be a grade.
std::string why_no_member(const std::string& text, const Parsed& parsed,
                          const Compressor& compressor) {
  const Properties p = compressor.properties();
  const bool fits = parsed.options.rate || p.unbiased || is_cast(*parsed.row);
  if (!fits || p.votes || p.forgets_sent)
    return refuse(text, "compressors that are unbiased, rates, or fp16 or bf16,");
  if (p.averages_itself || p.shared_scale || p.scales_up || p.granule == 0)
    return refuse(text, "compressors that encode parts of a tensor without other ranks");
  return {};
}

/// Reads one entry. @return why it is none, or ""
std::string parse(const std::string& text, const CompressorOptions& common, Parsed& parsed) {
  const std::size_t at = text.find('@');
  const std::string_view head = std::string_view(text).substr(0, at);
  const std::size_t colon = head.find(':');
  const std::string_view name = head.substr(0, colon);
  parsed.row = CompressorRow::all().find(name);
  if (parsed.row == nullptr || parsed.row->id == CodecId::auto_) return refuse(text, kForm);
  CompressorOptions& options = parsed.options;
  options.rounding = common.rounding;
  options.bucket_size = common.bucket_size;
  if (parsed.row->choose_defaults != nullptr) parsed.row->choose_defaults(options);
  options.bucket_size = common.bucket_size;
  const std::string_view argument =
      colon == std::string_view::npos ? std::string_view() : head.substr(colon + 1);
  if (argument == kCodedFloats && parsed.row->codes_floats) {
    options.coding = Coding::lossless;
  } else if (argument.starts_with(kRate)) {
    const auto rate = number_of<double>(argument.substr(kRate.size()));
    if (!rate || !parsed.row->reads.has(Option::rate) || at != std::string::npos)
      return refuse(text, "a rate as in \"e-elastiquant:rate=0.5\", of an elastiquant family,");
    options = {.rate = rate};  // with the blocks and the rounding that it chooses itself
    parsed.row->choose_defaults(options);
  } else if (colon != std::string_view::npos) {
    const auto bits = number_of<int>(argument);
    if (!bits || !parsed.row->reads.has(Option::bits) || *bits < 2 || *bits > 8)
      return refuse(text, "bits from 2 to 8, only for compressors that have them,");
    options.bits = *bits;
  }
  if (at != std::string::npos) {
    const auto factor = number_of<double>(std::string_view(text).substr(at + 1));
    if (!factor || !parsed.row->reads.has(Option::elasticity) || !(*factor >= 0.1) ||
        !(*factor <= 10))
      return refuse(text, "a factor from 0.1 to 10, only for compressors that have an elasticity,");
    if (*factor != 1)
      options.elasticity = std::min(*factor * best_elasticity(*parsed.row, options),
                                    row_of(options.levels).most_elasticity);
  }
  std::string why = why_not(*parsed.row, options), why_member;
  try {
    if (why.empty())
      why_member = why_no_member(text, parsed, *parsed.row->make(*parsed.row, options));
  } catch (const Error& error) {  // The levels are too close to each other or to 0.
    if (error.kind() != Kind::usage) throw;
    why = error.what();
  }
  if (!why.empty()) return fmt::format("compressor.menu, \"{}\": {}", text, why);
  options.damped = common.damped;
  return why_member;
}

bool same(const Parsed& a, const Parsed& b) { return a.row == b.row && a.options == b.options; }

constexpr int kLeastBits = 2, kMostBits = 8, kStartBits = 4;

/// A grade before it is made.
struct Candidate {
  std::string name;
  CompressorOptions options;
  double factor = 1;    // of the best elasticity
  double bits = 0;      // per Gaussian value
  double variance = 0;  // of Gaussian values
};

std::string name_of_grade(const CompressorRow& row, int bits, std::string_view end) {
  return fmt::format("{}:{}@{}", row.name, bits, end);
}

Candidate of_factor(const CompressorRow& row, CompressorOptions options, double factor) {
  const int n = (1 << (options.bits - 1)) - 1;
  const LevelFamilyRow& family = row_of(options.levels);
  const double elasticity =
      std::min(factor * best_elasticity(row, options), family.most_elasticity);
  const GaussianCost cost =
      gaussian_cost(make_levels(options.levels, n, elasticity), options.bucket_size, options.norm);
  options.elasticity = elasticity;
  Candidate candidate{.name = name_of_grade(row, options.bits, fmt::format("{:g}", factor)),
                      .options = std::move(options),
                      .factor = factor};
  const CompressorOptions& o = candidate.options;
  // With codes of fixed length the norm's bits are left out, because all grades have buckets of one
  // size.
  candidate.bits = o.coding == Coding::fixed ? o.bits : cost.bits(o.coding, o.bucket_size);
  candidate.variance = cost.variance;
  return candidate;
}

/// Null where the levels would be too close to each other or to 0.
std::unique_ptr<Compressor> made(const CompressorRow& row, const CompressorOptions& options) {
  if (!why_not(row, options).empty()) return {};
  try {
    return row.make(row, options);
  } catch (const Error& error) {
    if (error.kind() != Kind::usage) throw;
    return {};
  }
}

/// Those that can be made, each elasticity once. Of a single level all elasticities are the same.
std::vector<Candidate> of_factors(const CompressorRow& row, const CompressorOptions& options,
                                  std::span<const double> factors) {
  std::vector<Candidate> all;
  if (options.bits == kLeastBits) return {of_factor(row, options, 1)};
  for (const double factor : factors) {
    Candidate one = of_factor(row, options, factor);
    const bool known = std::ranges::any_of(
        all, [&](const Candidate& other) { return other.options == one.options; });
    if (!known && made(row, one.options) != nullptr) all.push_back(std::move(one));
  }
  return all;
}

std::vector<Candidate> of_bits(const CompressorRow& row, const CompressorOptions& options) {
  std::vector<Candidate> all;
  for (int bits = kLeastBits; bits <= kMostBits; ++bits) {
    CompressorOptions own = options;
    own.bits = bits;
    if (options.elasticity) {
      const std::string end = fmt::format("={:g}", *options.elasticity);
      if (made(row, own) != nullptr)
        all.push_back({.name = name_of_grade(row, bits, end), .options = std::move(own)});
    } else {
      std::ranges::move(of_factors(row, own, kFactorsOfBits), std::back_inserter(all));
    }
  }
  if (options.elasticity) return all;
  std::vector<std::size_t> hull =
      lower_hull(std::span<const Candidate>(all), &Candidate::bits, &Candidate::variance);
  // If there are too many, every other one between the ends is left out, from the coarse end.
  for (std::size_t i = 1; hull.size() > kMostGrades && i + 1 < hull.size(); ++i)
    hull.erase(hull.begin() + static_cast<std::ptrdiff_t>(i));
  std::vector<Candidate> kept;
  for (const std::size_t i : hull) kept.push_back(std::move(all[i]));
  return kept;
}

std::vector<Candidate> candidates_of(const CompressorRow& row, const CompressorOptions& options,
                                     const OpenOptions& open) {
  return open.bits ? of_bits(row, options) : of_factors(row, options, kFactors);
}

}  // namespace

std::string why_no_menu(const CompressorOptions& options) {
  const std::vector<std::string>& menu = options.menu;
  if (menu.size() < kLeastGrades || menu.size() > kMostGrades)
    return fmt::format("expected from {} to {} grades in compressor.menu, found {}; change it",
                       kLeastGrades, kMostGrades, menu.size());
  std::vector<Parsed> all;
  for (const std::string& text : menu) {
    Parsed parsed;
    if (std::string why = parse(text, options, parsed); !why.empty()) return why;
    if (std::ranges::any_of(all, [&](const Parsed& other) { return same(other, parsed); }))
      return fmt::format(
          "expected each grade once in compressor.menu, found \"{}\" again; leave it out", text);
    all.push_back(std::move(parsed));
  }
  // Beside rates, what is left of a value must be in the memory, too, or nothing may be left.
  const auto is_rate = [](const Parsed& parsed) { return parsed.options.rate.has_value(); };
  const auto rate = std::ranges::find_if(all, is_rate);
  if (rate == all.end()) return {};
  const auto other = std::ranges::find_if(all, [&](const Parsed& parsed) {
    return !is_rate(parsed) && !is_cast(*parsed.row) &&
           !parsed.row->make(*parsed.row, parsed.options)->properties().lossless;
  });
  if (other == all.end()) return {};
  return refuse(menu[static_cast<std::size_t>(other - all.begin())],
                fmt::format("rates, fp16, bf16 or none beside \"{}\", which needs a memory,",
                            menu[static_cast<std::size_t>(rate - all.begin())]));
}

std::vector<std::string> menu_of_rates() {
  std::vector<std::string> menu;
  for (const double rate : {0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0})
    menu.push_back(fmt::format("e-elastiquant:rate={}", rate));
  menu.insert(menu.end(), {"bf16:lossless", "bf16", "none"});
  return menu;
}

double best_elasticity(const CompressorRow& row, const CompressorOptions& options) {
  const int n = (1 << (options.bits - 1)) - 1;
  if (row.id == CodecId::e_elastiquant)
    return cheapest_elasticity(options.levels, n, options.bucket_size, options.norm,
                               options.coding);
  return optimal_elasticity(options.levels, n, options.bucket_size, options.norm);
}

Menu make_menu(const CompressorOptions& options) {
  Menu menu;
  for (const std::string& text : options.menu) {
    Parsed parsed;
    const std::string why = parse(text, options, parsed);
    EQT_CHECK(why.empty(), "{}", why);
    menu.grades.push_back({text, parsed.row->make(*parsed.row, parsed.options)});
  }
  menu.start = menu.grades.size() / 2;
  for (const std::string_view name : kStartGrades) {
    const auto found = std::ranges::find(menu.grades, name, &Grade::name);
    if (found == menu.grades.end()) continue;
    menu.start = static_cast<std::size_t>(found - menu.grades.begin());
    break;
  }
  return menu;
}

std::string why_not_open(const CompressorRow& row, const CompressorOptions& options,
                         const OpenOptions& open) {
  if (!open.any()) return {};
  const char* const key =
      open.bits ? "compressor.bits \"auto\"" : "compressor.elasticity \"measured\"";
  if (row.id != CodecId::elastiquant && row.id != CodecId::e_elastiquant)
    return fmt::format(
        "expected the compressor elastiquant or e-elastiquant with {}, found \"{}\"; set "
        "compressor.name to one of them, or to \"auto\", which also chooses among compressors",
        key, row.name);
  if (options.levels == LevelFamily::general || options.levels == LevelFamily::adaptive)
    return fmt::format(
        "expected compressor.levels \"sinh\", \"exponential\" or \"mulaw\" with {}, found \"{}\"; "
        "leave the levels out",
        key, name_of(options.levels));
  if (!open.bits && options.bits == kLeastBits)
    return fmt::format(
        "expected compressor.bits from {} to {} or \"auto\" with {}, found {}, whose only level no "
        "elasticity changes",
        kLeastBits + 1, kMostBits, key, options.bits);
  if (open.bits && options.elasticity && of_bits(row, options).size() < kLeastGrades)
    return fmt::format(
        "expected a compressor.elasticity that has levels for at least {} numbers of bits with {}, "
        "found {}; leave it out",
        kLeastGrades, key, *options.elasticity);
  return {};
}

Menu open_menu(const CompressorRow& row, const CompressorOptions& options,
               const OpenOptions& open) {
  const std::vector<Candidate> all = candidates_of(row, options, open);
  const auto distance = [&](const Candidate& c) {
    const int bits = open.bits ? std::abs(c.options.bits - kStartBits) : 0;
    return std::tuple(bits, std::abs(std::log(c.factor)));
  };
  Menu menu;
  menu.start = static_cast<std::size_t>(std::ranges::min_element(all, {}, distance) - all.begin());
  for (const Candidate& c : all) menu.grades.push_back({c.name, row.make(row, c.options)});
  EQT_CHECK(menu.grades.size() >= kLeastGrades && menu.grades.size() <= kMostGrades,
            "a menu of {} grades", menu.grades.size());
  return menu;
}

std::unique_ptr<Compressor> make_open(const CompressorRow& row, const CompressorOptions& options,
                                      const OpenOptions& open) {
  for (const std::string& why : {why_not(row, options), why_not_open(row, options, open)})
    if (!why.empty()) fail(Kind::usage, "compressor {}: {}", row.name, why);
  return std::make_unique<MixedGrades>(open_menu(row, options, open));
}

}  // namespace eqt::codec
