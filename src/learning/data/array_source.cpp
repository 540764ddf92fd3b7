// SPDX-License-Identifier: Apache-2.0
#include "data/array_source.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.hpp"

namespace eqt::data {
namespace {

class NpySource final : public ArraySource {
 public:
  explicit NpySource(const std::filesystem::path& file) : file_(file) {
    if (file_.shape().empty())
      fail(Kind::data,
           "{}: expected an array whose first dimension is the sample, found a single number",
           path());
    shape_.assign(file_.shape().begin() + 1, file_.shape().end());
    values_ = values();
  }

  std::size_t samples() const override { return file_.shape().front(); }
  const std::vector<std::size_t>& shape() const override { return shape_; }
  bool whole() const override { return is_whole(file_.type()); }
  void read(std::size_t sample, std::span<double> out) const override {
    file_.read(sample * values_, out);
  }
  void read(std::size_t sample, std::span<float> out) const override {
    file_.read(sample * values_, out);
  }
  void read(std::size_t sample, std::span<std::int64_t> out) const override {
    file_.read(sample * values_, out);
  }
  std::string place(std::size_t sample, std::size_t index) const override {
    if (shape_.empty()) return fmt::format("{}, row {} (from 0)", path(), sample);
    if (shape_.size() == 1)
      return fmt::format("{}, row {}, column {} (from 0)", path(), sample, index);
    std::vector<std::size_t> at(shape_.size());
    for (std::size_t axis = shape_.size(); axis-- > 0; index /= shape_[axis])
      at[axis] = index % shape_[axis];
    return fmt::format("{}, row {}, place {} (from 0)", path(), sample, shape_text(at));
  }
  const std::string& path() const override { return file_.path(); }

 private:
  NpyFile file_;
  std::vector<std::size_t> shape_;
  std::size_t values_ = 1;
};

class CsvSource final : public ArraySource {
 public:
  CsvSource(std::shared_ptr<const CsvTable> table, std::vector<std::size_t> columns)
      : table_(std::move(table)), columns_(std::move(columns)), shape_{columns_.size()} {}

  std::size_t samples() const override { return table_->rows(); }
  const std::vector<std::size_t>& shape() const override { return shape_; }
  bool whole() const override {
    return std::ranges::all_of(columns_, [&](std::size_t column) {
      for (std::size_t row = 0; row < table_->rows(); ++row) {
        const double value = table_->at(row, column);
        if (value != std::trunc(value) || std::abs(value) > kLargestExact) return false;
      }
      return true;
    });
  }
  void read(std::size_t sample, std::span<double> out) const override { copy(sample, out); }
  void read(std::size_t sample, std::span<float> out) const override { copy(sample, out); }
  void read(std::size_t sample, std::span<std::int64_t> out) const override { copy(sample, out); }
  std::string place(std::size_t sample, std::size_t index) const override {
    return table_->place(sample, columns_[index]);
  }
  const std::string& path() const override { return table_->path; }

 private:
  static constexpr double kLargestExact = 0x1p53;  // whole numbers up to it are exact as doubles

  template <typename To>
  void copy(std::size_t sample, std::span<To> out) const {
    EQT_CHECK(sample < samples() && out.size() == columns_.size(), "row {} of {}, {} columns of {}",
              sample, samples(), out.size(), columns_.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double value = table_->at(sample, columns_[i]);
      constexpr double kMax = static_cast<double>(std::numeric_limits<float>::max());
      if (std::is_same_v<To, float> && std::abs(value) > kMax)
        out[i] = static_cast<To>(std::copysign(HUGE_VALF, value < 0 ? -1.0f : 1.0f));
      else
        out[i] = static_cast<To>(value);
    }
  }

  std::shared_ptr<const CsvTable> table_;
  std::vector<std::size_t> columns_;
  std::vector<std::size_t> shape_;
};

}  // namespace

std::size_t ArraySource::values() const {
  return std::accumulate(shape().begin(), shape().end(), std::size_t{1}, std::multiplies<>());
}

std::unique_ptr<ArraySource> open_npy(const std::filesystem::path& file) {
  return std::make_unique<NpySource>(file);
}

std::unique_ptr<ArraySource> make_csv_source(std::shared_ptr<const CsvTable> table,
                                             std::vector<std::size_t> columns) {
  return std::make_unique<CsvSource>(std::move(table), std::move(columns));
}

}  // namespace eqt::data
