// SPDX-License-Identifier: Apache-2.0
#include "codec/mixed/menu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "codec/catalogue.hpp"
#include "codec/levels/level_design.hpp"
#include "core/error.hpp"

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
    "as in \"e-elastiquant:4@0.75\"";

std::string refuse(const std::string& text, std::string_view expected) {
  return fmt::format("expected {} in compressor.menu, found \"{}\"; correct it or leave it out",
                     expected, text);
}

bool is_cast(const CompressorRow& row) {
  return row.id == CodecId::fp16 || row.id == CodecId::bf16;
}

/// Empty: the compressor may be a grade.
std::string why_no_member(const std::string& text, const CompressorRow& row,
                          const Compressor& compressor) {
  const Properties p = compressor.properties();
  if (p.needs_feedback || p.votes || p.forgets_sent || (!p.unbiased && !is_cast(row)))
    return refuse(text, "compressors that are unbiased, or fp16 or bf16,");
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
  options.bucket_size = common.bucket_size;
  if (parsed.row->choose_defaults != nullptr) parsed.row->choose_defaults(options);
  options.bucket_size = common.bucket_size;
  if (colon != std::string_view::npos) {
    const auto bits = number_of<int>(head.substr(colon + 1));
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
  if (const std::string why = why_not(*parsed.row, options); !why.empty())
    return fmt::format("compressor.menu, \"{}\": {}", text, why);
  return why_no_member(text, *parsed.row, *parsed.row->make(*parsed.row, options));
}

bool same(const Parsed& a, const Parsed& b) { return a.row == b.row && a.options == b.options; }

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
  return {};
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
  const auto found = std::ranges::find(menu.grades, kStartGrade, &Grade::name);
  menu.start = found != menu.grades.end() ? static_cast<std::size_t>(found - menu.grades.begin())
                                          : menu.grades.size() / 2;
  return menu;
}

}  // namespace eqt::codec
