// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "data/pictures/picture_list.hpp"
#include "support/catch.hpp"
#include "support/picture_files.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::test;

namespace {

/// Samples "000", "001", ... with the classes of `labels`; the picture's content is its key.
TarBytes archive_of(const std::vector<int>& labels, const std::string& prefix = "",
                    const std::string& ending = ".jpg") {
  TarBytes tar;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string key = prefix + "00" + std::to_string(i);
    // The order inside a sample is free.
    if (i % 2 == 0) tar.add(key + ".cls", std::to_string(labels[i]) + "\n");
    tar.add(key + ending, "picture " + key);
    tar.add(key + ".json", "{}");
    if (i % 2 == 1) tar.add(key + ".cls", std::to_string(labels[i]));
  }
  return tar;
}

std::string content(const PictureList& list, std::size_t i) {
  std::vector<std::uint8_t> bytes;
  list.read(i, bytes);
  return {bytes.begin(), bytes.end()};
}

std::string refusal_of(const Bytes& archive) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/train-0.tar", archive);
  write_file(folder.path() + "/test-0.tar", archive_of({0, 1}).bytes());
  return refusal(Kind::data, [&] { list_shards({.path = folder.path()}); });
}

}  // namespace

TEST_CASE("samples of archives, in their order", "[shards]") {
  const TemporaryFolder folder;
  write_file(folder.path() + "/train-01.tar", archive_of({2, 0}, "b/").bytes());
  write_file(folder.path() + "/train-00.tar", archive_of({1, 0, 2}, "./a.d/", ".seg.PNG").bytes());
  write_file(folder.path() + "/test-0.tar", archive_of({1}).bytes());
  write_file(folder.path() + "/other.tar", Bytes(10, 7));
  const PictureLists lists = list_shards({.path = folder.path()});
  REQUIRE(lists.class_names == std::vector<std::string>{"0", "1", "2"});
  REQUIRE(lists.train.size() == 5);
  const std::vector<std::pair<std::string, int>> expected = {{"picture ./a.d/000", 1},
                                                             {"picture ./a.d/001", 0},
                                                             {"picture ./a.d/002", 2},
                                                             {"picture b/000", 2},
                                                             {"picture b/001", 0}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(content(lists.train, i) == expected[i].first);
    REQUIRE(lists.train.label(i) == expected[i].second);
  }
  REQUIRE(content(lists.test, 0) == "picture 000");
  says(lists.train.name(3), "/train-01.tar: b/000.jpg");
}

TEST_CASE("classes may have names, and a part may become the test set", "[shards]") {
  const TemporaryFolder folder;
  write_file(folder.path() + "/train-0.tar", archive_of({0, 1, 0, 1, 0, 1, 0, 1}).bytes());
  const std::string names = "cat\r\ndog\n\nbird";
  write_file(folder.path() + "/classes.txt",
             {reinterpret_cast<const std::uint8_t*>(names.data()), names.size()});
  const PictureLists lists = list_shards({.path = folder.path(), .test_fraction = 0.25});
  REQUIRE(lists.class_names == std::vector<std::string>{"cat", "dog", "bird"});
  REQUIRE(lists.test.size() == 2);
  REQUIRE(lists.train.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) says(content(lists.train, i), "picture 00");
}

TEST_CASE("archives that are not as they should be are refused", "[shards]") {
  const auto with = [](const std::string& name, char type = '0', const std::string& link = "") {
    TarBytes tar = archive_of({0, 1});
    tar.add(name, {}, type, link);
    return tar.bytes();
  };
  says(refusal_of(with("/etc/passwd.jpg")), "stay inside the archive, found /etc/passwd.jpg");
  says(refusal_of(with("../up.jpg")), "stay inside");
  says(refusal_of(with("a/../../up.jpg")), "stay inside");
  says(refusal_of(with("a/..")), "stay inside");
  says(refusal_of(with("link.jpg", '2', "/etc/passwd")), "link.jpg, which is not one");
  says(refusal_of(with("hard.jpg", '1', "000.jpg")), "hard.jpg, which is not one");
  says(refusal_of(with("pipe.jpg", '6')), "which is not one");
  says(refusal_of(with("new\nline.jpg")), "printable");
  says(refusal_of({}), "found");
  says(refusal_of(Bytes(2000, 'x')), "not packed");
  says(refusal_of(TarBytes().bytes()), "none");
  Bytes cut = archive_of({0, 1}).bytes();
  cut.resize(512 + 512 + 512 + 4);  // inside the first picture
  says(refusal_of(cut), "train-0.tar");
  // Between members: what was not loaded yet would be missing in silence.
  const Bytes whole = archive_of({0, 1}).bytes();
  for (const std::ptrdiff_t missing : {1, 512, 1024, 2048})
    says(refusal_of(Bytes(whole.begin(), whole.end() - missing)), "was cut off");
  Bytes filled = whole;
  filled.resize(20 * 512);  // as tar does
  const TemporaryFolder folder;
  write_file(folder.path() + "/train-0.tar", filled);
  write_file(folder.path() + "/test-0.tar", filled);
  REQUIRE(list_shards({.path = folder.path()}).train.size() == 2);
  Bytes joined = filled;
  joined.insert(joined.end(), whole.begin(), whole.end());
  says(refusal_of(joined), "was another one appended");
  const Bytes gzip = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  says(refusal_of(gzip), "not packed");

  TarBytes alone;
  alone.add("1.jpg", "x");
  says(refusal_of(alone.bytes()), "found no class");
  TarBytes labelled;
  labelled.add("1.cls", "0");
  says(refusal_of(labelled.bytes()), "found no picture");
  for (const std::string label : {"cat", "-1", "", "1 2", "99999999999", "1048576"}) {
    TarBytes odd;
    odd.add("1.jpg", "x");
    odd.add("1.cls", label);
    says(refusal_of(odd.bytes()), "number of a class");
  }
  says(refusal_of(archive_of({0, 1, 1024}).bytes()), "classes below 1024, found 1024 among 5");
  TarBytes twice;
  twice.add("1.jpg", "x");
  twice.add("1.png", "x");
  says(refusal_of(twice.bytes()), "two pictures");
}

