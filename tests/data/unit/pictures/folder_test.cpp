// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "data/pictures/picture_list.hpp"
#include "support/catch.hpp"
#include "support/picture_files.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::data;
using namespace eqt::test;
namespace fs = std::filesystem;

namespace {

/// A folder with these files, each of which holds its own name.
class Folder : public TemporaryFolder {
 public:
  explicit Folder(const std::vector<std::string>& files = {}) {
    for (const std::string& file : files) add(file);
  }
  void add(const std::string& file) const {
    write_file(path() + "/" + file,
               {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
  }
  PictureSource source() const { return {.path = path()}; }
  std::string refusal() const {
    return eqt::test::refusal(Kind::data, [&] { list_folder(source()); });
  }
};

/// The names below the folder, in order, with their labels.
std::vector<std::pair<std::string, int>> entries(const PictureList& list) {
  std::vector<std::pair<std::string, int>> found;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::vector<std::uint8_t> content;
    list.read(i, content);
    found.emplace_back(std::string(content.begin(), content.end()), list.label(i));
  }
  return found;
}

using Entries = std::vector<std::pair<std::string, int>>;

}  // namespace

TEST_CASE("a folder of classes with its own test pictures", "[folder]") {
  const Folder folder({"train/dog/2.PNG", "train/dog/10.jpg", "train/cat/b.jpeg",
                       "train/cat/a.webp", "train/cat/inner/z.jpg", "train/cat/notes.txt",
                       "train/cat/.hidden.jpg", "train/.git/x.jpg", "test/dog/t.jpg", "README.md"});
  const PictureLists lists = list_folder(folder.source());
  REQUIRE(lists.class_names == std::vector<std::string>{"cat", "dog"});
  // Classes take turns; names are sorted as bytes.
  REQUIRE(entries(lists.train) == Entries{{"train/cat/a.webp", 0},
                                          {"train/dog/10.jpg", 1},
                                          {"train/cat/b.jpeg", 0},
                                          {"train/dog/2.PNG", 1},
                                          {"train/cat/inner/z.jpg", 0}});
  REQUIRE(entries(lists.test) == Entries{{"test/dog/t.jpg", 1}});
  // Files that are no pictures, hidden pictures, and what lies beside train/ and test/.
  REQUIRE(lists.notes.size() == 1);
  says(lists.notes[0], ": 3 files are left out, the first is README.md");
  REQUIRE(lists.train.name(1) == fs::canonical(folder.path()).string() + "/train/dog/10.jpg");
}

TEST_CASE("val/ is a test set, too, of classes of the training pictures", "[folder]") {
  const Folder folder({"train/b/1.jpg", "train/c/1.jpg", "val/b/1.jpg"});
  REQUIRE(entries(list_folder(folder.source()).test) == Entries{{"val/b/1.jpg", 0}});
  const Folder strange({"train/a/1.jpg", "train/b/1.jpg", "val/c/1.jpg"});
  says(refusal(Kind::data, [&] { list_folder(strange.source()); }), "\"c\"; one of a, b");
}

TEST_CASE("so are valid/ and validation/, behind test/ and val/", "[folder]") {
  const Folder folder({"train/b/1.jpg", "train/c/1.jpg", "validation/c/1.jpg"});
  REQUIRE(entries(list_folder(folder.source()).test) == Entries{{"validation/c/1.jpg", 1}});
  folder.add("valid/b/1.jpg");
  const PictureLists lists = list_folder(folder.source());
  REQUIRE(entries(lists.test) == Entries{{"valid/b/1.jpg", 0}});
  REQUIRE(lists.notes.size() == 3);
  REQUIRE(lists.notes[0] == "valid/ is the test set");
  REQUIRE(lists.notes[1] == "validation/ is left out, since valid/ is the test set");
  // Such parts would be classes without a folder train/.
  says(Folder({"Training/a/1.jpg", "Testing/a/1.jpg"}).refusal(), "found Training/ and Testing/");
}

TEST_CASE("names of classes that read alike are refused with their characters", "[folder]") {
  says(Folder({"train/caf\u00E9/1.jpg", "train/cafe\u0301/1.jpg"}).refusal(), "U+0065 U+0301");
  says(Folder({"train/\u00C4/1.jpg", "train/\u00E4/1.jpg"}).refusal(), "U+00C4");
  const Folder strange({"train/caf\u00E9/1.jpg", "train/b/1.jpg", "test/cafe\u0301/1.jpg"});
  says(strange.refusal(), "U+0065 U+0301");
}

TEST_CASE("a rank with a part of the pictures may have one class, and others in its test set",
          "[folder]") {
  const Folder folder({"train/b/1.jpg", "test/a/1.jpg"});
  PictureSource source = folder.source();
  says(refusal(Kind::data, [&] { list_folder(source); }), "at least 2 classes, found only \"b\"");
  source.is_part = true;
  const PictureLists lists = list_folder(source);
  REQUIRE(lists.class_names == std::vector<std::string>{"a", "b"});
  REQUIRE(entries(lists.train) == Entries{{"train/b/1.jpg", 1}});
  REQUIRE(entries(lists.test) == Entries{{"test/a/1.jpg", 0}});
  source.needs_test = false;
  const PictureLists alone = list_folder(source);
  REQUIRE(alone.class_names == std::vector<std::string>{"b"});
  REQUIRE(alone.train.size() == 1);
  REQUIRE(alone.test.size() == 0);
}

TEST_CASE("an empty folder test/ is refused, unless it is not needed", "[folder]") {
  const Folder folder({"train/a/1.jpg", "train/b/1.jpg"});
  fs::create_directory(fs::path(folder.path()) / "test");
  PictureSource source = folder.source();
  says(refusal(Kind::data, [&] { list_folder(source); }), "test: expected a folder for each class");
  source.needs_test = false;
  REQUIRE(list_folder(source).train.size() == 2);
}

TEST_CASE("a network is tested without the pictures that it learnt from", "[folder]") {
  const Folder folder({"test/a/1.jpg", "test/b/1.jpg"});
  PictureSource source = folder.source();
  says(refusal(Kind::data, [&] { list_folder(source); }), "expected a folder train/");
  source.needs_train = false;
  const PictureLists lists = list_folder(source);
  REQUIRE(lists.train.size() == 0);
  REQUIRE(lists.test.size() == 2);
  REQUIRE(lists.class_names == std::vector<std::string>{"a", "b"});
}

TEST_CASE("names of pictures are printable", "[folder]") {
  const Folder folder({"train/a/\x1b[31mred\n.jpg", "train/b/\xff.jpg", "test/a/1.jpg"});
  const PictureLists lists = list_folder(folder.source());
  const std::string root = fs::canonical(folder.path()).string();
  REQUIRE(lists.train.name(0) == root + "/train/a/?[31mred?.jpg");
  REQUIRE(lists.train.name(1) == root + "/train/b/?.jpg");
}

TEST_CASE("without test pictures a part of each class is taken", "[folder]") {
  std::vector<std::string> files;
  for (int i = 0; i < 40; ++i) files.push_back("x/" + std::to_string(i) + ".jpg");
  for (int i = 0; i < 11; ++i) files.push_back("y/" + std::to_string(i) + ".jpg");
  for (int i = 0; i < 2; ++i) files.push_back("z/" + std::to_string(i) + ".jpg");
  const Folder folder(files);
  PictureSource source = folder.source();
  source.test_fraction = 0.25;
  const auto names = [](const PictureList& list) {
    std::set<std::string> found;
    for (std::size_t i = 0; i < list.size(); ++i) found.insert(list.name(i));
    return found;
  };
  const auto count = [](const PictureList& list, int label) {
    int found = 0;
    for (std::size_t i = 0; i < list.size(); ++i) found += list.label(i) == label ? 1 : 0;
    return found;
  };
  const PictureLists lists = list_folder(source);
  REQUIRE(count(lists.test, 0) == 10);
  REQUIRE(count(lists.test, 1) == 3);  // 2.75
  REQUIRE(count(lists.test, 2) == 1);  // at least one on each side
  REQUIRE(lists.train.size() + lists.test.size() == files.size());
  auto all = names(lists.train);
  all.merge(names(lists.test));
  REQUIRE(all.size() == files.size());

  REQUIRE(names(list_folder(source).test) == names(lists.test));
  source.seed = 2;
  REQUIRE(names(list_folder(source).test) != names(lists.test));
  // The choice of a class does not depend on the others.
  source.seed = 1;
  folder.add("a/1.jpg");
  folder.add("a/2.jpg");
  const auto after = names(list_folder(source).test);
  for (const std::string& name : names(lists.test)) REQUIRE(after.contains(name));
}

TEST_CASE("folders that cannot be trained on are refused in a sentence", "[folder]") {
  says(Folder().refusal(), "expected a folder for each class, found none");
  says(Folder({"train/one/1.jpg"}).refusal(), "only \"one\"");
  says(Folder({"train/cat/1.jpg", "train/Cat/1.jpg"}).refusal(), "\"Cat\" and \"cat\"");
  says(Folder({"train/a/1.jpg", "train/b/notes.txt"}).refusal(), "train/b: expected pictures");
  says(Folder({"train/a/1.jpg", "train/b/1.jpg", "test/c/1.jpg"}).refusal(), "\"c\"; one of a, b");
  says(Folder({"val/a/1.jpg", "val/b/1.jpg"}).refusal(), "train/ beside val/");
  says(Folder({"a/1.jpg", "b/1.jpg"}).refusal(), "at least 2 pictures of the class");
  says(refusal(Kind::data, [] { list_folder({.path = "/nonexistent/pictures"}); }),
       "found nothing");
  says(refusal(Kind::data, [] { list_folder({}); }), "data.path");
  const Folder plain({"train"});
  says(refusal(Kind::data, [&] { list_folder({.path = plain.path() + "/train"}); }),
       "something else");
  says(Folder({"train/a/1.jpg", "train/b\x01/1.jpg"}).refusal(), "control characters");
  says(Folder({"train/a/1.jpg", "train/b\xff/1.jpg"}).refusal(), "UTF-8");
}

TEST_CASE("links may not leave the folder", "[folder]") {
  const Folder outside({"secret.jpg", "more/1.jpg"});
  const Folder folder({"train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg", "kept/2.jpg"});
  fs::create_symlink("../../kept/2.jpg", folder.path() + "/train/a/2.jpg");
  REQUIRE(list_folder(folder.source()).train.size() == 3);
  const std::string picture = folder.path() + "/train/a/3.jpg", inner = folder.path() + "/train/c";
  fs::create_symlink(outside.path() + "/secret.jpg", picture);
  says(folder.refusal(), "train/a/3.jpg: expected links to stay below");
  fs::remove(picture);
  fs::create_directory_symlink(outside.path() + "/more", inner);
  says(folder.refusal(), "train/c: expected links to stay below");
  fs::remove(inner);
  fs::create_symlink("nothing.jpg", picture);
  says(folder.refusal(), "3.jpg cannot be read");
  fs::remove(picture);
  fs::create_directory_symlink(".", folder.path() + "/train/a/again");
  says(folder.refusal(), "circle");

  for (const std::string part : {"train", "test"}) {
    const Folder linked({"train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg"});
    fs::remove_all(linked.path() + "/" + part);
    fs::create_directory_symlink(folder.path() + "/test", linked.path() + "/" + part);
    says(linked.refusal(), "/" + part + ": expected links to stay below");
  }
}

TEST_CASE("what is under a picture's name is checked when it is read", "[folder]") {
  const Folder folder({"train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg"});
  const PictureLists lists = list_folder(folder.source());
  std::vector<std::uint8_t> content;
  const std::string file = folder.path() + "/train/a/1.jpg";
  fs::remove(file);
  says(refusal(Kind::data, [&] { lists.train.read(0, content); }),
       "cannot be opened: No such file");
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  says(refusal(Kind::data, [&] { lists.train.read(0, content); }), "not a regular file");
  fs::remove(file);
  write_file(file, {});
  fs::resize_file(file, kMaxPictureBytes + 1);  // sparse
  says(refusal(Kind::data, [&] { lists.train.read(0, content); }), "at most");
  if (geteuid() == 0) return;  // who may read everything
  fs::permissions(file, fs::perms::none);
  says(refusal(Kind::data, [&] { lists.train.read(0, content); }), "Permission denied");
}

TEST_CASE("a list can be shortened", "[folder]") {
  const Folder folder({"train/a/1.jpg", "train/a/2.jpg", "train/b/1.jpg", "test/a/1.jpg"});
  PictureList list = list_folder(folder.source()).train;
  list.keep_first(2);
  REQUIRE(entries(list) == Entries{{"train/a/1.jpg", 0}, {"train/b/1.jpg", 1}});
  list.add("train/a/2.jpg", 0);
  REQUIRE(entries(list).back() == std::pair<std::string, int>{"train/a/2.jpg", 0});
}
