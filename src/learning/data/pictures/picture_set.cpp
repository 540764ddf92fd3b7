// SPDX-License-Identifier: Apache-2.0
// Pictures of the user's own as data sets: in a folder, or in archives.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture_list.hpp"
#include "data/pictures/picture_reader.hpp"

namespace eqt::data {
namespace {

using ListFunction = PictureLists (*)(const PictureSource&);

PictureSource source_of(const DatasetOptions& options) {
  return {.path = options.path,
          .test_fraction = options.test_fraction,
          .seed = options.seed,
          .is_part = options.is_part,
          .needs_test = options.needs_test,
          .needs_train = options.needs_train};
}

PictureLists list_pictures(ListFunction list, const DatasetOptions& options) {
  return list(source_of(options));
}

/// Some of the folder's, spread evenly over each set.
std::vector<std::filesystem::path> some_files_of_folder(const DatasetOptions& options) {
  constexpr std::size_t kMost = 256;  // of training and of test
  const PictureLists lists = list_pictures(list_folder, options);
  std::vector<std::filesystem::path> files;
  for (const PictureList* const list : {&lists.train, &lists.test}) {
    const std::size_t count = std::min(kMost, list->size());
    for (std::size_t i = 0; i < count; ++i)
      files.push_back(list->file(count == 1 ? 0 : i * (list->size() - 1) / (count - 1)));
  }
  return files;
}

PictureFraming framing_of(const PictureOptions& options) {
  return framing_of(options.channels, options.size, options.crop);
}

DatasetFacts look_at_pictures(ListFunction list, const DatasetOptions& options) {
  const PictureLists lists = list_pictures(list, options);
  const auto classes = static_cast<int>(lists.class_names.size());
  constexpr std::uint64_t kListBytes = 128;  // a picture's name and the places beside it, about
  return {.inputs = {image_spec(framing_of(options.pictures).shape())},
          .target = class_spec(classes),
          .classes = classes,
          .class_names = lists.class_names,
          .train = lists.train.size(),
          .test = lists.test.size(),
          .memory_bytes = options.pictures.memory_bytes +
                          (lists.train.size() + lists.test.size()) * kListBytes};
}

/// Pictures are decoded when they are read.
class PictureSet final : public Dataset {
 public:
  PictureSet(std::unique_ptr<PictureReader> reader, const Normalization& normalization,
             int classes);

  std::size_t size() const override { return reader_->list().size(); }
  std::vector<ArraySpec> inputs() const override { return {input_}; }
  std::optional<ArraySpec> target() const override { return target_; }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;
  void standardize_by(std::span<const Moments> moments) override;

 private:
  std::unique_ptr<PictureReader> reader_;
  PixelTables tables_;
  int classes_;
  ArraySpec input_, target_;
};

PictureSet::PictureSet(std::unique_ptr<PictureReader> reader, const Normalization& normalization,
                       int classes)
    : reader_(std::move(reader)),
      tables_(normalization),
      classes_(classes),
      input_(image_spec(reader_->framing().shape())),
      target_(class_spec(classes)) {}

void PictureSet::standardize_by(std::span<const Moments> moments) {
  EQT_CHECK(moments.size() == static_cast<std::size_t>(reader_->framing().channels),
            "{} moments for {} channels", moments.size(), reader_->framing().channels);
  tables_ = PixelTables(normalization_of(moments));
}

int PictureSet::label(std::size_t sample) const {
  EQT_CHECK(sample < size(), "sample {} of {}", sample, size());
  return reader_->list().label(sample);
}

void PictureSet::read(std::span<const std::size_t> indices,
                      const std::optional<AugmentKey>& augment, Batch& out) const {
  const std::size_t values = reader_->framing().values();
  out.inputs.resize(1);
  const std::span<float> images = out.inputs[0].prepare<float>(input_, indices.size());
  const std::span<std::int64_t> labels = out.targets.prepare<std::int64_t>(target_, indices.size());
  thread_local std::vector<std::uint8_t> bytes;
  bytes.resize(values);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    labels[i] = label(indices[i]);
    reader_->read(indices[i], augment, bytes);
    tables_.write(bytes, images.data() + i * values);
  }
}

DatasetPair open_pictures(ListFunction list, const DatasetOptions& options) {
  PictureLists lists = list_pictures(list, options);
  const PictureFraming framing = framing_of(options.pictures);
  const auto stores =
      std::make_shared<PictureStores>(options.pictures.memory_bytes, options.pictures.skip_limit);
  const auto reader = [&](PictureList& pictures, std::size_t limit, const char* key) {
    require_limit(limit, pictures.size(), key);
    if (limit > 0) pictures.keep_first(limit);
    return std::make_unique<PictureReader>(std::move(pictures), framing, stores);
  };
  std::unique_ptr<PictureReader> train, test;
  if (options.needs_train) train = reader(lists.train, options.limit_train, "data.limit_train");
  if (options.needs_test) test = reader(lists.test, options.limit_test, "data.limit_test");
  Normalization normalization{options.pictures.mean, options.pictures.deviation};
  std::vector<Moments> moments;
  if (normalization.mean.empty()) {
    moments = measure_moments(train != nullptr ? *train : *test);
    normalization = normalization_of(moments);
  }
  if (!options.is_part) moments.clear();
  const auto classes = static_cast<int>(lists.class_names.size());
  const auto set_of = [&](std::unique_ptr<PictureReader> pictures) {
    return pictures == nullptr
               ? nullptr
               : std::make_unique<PictureSet>(std::move(pictures), normalization, classes);
  };
  return {.train = set_of(std::move(train)),
          .test = set_of(std::move(test)),
          .normalization = normalization,
          .class_names = std::move(lists.class_names),
          .framing = framing,
          .moments = std::move(moments),
          .skipped = [stores] { return std::uint64_t{stores->broken.count()}; },
          .notes = std::move(lists.notes)};
}

constexpr std::string_view kPictureKeys[] = {"image_size",    "channels",  "crop",
                                             "mean",          "deviation", "memory_budget_mib",
                                             "test_fraction", "skip_limit"};

}  // namespace

const DatasetRow sets::folder = {
    .name = "folder",
    .about =
        "pictures of your own: data.path has train/CLASS/*.jpg, .png or .webp, and test/ or val/",
    .title = "own pictures",
    .needs_files = true,
    .is_own = true,
    .keys = kPictureKeys,
    .look = [](const DatasetOptions& options) { return look_at_pictures(list_folder, options); },
    .open = [](const DatasetOptions& options) { return open_pictures(list_folder, options); },
    .files = some_files_of_folder};

const DatasetRow sets::shards = {
    .name = "shards",
    .about = "pictures of your own in archives train-*.tar and test-*.tar, WebDataset's layout",
    .title = "own pictures in archives",
    .needs_files = true,
    .is_own = true,
    .keys = kPictureKeys,
    .look = [](const DatasetOptions& options) { return look_at_pictures(list_shards, options); },
    .open = [](const DatasetOptions& options) { return open_pictures(list_shards, options); },
    .files = [](const DatasetOptions& options) { return files_of_shards(source_of(options)); }};

}  // namespace eqt::data
