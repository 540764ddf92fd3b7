// SPDX-License-Identifier: Apache-2.0
// The reading of pictures on its own, for tests and measurements that compare it with Pillow.
//
//   picture_tool decode FILE CHANNELS            width, height and the pixels' bytes
//   picture_tool test FILE CHANNELS SIZE         the bytes of the test sample (h, w, c)
//   picture_tool crops FOLDER SIZE               NAME LEFT TOP WIDTH HEIGHT MIRRORED of epoch 0
//   picture_tool train FOLDER SIZE PICTURE       the bytes of that sample in epoch 0
//   picture_tool time FOLDER SIZE ROUNDS [MIB]   seconds of each round over the training pictures:
//                                                "train" decoded, cropped, normalised, "test"
//                                                likewise;
//                                                then the program's largest memory so far [MiB]
//
// FOLDER is laid out as for data.name "folder". One thread; MIB: memory for decoded pictures [0].

#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture.hpp"
#include "data/pictures/picture_list.hpp"
#include "data/pictures/picture_reader.hpp"

namespace {

using namespace eqt;
using namespace eqt::data;

using Bytes = std::vector<std::uint8_t>;

Bytes read_file(const std::string& path) {
  Bytes bytes;
  read_whole_file(path, bytes);
  return bytes;
}

void write(const Bytes& bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stdout); }

void decode(const std::string& path, int channels) {
  const Bytes file = read_file(path);
  const auto picture = open_picture(file);
  PicturePart part;
  picture->decode({0, 0, picture->width(), picture->height()}, 1 << 30, channels, part);
  fmt::print("{} {}\n", part.width, part.height);
  write(part.pixels);
}

void show_test(const std::string& path, int channels, int size) {
  PictureList list;
  list.add(path, 0);
  const PictureReader reader(list, framing_of(channels, size, CropKind::automatic),
                             std::make_shared<PictureStores>(0, 0));
  Bytes out(reader.framing().values());
  reader.read(0, std::nullopt, out);
  write(out);
}

PictureReader open_folder(const std::string& path, int size, int mib = 0) {
  return {list_folder({.path = path}).train, framing_of(3, size, CropKind::resized),
          std::make_shared<PictureStores>(static_cast<std::uint64_t>(mib) * kMib, 0)};
}

constexpr AugmentKey kKey{1, 0};

void show_crops(const std::string& path, int size) {
  const PictureReader reader = open_folder(path, size);
  for (std::size_t i = 0; i < reader.list().size(); ++i) {
    const Bytes file = read_file(reader.list().name(i));
    const auto picture = open_picture(file);
    const DrawnCrop crop = draw_resized_crop(kKey, i, picture->width(), picture->height());
    fmt::print("{} {} {} {} {} {}\n", reader.list().name(i), crop.area.left, crop.area.top,
               crop.area.width, crop.area.height, crop.mirrored ? 1 : 0);
  }
}

void show_train(const std::string& path, int size, std::size_t picture) {
  const PictureReader reader = open_folder(path, size);
  Bytes out(reader.framing().values());
  reader.read(picture, kKey, out);
  write(out);
}

void time_reading(const std::string& path, int size, int rounds, int mib) {
  const PictureReader reader = open_folder(path, size, mib);
  const PixelTables tables({{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  Bytes bytes(reader.framing().values());
  std::vector<float> image(bytes.size());
  for (int round = 0; round < rounds; ++round) {
    for (const bool augment : {true, false}) {
      const Stopwatch watch;
      for (std::size_t i = 0; i < reader.list().size(); ++i) {
        reader.read(i, augment ? std::optional(kKey) : std::nullopt, bytes);
        tables.write(bytes, image.data());
      }
      fmt::print("{} {:.6f} {}\n", augment ? "train" : "test", watch.seconds(),
                 reader.list().size());
    }
  }
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  fmt::print("memory {} {}\n", used.ru_maxrss / 1024, reader.list().size());
}

int run(const std::vector<std::string>& words) {
  const std::string verb = words.size() > 2 ? words[1] : "";
  const auto number = [&](std::size_t i) { return std::atoi(words.at(i).c_str()); };
  if (verb == "decode" && words.size() == 4) {
    decode(words[2], number(3));
  } else if (verb == "test" && words.size() == 5) {
    show_test(words[2], number(3), number(4));
  } else if (verb == "crops" && words.size() == 4) {
    show_crops(words[2], number(3));
  } else if (verb == "train" && words.size() == 5) {
    show_train(words[2], number(3), static_cast<std::size_t>(number(4)));
  } else if (verb == "time" && (words.size() == 5 || words.size() == 6)) {
    time_reading(words[2], number(3), number(4), words.size() == 6 ? number(5) : 0);
  } else {
    fail(Kind::usage, "picture_tool: expected one of the commands at the top of its source");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run({argv, argv + argc});
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
