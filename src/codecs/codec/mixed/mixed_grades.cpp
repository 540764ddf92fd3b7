// SPDX-License-Identifier: Apache-2.0
#include "codec/mixed/mixed_grades.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "codec/catalogue.hpp"
#include "codec/parallel.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kGradeBytes = 1;

// Neither the grades nor messages use this slot.
constexpr ScratchArray<std::span<const std::byte>> kOfGrades{Workspace::kSlots - 3};

Properties properties_of(const std::vector<Grade>& menu) {
  // Casts round to nearest, with an error far below that of any quantizer: it is left out of
  // account.
  Properties all = {.unbiased = true};
  for (const Grade& grade : menu) {
    const Properties own = grade.compressor->properties();
    all.random |= own.random;
    all.unbiased &= own.unbiased || !own.random;
    all.needs_feedback |= own.needs_feedback;
    all.largest = std::min(all.largest, own.largest);
    all.granule = std::lcm(all.granule, own.granule);
  }
  all.unbiased &= !all.needs_feedback;
  return all;
}

}  // namespace

MixedGrades::MixedGrades(const CompressorOptions& options) : MixedGrades(make_menu(options)) {}

MixedGrades::MixedGrades(Menu menu)
    : menu_(std::move(menu.grades)),
      properties_(properties_of(menu_)),
      start_(static_cast<GradeIndex>(menu.start)) {
  EQT_CHECK(menu.start < menu_.size(), "grade {} of {}", menu.start, menu_.size());
  set_table({}, {});
}

void MixedGrades::use_threads(int threads, std::size_t least_values) {
  for (Grade& grade : menu_)
    grade.compressor = make_parallel(std::move(grade.compressor), threads, least_values);
}

std::vector<std::string> MixedGrades::names() const {
  std::vector<std::string> names;
  for (const Grade& grade : menu_) names.push_back(grade.name);
  return names;
}

std::shared_ptr<const MixedGrades::Table> MixedGrades::current() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

GradeIndex MixedGrades::grade_in(const Table& table, std::uint32_t slice) const {
  const auto found = std::ranges::lower_bound(table.slices, slice);
  if (found == table.slices.end() || *found != slice) return start_;
  return table.grades[static_cast<std::size_t>(found - table.slices.begin())];
}

GradeIndex MixedGrades::grade_of(std::uint32_t slice) const { return grade_in(*current(), slice); }

bool MixedGrades::all_float32() const {
  const std::uint32_t used = current()->used;
  for (std::size_t k = 0; k < menu_.size(); ++k)
    if ((used >> k & 1u) != 0 && !menu_[k].compressor->properties().is_float32()) return false;
  return true;
}

void MixedGrades::set_table(std::span<const std::uint32_t> slices,
                            std::span<const GradeIndex> grades) {
  EQT_CHECK(slices.size() == grades.size(), "{} grades for {} slices", grades.size(),
            slices.size());
  auto table = std::make_shared<Table>();
  table->slices.assign(slices.begin(), slices.end());
  table->grades.assign(grades.begin(), grades.end());
  if (grades.empty()) table->used = 1u << start_;
  for (const GradeIndex grade : grades) {
    EQT_CHECK(grade < menu_.size(), "grade {} of {}", grade, menu_.size());
    table->used |= 1u << grade;
  }
  const std::lock_guard lock(mutex_);
  table_ = std::move(table);
}

std::size_t MixedGrades::max_payload_bytes(std::size_t count) const {
  if (count == 0) return 0;
  std::size_t most = 0;
  for (const Grade& grade : menu_)
    most = std::max(most, grade.compressor->max_payload_bytes(count));
  return kGradeBytes + most;
}

std::size_t MixedGrades::encode(std::span<const float> values, const EncodeContext& context,
                                Workspace& workspace, std::span<std::byte> payload) const {
  if (values.empty()) return 0;
  EQT_CHECK(payload.size() > kGradeBytes, "a payload buffer of {} bytes for {} values",
            payload.size(), values.size());
  const GradeIndex grade = grade_of(context.key.slice);
  payload.front() = std::byte{grade};
  return kGradeBytes +
         menu_[grade].compressor->encode(values, context, workspace, payload.subspan(kGradeBytes));
}

std::size_t MixedGrades::encode_with_feedback(std::span<const float> gradient,
                                              const EncodeContext& context, Workspace& workspace,
                                              std::span<float> residual,
                                              std::span<std::byte> payload) const {
  if (gradient.empty()) return 0;
  EQT_CHECK(payload.size() > kGradeBytes, "a payload buffer of {} bytes for {} values",
            payload.size(), gradient.size());
  const GradeIndex grade = grade_of(context.key.slice);
  payload.front() = std::byte{grade};
  return kGradeBytes + menu_[grade].compressor->encode_with_feedback(
                           gradient, context, workspace, residual, payload.subspan(kGradeBytes));
}

GradeIndex MixedGrades::read_grade(std::span<const std::byte> payload) const {
  if (payload.empty()) fail(Kind::wire, "auto: expected a grade, found an empty payload");
  const auto grade = std::to_integer<unsigned>(payload.front());
  if (grade >= menu_.size() || (current()->used >> grade & 1u) == 0)
    fail(Kind::wire, "auto: expected a grade that a slice has now, found {}", grade);
  return static_cast<GradeIndex>(grade);
}

void MixedGrades::require_payload_of(std::uint32_t slice,
                                     std::span<const std::byte> payload) const {
  if (payload.empty()) return;
  const GradeIndex expected = grade_of(slice);
  const auto found = std::to_integer<unsigned>(payload.front());
  if (found != expected)
    fail(Kind::wire, "auto, slice {}: expected grade {}, \"{}\", found {}", slice, expected,
         name_of(expected), found);
}

void MixedGrades::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                             std::span<float> sum) const {
  decode_add_all(std::span(&payload, 1), scale, workspace, sum);
}

void MixedGrades::decode_add_all(std::span<const std::span<const std::byte>> payloads, float scale,
                                 Workspace& workspace, std::span<float> sum) const {
  if (payloads.empty()) return;
  if (sum.empty()) {
    for (const auto payload : payloads)
      if (!payload.empty())
        fail(Kind::wire, "auto: expected no payload for no values, found {} bytes", payload.size());
    return;
  }
  const GradeIndex grade = read_grade(payloads.front());
  const auto rest = workspace.array(kOfGrades, payloads.size());
  for (std::size_t k = 0; k < payloads.size(); ++k) {
    if (read_grade(payloads[k]) != grade)
      fail(Kind::wire, "auto: expected the same grade of all ranks, found {} and {}", grade,
           read_grade(payloads[k]));
    rest[k] = payloads[k].subspan(kGradeBytes);
  }
  menu_[grade].compressor->decode_add_all(rest, scale, workspace, sum);
}

std::optional<double> MixedGrades::variance_bound(std::size_t count) const {
  double most = 0;
  for (const Grade& grade : menu_) {
    const auto bound = grade.compressor->variance_bound(count);
    if (!bound) return {};
    most = std::max(most, *bound);
  }
  return most;
}

const CompressorRow kAuto = {
    .name = "auto",
    .about = "bits and elasticity of each tensor by the gradients' noise and the link",
    .id = CodecId::auto_,
    .make = make_a<MixedGrades>,
    .reads = {Option::bucket_size, Option::menu},
    .why_not = why_no_menu,
    .title = "ElastiQuant auto",
    .colour = "#ff0f3c"};

}  // namespace eqt::codec
