// SPDX-License-Identifier: Apache-2.0
// Decodes the pictures of a list, frames them, and remembers those that need not be decoded again.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture.hpp"
#include "data/pictures/picture_list.hpp"

namespace eqt::data {

/// Memory for decoded pictures that several readers share. Thread-safe.
class PictureBudget {
 public:
  explicit PictureBudget(std::uint64_t bytes) : left_(static_cast<std::int64_t>(bytes)) {}
  /// True if so much was left, which is then taken for good.
  bool take(std::size_t bytes);

 private:
  std::atomic<std::int64_t> left_;
};

/// Pictures that could not be read, of all readers of a set. Thread-safe.
class BrokenPictures {
 public:
  /// @param limit that are put up with
  explicit BrokenPictures(std::size_t limit) : limit_(limit) {}
  /// Notes one and says so on stderr (the first few).
  /// @throws Error{data} when there are more than the limit
  void add(const std::string& name, const std::string& reason);
  std::size_t count() const;
  std::size_t limit() const { return limit_; }

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> reasons_;  // by name
};

/// Readers of one set share these stores.
struct PictureStores {
  explicit PictureStores(std::uint64_t cache_bytes, std::size_t skip_limit,
                         const PictureLimits& picture_limits = {})
      : budget(cache_bytes), broken(skip_limit), limits(picture_limits) {}
  PictureBudget budget;
  BrokenPictures broken;
  const PictureLimits limits;
};

class PictureReader {
 public:
  PictureReader(PictureList list, const PictureFraming& framing,
                std::shared_ptr<PictureStores> stores);
  ~PictureReader();
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;

  const PictureList& list() const { return list_; }
  const PictureFraming& framing() const { return framing_; }

  /// The bytes (h, w, c) of one framed picture, augmented if `augment` is set: a pure function of
  /// the files and the arguments, whatever is remembered. In place of a broken picture the next
  /// whole one of its class is read, with the broken one's crop.
  /// Thread-safe.
  /// @param out framing().values() bytes
  /// @param once the picture will not be read in this way again, so it need not be remembered
  /// @throws Error{data}: more broken pictures than allowed, or none of the class is whole
  void read(std::size_t picture, const std::optional<AugmentKey>& augment,
            std::span<std::uint8_t> out, bool once = false) const;

 private:
  struct Scratch;  // of a thread
  static Scratch& scratch();

  void read_whole(std::size_t picture, std::size_t drawn, const std::optional<AugmentKey>& augment,
                  std::span<std::uint8_t> out, bool once) const;
  void read_test(std::size_t picture, std::span<std::uint8_t> out, bool once) const;
  void read_resized(std::size_t picture, std::size_t drawn, const AugmentKey& augment,
                    std::span<std::uint8_t> out) const;
  std::unique_ptr<Picture> open(std::size_t picture, Scratch& scratch) const;
  /// Decodes a part of a picture that open() has read, and makes sure once that all of it can be
  /// decoded: whether a picture is broken must not depend on its crop.
  void decode(std::size_t picture, Picture& opened, const Scratch& scratch, const PixelArea& area,
              int min_side, PicturePart& out) const;
  const PicturePart* kept(std::size_t picture) const;
  /// @pre the budget has given the bytes
  void keep(std::size_t picture, PicturePart part) const;
  bool may_keep_whole(int width, int height) const;

  PictureList list_;
  PictureFraming framing_;
  std::shared_ptr<PictureStores> stores_;
  // There is one for each picture. It is null until the picture has been decoded and the budget
  // allowed it; then it stays.
  mutable std::vector<std::atomic<const PicturePart*>> kept_;
  mutable std::vector<std::atomic<bool>> is_broken_, is_whole_;  // both false until it was read
};

/// Moments of the channels, as fractions of 255, of at most 512 pictures, which are spread evenly
/// over the list and framed as for a test. They count as all pixels of the list, so that those of
/// several lists can be added.
std::vector<Moments> measure_moments(const PictureReader& reader);

}  // namespace eqt::data
