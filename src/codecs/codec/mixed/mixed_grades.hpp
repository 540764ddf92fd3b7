// SPDX-License-Identifier: Apache-2.0
// MixedGrades: the compressor auto, which encodes each slice with one of several compressors, the
// grades of a menu. Which grade a slice has is replaced between steps.
//
// Payload  grade, uint8: index in the menu (nothing for an empty segment); then the payload of that
//          compressor
// Size     1 byte more than the grade's
// Error    that of the grade; a contraction, which needs error feedback, if there are rates

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/mixed/menu.hpp"
#include "codec/options.hpp"

namespace eqt::codec {

/// Index in the menu.
using GradeIndex = std::uint8_t;

class MixedGrades final : public Compressor {
 public:
  /// @pre why_no_menu(options) is empty
  explicit MixedGrades(const CompressorOptions& options);
  /// @pre menu.start is one of its grades, which are as why_no_menu() wants them
  explicit MixedGrades(Menu menu);

  CodecId id() const noexcept override { return CodecId::auto_; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override { return properties_; }
  std::size_t max_payload_bytes(std::size_t count) const override;
  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  std::size_t encode_with_feedback(std::span<const float> gradient, const EncodeContext& context,
                                   Workspace& workspace, std::span<float> residual,
                                   std::span<std::byte> payload) const override;
  /// @throws Error{wire} also if no slice has the payload's grade
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;
  void decode_add_all(std::span<const std::span<const std::byte>> payloads, float scale,
                      Workspace& workspace, std::span<float> sum) const override;
  /// The largest of the grades' bounds.
  std::optional<double> variance_bound(std::size_t count) const override;
  MixedGrades* mixed_grades() noexcept override { return this; }
  /// @throws Error{wire} if the payload's grade is not that of the slice
  void require_payload_of(std::uint32_t slice, std::span<const std::byte> payload) const override;

  std::size_t grades() const noexcept { return menu_.size(); }
  std::string_view name_of(GradeIndex grade) const { return menu_.at(grade).name; }
  std::vector<std::string> names() const;
  const Compressor& grade(GradeIndex grade) const { return *menu_.at(grade).compressor; }
  /// The grade of every slice before the first set_table(), and of slices that no table names.
  GradeIndex start() const noexcept { return start_; }
  GradeIndex grade_of(std::uint32_t slice) const;
  /// Returns true if every slice of the table has a grade that sends float32 as it is.
  bool all_float32() const;

  /// From now on grades encode and decode on several threads (parallel.hpp).
  void use_threads(int threads, std::size_t least_values);
  /// Gives slices their grades. Safe during encode() and decode_add() on other threads: each call
  /// uses one table. Every rank must do it between the same two messages.
  /// @param slices ascending, as Segment::slice has them
  /// @pre as many grades, each below grades()
  void set_table(std::span<const std::uint32_t> slices, std::span<const GradeIndex> grades);

 private:
  /// One assignment, which never changes.
  struct Table {
    std::vector<std::uint32_t> slices;
    std::vector<GradeIndex> grades;
    std::uint32_t used = 0;  // bit k: a slice has grade k
  };
  std::shared_ptr<const Table> current() const;
  GradeIndex grade_in(const Table& table, std::uint32_t slice) const;
  GradeIndex read_grade(std::span<const std::byte> payload) const;

  std::vector<Grade> menu_;
  Properties properties_;
  GradeIndex start_ = 0;
  mutable std::mutex mutex_;  // guards the pointer, not what it points to
  std::shared_ptr<const Table> table_;
};

}  // namespace eqt::codec
