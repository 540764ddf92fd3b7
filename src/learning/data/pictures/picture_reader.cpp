// SPDX-License-Identifier: Apache-2.0
// What is remembered must not change what is read. So test inputs are kept as they are, and of
// pictures that are cropped at random only small ones, which are never reduced, and these whole.

#include "data/pictures/picture_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/error.hpp"
#include "data/image_set.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kNamedPictures = 10;  // on stderr; the others are only counted
constexpr std::size_t kScratchBytes = std::size_t{8} << 20;  // a thread keeps between pictures
constexpr std::size_t kMeasuredPictures = 512;

/// The part of `from` that draw_crop() chose in its frame of black.
void crop_padded(std::span<const std::uint8_t> from, const PictureFraming& framing,
                 const Crop& crop, std::span<std::uint8_t> out) {
  const int size = framing.size;
  const auto channels = static_cast<std::size_t>(framing.channels);
  std::uint8_t* pixel = out.data();
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x, pixel += channels) {
      const int row = y + crop.top - kCropPadding;
      const int column = (crop.flip ? size - 1 - x : x) + crop.left - kCropPadding;
      if (row < 0 || row >= size || column < 0 || column >= size) {
        std::fill_n(pixel, channels, std::uint8_t{0});
      } else {
        const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(size) +
                               static_cast<std::size_t>(column);
        std::copy_n(from.data() + at * channels, channels, pixel);
      }
    }
  }
}

}  // namespace

bool PictureBudget::take(std::size_t bytes) {
  const auto wanted = static_cast<std::int64_t>(bytes);
  std::int64_t left = left_.load();
  while (left >= wanted)
    if (left_.compare_exchange_weak(left, left - wanted)) return true;
  return false;
}

void BrokenPictures::add(const std::string& name, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!reasons_.emplace(name, reason).second) return;
  if (reasons_.size() > limit_) {
    fail(Kind::data,
         "{}: {}; expected at most {} broken pictures (data.skip_limit), found {}; mend or remove "
         "them, or raise the limit",
         name, reason, limit_, reasons_.size());
  }
  if (reasons_.size() > kNamedPictures) return;
  fmt::print(stderr, "{}: skipped: {}{}\n", name, reason,
             reasons_.size() == kNamedPictures ? "; further ones are not named" : "");
}

std::size_t BrokenPictures::count() const {
  const std::lock_guard lock(mutex_);
  return reasons_.size();
}

struct PictureReader::Scratch {
  std::vector<std::uint8_t> file;
  PicturePart part;
  Resizer resizer;
  std::vector<std::uint8_t> framed;

  void shrink() {
    if (file.capacity() > kScratchBytes) std::vector<std::uint8_t>().swap(file);
    if (part.pixels.capacity() > kScratchBytes) std::vector<std::uint8_t>().swap(part.pixels);
  }
};

PictureReader::Scratch& PictureReader::scratch() {
  thread_local Scratch own;
  return own;
}

PictureReader::PictureReader(PictureList list, const PictureFraming& framing,
                             std::shared_ptr<PictureStores> stores)
    : list_(std::move(list)),
      framing_(framing),
      stores_(std::move(stores)),
      kept_(list_.size()),
      is_broken_(list_.size()),
      is_whole_(list_.size()) {
  EQT_CHECK(framing_.crop != CropKind::automatic, "the kind of crop is not chosen");
}

PictureReader::~PictureReader() {
  for (const auto& kept : kept_) delete kept.load();
}

const PicturePart* PictureReader::kept(std::size_t picture) const {
  return kept_[picture].load(std::memory_order_acquire);
}

void PictureReader::keep(std::size_t picture, PicturePart part) const {
  auto own = std::make_unique<PicturePart>(std::move(part));
  const PicturePart* none = nullptr;
  // Another thread may have been quicker; its pixels are the same.
  if (kept_[picture].compare_exchange_strong(none, own.get(), std::memory_order_acq_rel))
    (void)own.release();
}

/// True if no crop of such a picture is ever reduced, and there is memory for all of it.
bool PictureReader::may_keep_whole(int width, int height) const {
  return std::min(width, height) < 2 * framing_.size &&
         stores_->budget.take(sizeof(PicturePart) +
                              static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                                  static_cast<std::size_t>(framing_.channels));
}

std::unique_ptr<Picture> PictureReader::open(std::size_t picture, Scratch& scratch) const {
  list_.read(picture, scratch.file);
  return open_picture(scratch.file, stores_->limits);
}

void PictureReader::decode(std::size_t picture, Picture& opened, const Scratch& scratch,
                           const PixelArea& area, int min_side, PicturePart& out) const {
  const bool is_all = area.width == opened.width() && area.height == opened.height();
  if (!is_all && !is_whole_[picture].load())
    open_picture(scratch.file, stores_->limits)->require_whole();
  opened.decode(area, min_side, framing_.channels, out);
  is_whole_[picture].store(true);
}

