// SPDX-License-Identifier: Apache-2.0
// The orientation tag of EXIF data.
//
// Source   CIPA DC-008 (Exif 2.3), sections 4.5.2 and 4.6.4: a TIFF header, then the first
// directory

#include <optional>

#include "data/pictures/formats.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kEntryBytes = 12;  // tag, type, count, value
constexpr std::uint32_t kOrientation = 0x0112;
constexpr std::uint32_t kShort = 3;  // a type: 16 bits without sign

/// Numbers of the byte order that the file says.
class TiffNumbers {
 public:
  TiffNumbers(PictureBytes bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  /// Nothing where the file ends too early.
  std::optional<std::uint32_t> at(std::size_t place, std::size_t count) const {
    if (place > bytes_.size() || bytes_.size() - place < count) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
      value = value << 8 | bytes_[place + (big_endian_ ? i : count - 1 - i)];
    return value;
  }

 private:
  PictureBytes bytes_;
  bool big_endian_;
};

}  // namespace

int orientation_of(PictureBytes tiff) {
  if (tiff.size() < 8) return 1;
  const bool big = tiff[0] == 'M' && tiff[1] == 'M', little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!big && !little) return 1;
  const TiffNumbers numbers(tiff, big);
  const std::size_t directory = numbers.at(4, 4).value_or(0);
  const std::uint32_t entries = numbers.at(directory, 2).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    const auto tag = numbers.at(entry, 2);
    if (!tag) return 1;
    if (*tag != kOrientation || numbers.at(entry + 2, 2) != kShort) continue;
    const std::uint32_t value = numbers.at(entry + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace eqt::data