TEST_CASE("names of classes that read alike are refused", "[shards]") {
  const TemporaryFolder folder;
  write_file(folder.path() + "/train-0.tar", archive_of({0, 1, 0, 1}).bytes());
  const std::string names = "caf\u00E9\ncafe\u0301\n";
  write_file(folder.path() + "/classes.txt",
             {reinterpret_cast<const std::uint8_t*>(names.data()), names.size()});
  says(refusal(Kind::data, [&] { list_shards({.path = folder.path()}); }), "U+0065 U+0301");
}

TEST_CASE("hidden members and masks are left out", "[shards]") {
  const TemporaryFolder folder;
  TarBytes tar;
  for (const std::string key : {"0", "1"}) {
    tar.add("a/._" + key + ".jpg", "attributes");
    tar.add("a/" + key + ".jpg", "picture " + key);
    tar.add("a/._" + key + ".cls", "attributes");
    tar.add("a/" + key + ".cls", key);
    tar.add("a/" + key + ".seg.png", "mask");
    tar.add(".hidden/" + key + ".jpg", "x");
  }
  write_file(folder.path() + "/train-0.tar", tar.bytes());
  write_file(folder.path() + "/valid-0.tar", archive_of({1}).bytes());
  const PictureLists lists = list_shards({.path = folder.path()});
  REQUIRE(lists.train.size() == 2);
  REQUIRE(content(lists.train, 1) == "picture 1");
  REQUIRE(lists.train.label(1) == 1);
  REQUIRE(lists.test.size() == 1);
  REQUIRE(lists.notes.size() == 2);
  says(lists.notes[0], "valid-*.tar is the test set");
  // Of each key two hidden pictures and a mask, and the test archive's JSON.
  says(lists.notes[1], ": 7 files are left out, the first is train-0.tar: a/._0.jpg");
}

TEST_CASE("a key ends at the first dot", "[shards]") {
  TarBytes tar;
  tar.add("img.v1.0.png", "x");
  tar.add("img.v1.0.cls", "0");
  says(refusal_of(tar.bytes()), "the key img, found no class; a key ends at the first dot");
  says(refusal_of(tar.bytes()), "img.v1.0.png has this key");
  tar.add("img.v1.1.png", "x");
  says(refusal_of(tar.bytes()), "found two pictures; a key ends at the first dot");
}

TEST_CASE("archives may be links inside their folder", "[shards]") {
  const TemporaryFolder folder, outside;
  for (const auto& place : {folder.path(), outside.path()})
    write_file(place + "/kept.tar", archive_of({0, 1, 0, 1}).bytes());
  const std::string link = folder.path() + "/train-0.tar";
  std::filesystem::create_symlink("kept.tar", link);
  REQUIRE(list_shards({.path = folder.path(), .test_fraction = 0.5}).train.size() == 2);
  std::filesystem::remove(link);
  std::filesystem::create_symlink(outside.path() + "/kept.tar", link);
  try {
    list_shards({.path = folder.path()});
    FAIL("a link to elsewhere was followed");
  } catch (const Error& error) {
    says(error.what(), "train-0.tar: expected links to stay below");
  }
}

TEST_CASE("folders without archives are refused", "[shards]") {
  const TemporaryFolder folder;
  says(refusal(Kind::data, [&] { list_shards({.path = folder.path()}); }),
       "train-*.tar, found none");
  says(refusal(Kind::data, [] { list_shards({.path = "/nonexistent"}); }), "cannot be read");
  write_file(folder.path() + "/train-0.tar", archive_of({0, 3}).bytes());
  write_file(folder.path() + "/test-0.tar", archive_of({0}).bytes());
  REQUIRE(list_shards({.path = folder.path()}).class_names.size() == 4);
  REQUIRE(list_shards({.path = folder.path(), .needs_test = false}).test.size() == 0);
  const PictureLists tests =
      list_shards({.path = folder.path(), .is_part = true, .needs_train = false});
  REQUIRE(tests.train.size() == 0);
  REQUIRE(tests.test.size() == 1);
  const auto name_classes = [&](const char* lines) {
    std::ofstream(folder.path() + "/classes.txt") << lines;
  };
  name_classes("\xEF\xBB\xBF a \r\nb\n");
  says(refusal(Kind::data, [&] { list_shards({.path = folder.path()}); }), "class below 2");
  name_classes("\xEF\xBB\xBF a \r\nb\nc\n\nd");
  REQUIRE(list_shards({.path = folder.path()}).class_names ==
          std::vector<std::string>{"a", "b", "c", "d"});
}
