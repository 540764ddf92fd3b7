// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/picture_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "data/image_set.hpp"
#include "support/catch.hpp"
#include "support/picture_files.hpp"
#include "support/pictures.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::test;

namespace {

/// Ten pictures of two classes, in turns; some of them broken.
class Pictures : public TemporaryFolder {
 public:
  explicit Pictures(int width, int height, std::vector<int> broken = {}, bool jpeg = true) {
    for (int i = 0; i < 10; ++i) {
      const TestPicture scene = make_scene(width, height, 3, static_cast<unsigned>(i));
      Bytes file = jpeg ? jpeg_of(scene) : png_of(scene);
      if (std::ranges::count(broken, i) > 0) file.resize(file.size() / 2);
      list.add(std::to_string(i) + ".jpg", i % 2);
      write_file(path() + "/" + std::to_string(i) + ".jpg", file);
    }
  }
  PictureReader reader(const PictureFraming& framing, std::uint64_t cache = 0,
                       std::size_t skip_limit = 10) const {
    return {list, framing, std::make_shared<PictureStores>(cache, skip_limit)};
  }
  PictureList list{path()};
};

Bytes read(const PictureReader& reader, std::size_t picture,
           const std::optional<AugmentKey>& augment = std::nullopt) {
  Bytes out(reader.framing().values());
  reader.read(picture, augment, out);
  return out;
}

}  // namespace

TEST_CASE("what is remembered does not change what is read", "[pictures]") {
  for (const auto& [width, height] : {std::pair{90, 60}, {200, 150}}) {
    const Pictures pictures(width, height);
    for (const CropKind crop : {CropKind::resized, CropKind::padded}) {
      const PictureFraming framing = framing_of(3, 64, crop);
      const auto nothing = pictures.reader(framing), all = pictures.reader(framing, 1 << 30),
                 some = pictures.reader(framing, 40000);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        for (std::size_t i = 0; i < 10; ++i) {
          const AugmentKey key{5, epoch};
          REQUIRE(read(all, i) == read(nothing, i));
          REQUIRE(read(all, i, key) == read(nothing, i, key));
          REQUIRE(read(some, i, key) == read(nothing, i, key));
          REQUIRE(read(some, i) == read(nothing, i));
        }
      }
    }
  }
}

TEST_CASE("pictures that are remembered are not opened again", "[pictures]") {
  const Pictures pictures(90, 60);
  for (const CropKind crop : {CropKind::resized, CropKind::padded}) {
    const auto reader = pictures.reader(framing_of(3, 64, crop), 1 << 20);
    const Bytes first = read(reader, 3, AugmentKey{1, 1});
    const auto file = pictures.path() + "/3.jpg", away = pictures.path() + "/away";
    std::filesystem::rename(file, away);
    REQUIRE(read(reader, 3, AugmentKey{1, 1}) == first);
    std::filesystem::rename(away, file);
  }
}

TEST_CASE("a padded crop is that of the sets in memory", "[pictures]") {
  const Pictures pictures(32, 32, {}, false);
  const auto reader = pictures.reader(framing_of(3, 32, CropKind::automatic));
  const Normalization normalization{{0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}};
  LabelledBytes bytes{.pixels = {}, .labels = {}, .shape = {3, 32, 32}, .classes = 2};
  for (unsigned i = 0; i < 10; ++i) {
    const TestPicture scene = make_scene(32, 32, 3, i);
    bytes.pixels.insert(bytes.pixels.end(), scene.pixels.begin(), scene.pixels.end());
    bytes.labels.push_back(static_cast<std::uint8_t>(i % 2));
  }
  const ImageSet in_memory(std::move(bytes), normalization);
  const PixelTables tables(normalization);
  std::vector<float> image(32 * 32 * 3);
  for (const std::optional<AugmentKey>& key :
       {std::optional<AugmentKey>(), std::optional<AugmentKey>({9, 4})}) {
    Batch batch;
    std::vector<std::size_t> all(10);
    for (std::size_t i = 0; i < 10; ++i) all[i] = i;
    in_memory.read(all, key, batch);
    for (std::size_t i = 0; i < 10; ++i) {
      tables.write(read(reader, i, key), image.data());
      REQUIRE(std::equal(image.begin(), image.end(),
                         images_in(batch).begin() + static_cast<std::ptrdiff_t>(i * image.size())));
    }
  }
}