void PictureReader::read_test(std::size_t picture, std::span<std::uint8_t> out, bool once) const {
  // Reduction 0 marks what has been framed.
  if (const PicturePart* const found = kept(picture); found != nullptr && found->reduction == 0) {
    std::ranges::copy(found->pixels, out.begin());
    return;
  }
  Scratch& own = scratch();
  const auto opened = open(picture, own);
  const Sampling sampling = centre_of(framing_, opened->width(), opened->height());
  decode(picture, *opened, own, sampling.bounds, framing_.size, own.part);
  own.resizer.resize(own.part, sampling, framing_.size, framing_.size, false, out.data());
  own.shrink();
  if (once || kept(picture) != nullptr) return;
  if (!stores_->budget.take(sizeof(PicturePart) + out.size())) return;
  keep(picture, {.pixels = {out.begin(), out.end()},
                 .channels = framing_.channels,
                 .height = framing_.size,
                 .width = framing_.size,
                 .reduction = 0});
}

void PictureReader::read_resized(std::size_t picture, std::size_t drawn, const AugmentKey& augment,
                                 std::span<std::uint8_t> out) const {
  Scratch& own = scratch();
  const auto write = [&](const PicturePart& part, const DrawnCrop& crop) {
    const PixelArea& area = crop.area;
    own.resizer.resize(part,
                       {static_cast<double>(area.left), static_cast<double>(area.top),
                        static_cast<double>(area.width), static_cast<double>(area.height), area},
                       framing_.size, framing_.size, crop.mirrored, out.data());
  };
  const PicturePart* const found = kept(picture);
  if (found != nullptr && found->reduction == 1)
    return write(*found, draw_resized_crop(augment, drawn, found->width, found->height));
  const auto opened = open(picture, own);
  const int width = opened->width(), height = opened->height();
  const DrawnCrop crop = draw_resized_crop(augment, drawn, width, height);
  if (found == nullptr && may_keep_whole(width, height)) {
    PicturePart whole;
    decode(picture, *opened, own, {0, 0, width, height}, std::max(width, height), whole);
    write(whole, crop);
    keep(picture, std::move(whole));
  } else {
    decode(picture, *opened, own, crop.area, framing_.size, own.part);
    write(own.part, crop);
  }
  own.shrink();
}

void PictureReader::read_whole(std::size_t picture, std::size_t drawn,
                               const std::optional<AugmentKey>& augment,
                               std::span<std::uint8_t> out, bool once) const {
  if (!augment) return read_test(picture, out, once);
  if (framing_.crop == CropKind::resized) return read_resized(picture, drawn, *augment, out);
  std::vector<std::uint8_t>& framed = scratch().framed;
  framed.resize(out.size());
  read_test(picture, framed, once);
  crop_padded(framed, framing_, draw_crop(*augment, drawn), out);
}

void PictureReader::read(std::size_t picture, const std::optional<AugmentKey>& augment,
                         std::span<std::uint8_t> out, bool once) const {
  EQT_CHECK(picture < list_.size(), "picture {} of {}", picture, list_.size());
  EQT_CHECK(out.size() == framing_.values(), "{} bytes for {}", out.size(), framing_.values());
  const int label = list_.label(picture);
  std::string reason;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const std::size_t next = (picture + i) % list_.size();
    if (list_.label(next) != label || is_broken_[next].load()) continue;
    try {
      return read_whole(next, picture, augment, out, once);
    } catch (const Error& error) {
      if (error.kind() != Kind::data) throw;
      reason = error.what();
    }
    stores_->broken.add(list_.name(next), reason);
    is_broken_[next].store(true);
  }
  fail(Kind::data, "{}: expected a whole picture of its class, found none", list_.name(picture));
}

std::vector<Moments> measure_moments(const PictureReader& reader) {
  const std::size_t all = reader.list().size(), count = std::min(kMeasuredPictures, all);
  const auto channels = static_cast<std::size_t>(reader.framing().channels);
  std::vector<std::uint8_t> bytes(reader.framing().values());
  std::vector<std::uint64_t> sums(channels), squares(channels);
  for (std::size_t i = 0; i < count; ++i) {
    reader.read(i * all / count, std::nullopt, bytes, true);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      const std::uint64_t value = bytes[at];
      sums[at % channels] += value;
      squares[at % channels] += value * value;
    }
  }
  const double of_one = static_cast<double>(bytes.size() / channels);
  const double measured = static_cast<double>(count) * of_one;
  const double pixels = static_cast<double>(all) * of_one;
  std::vector<Moments> moments;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums[c]) / measured / 255;
    const double square = static_cast<double>(squares[c]) / measured / (255.0 * 255.0);
    moments.push_back({pixels, mean, std::max(0.0, square - mean * mean) * pixels});
  }
  return moments;
}

}  // namespace eqt::data
