#include "core/checked.hpp"
#include "core/error.hpp"
#include "data/files.hpp"
#include "data/formats.hpp"

namespace eqt::data {
namespace {

constexpr ImageShape kShape{3, 32, 32};
constexpr std::size_t kPlane = std::size_t{32} * 32;  // [bytes] one colour of one image

/// Colour planes (c, h, w) to pixels (h, w, c).
void interleave(const std::uint8_t* planes, std::uint8_t* pixels) {
  for (std::size_t i = 0; i < kPlane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels[3 * i + c] = planes[c * kPlane + i];
  }
}

}  // namespace

LabelledBytes read_cifar(std::span<const std::filesystem::path> files, std::size_t records_per_file,
                         const CifarFormat& format, std::string_view remedy) {
  const std::size_t record_bytes = format.label_bytes + kShape.values();
  LabelledBytes data;
  data.shape = kShape;
  data.classes = format.classes;
  data.labels.reserve(checked_product({files.size(), records_per_file}, Kind::data, "samples"));
  data.pixels.resize(checked_product({files.size(), records_per_file, kShape.values()}, Kind::data,
                                     "bytes of images"));
  std::uint8_t* pixels = data.pixels.data();
  for (const auto& file : files) {
    const auto bytes = read_exactly(file, records_per_file * record_bytes, remedy);
    for (std::size_t i = 0; i < records_per_file; ++i) {
      const std::uint8_t* record = bytes.data() + i * record_bytes;
      const std::uint8_t label = record[format.label_bytes - 1];
      if (label >= format.classes) {
        fail(Kind::data, "{}: expected labels below {}, found {} in record {}; {}", file.string(),
             format.classes, label, i, remedy);
      }
      data.labels.push_back(label);
      interleave(record + format.label_bytes, pixels);
      pixels += kShape.values();
    }
  }
  return data;
}

}  // namespace eqt::data