TEST_CASE("a broken picture is replaced by the next of its class", "[pictures]") {
  const Pictures pictures(90, 60, {2, 4, 9});
  const PictureFraming framing = framing_of(3, 64, CropKind::resized);
  const auto reader = pictures.reader(framing);
  REQUIRE(read(reader, 2) == read(reader, 6));
  REQUIRE(read(reader, 9) == read(reader, 1));  // from the beginning again
  // The crop stays that of the sample.
  const AugmentKey key{1, 2};
  REQUIRE(read(reader, 2, key) == read(pictures.reader(framing), 2, key));
  REQUIRE(read(reader, 2, key) != read(reader, 6, key));
}

TEST_CASE("whether a picture is broken does not depend on its crop", "[pictures]") {
  const TestPicture scene = make_scene(96, 192);
  for (Bytes file : {jpeg_of(scene), jpeg_of(scene, {.progressive = true}),
                     jpeg_of(scene, {.orientation = 6}), png_of(scene), webp_of(scene)}) {
    Pictures pictures(96, 192);
    write_file(pictures.path() + "/4.jpg", file);
    const PictureFraming framing = framing_of(3, 48, CropKind::resized);
    for (const bool cut : {false, true}) {
      if (cut) file.resize(file.size() * 24 / 25);
      write_file(pictures.path() + "/4.jpg", file);
      for (std::uint64_t epoch = 0; epoch < 12; ++epoch) {
        // At its first reading, with memory and without.
        const auto stores = std::make_shared<PictureStores>(epoch % 2 == 0 ? 0 : 1 << 20, 10);
        const PictureReader reader(pictures.list, framing, stores);
        read(reader, 4, AugmentKey{3, epoch});
        REQUIRE(stores->broken.count() == (cut ? 1 : 0));
      }
    }
  }
}

TEST_CASE("more broken pictures than allowed end the run", "[pictures]") {
  const Pictures pictures(90, 60, {2, 4, 9});
  const PictureFraming framing = framing_of(3, 64, CropKind::resized);
  const auto reader = pictures.reader(framing, 0, 2);
  read(reader, 2);
  read(reader, 4);  // counted once
  read(reader, 2);
  const std::string sentence = refusal(Kind::data, [&] { read(reader, 9); });
  says(sentence, "/9.jpg");
  says(sentence, "data.skip_limit");
  says(refusal(Kind::data, [&] { read(pictures.reader(framing, 0, 0), 4); }), "/4.jpg");

  const Pictures half(90, 60, {1, 3, 5, 7, 9});
  says(refusal(Kind::data, [&] { read(half.reader(framing), 3); }), "found none");
  REQUIRE(read(half.reader(framing), 2).size() == framing.values());
}

TEST_CASE("threads may read the same pictures", "[pictures]") {
  const Pictures pictures(120, 90, {5});
  const PictureFraming framing = framing_of(3, 64, CropKind::resized);
  const auto alone = pictures.reader(framing), shared = pictures.reader(framing, 100000);
  std::vector<Bytes> expected;
  for (std::size_t i = 0; i < 10; ++i) expected.push_back(read(alone, i, AugmentKey{1, 1}));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 30; ++i)
        wrong[t] += read(shared, (i + t) % 10, AugmentKey{1, 1}) != expected[(i + t) % 10] ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(wrong == std::vector<int>(4, 0));
}

TEST_CASE("mean and deviation are measured on test pictures", "[pictures]") {
  const TemporaryFolder folder;
  PictureList list(folder.path());
  // Two pictures of one colour each: mean in the middle, deviation half the distance.
  for (const int i : {0, 1}) {
    const std::string name = std::to_string(i) + ".png";
    write_file(folder.path() + "/" + name, png_of(make_picture(40, 30, 3, [&](int, int, int c) {
                 return 51 * c + 102 * i * (c == 1 ? 1 : 0);
               })));
    list.add(name, i);
  }
  const PictureReader reader(list, framing_of(3, 16, CropKind::automatic),
                             std::make_shared<PictureStores>(0, 0));
  const std::vector<Moments> moments = measure_moments(reader);
  REQUIRE(moments[1].count == 2 * 16 * 16);
  const Normalization found = normalization_of(moments);
  REQUIRE(found.mean[0] == Approx(0).margin(1e-12));
  REQUIRE(found.mean[1] == Approx(0.4));
  REQUIRE(found.mean[2] == Approx(0.4));
  REQUIRE(found.deviation[0] == Approx(1 / 255.0));  // never 0
  REQUIRE(found.deviation[1] == Approx(0.2));
}
