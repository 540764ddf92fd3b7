// SPDX-License-Identifier: Apache-2.0
#include "data/batch.hpp"

#include <array>

#include "data/dataset.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::data;

TEST_CASE("an array has the shape and the type that it was prepared with", "[batch]") {
  Array array;
  CHECK(array.empty());
  CHECK(array.size() == 0);
  const ArraySpec x{.name = "x", .shape = {2, 3}};
  CHECK(array.prepare<float>(x, 5).size() == 30);
  CHECK(array.shape == std::vector<std::int64_t>{5, 2, 3});
  CHECK(array.size() == 5);
  CHECK(array.spec == x);
  CHECK_THROWS_AS(array.get<std::int64_t>(), Error);
  const ArraySpec y{.name = "y", .type = ElementType::uint8};
  CHECK(array.prepare<std::uint8_t>(y, 4).size() == 4);
  CHECK(array.shape == std::vector<std::int64_t>{4});
  CHECK_THROWS_AS(array.get<float>(), Error);
  array.clear();
  CHECK(array.empty());
}

TEST_CASE("memory is used again, also for texts of another length", "[batch]") {
  const ArraySpec tokens{
      .name = "tokens", .type = ElementType::int64, .shape = {-1}, .longest = 100};
  Array array;
  const std::array<std::int64_t, 1> longer = {100}, shorter = {7};
  const std::int64_t* const memory = array.prepare<std::int64_t>(tokens, 8, longer).data();
  CHECK(array.prepare<std::int64_t>(tokens, 3, shorter).data() == memory);
  CHECK(array.shape == std::vector<std::int64_t>{3, 7});
  CHECK(array.get<std::int64_t>().size() == 21);
  array.clear();
  CHECK(array.prepare<std::int64_t>(tokens, 8, longer).data() == memory);
  CHECK_THROWS_AS(array.prepare<std::int64_t>(tokens, 8), Error);  // of which length?
}

TEST_CASE("memory of a sample is that of the longest", "[batch]") {
  CHECK(ArraySpec{.name = "x", .shape = {2, 3}}.bytes() == 24);
  CHECK(ArraySpec{.name = "x"}.bytes() == 4);
  CHECK(ArraySpec{.name = "tokens", .type = ElementType::int64, .shape = {-1}, .longest = 10}
            .bytes() == 80);
  CHECK(ArraySpec{.name = "mask", .type = ElementType::uint8, .shape = {4, -1}, .longest = 10}
            .bytes() == 40);
}

TEST_CASE("a batch has as many samples as its inputs, or else as its targets", "[batch]") {
  Batch batch;
  CHECK(batch.size() == 0);
  (void)batch.targets.prepare<std::int64_t>(class_spec(10), 3);
  CHECK(batch.size() == 3);
  batch.inputs.resize(1);
  (void)batch.inputs[0].prepare<float>(image_spec({1, 4, 5}), 2);
  CHECK(batch.size() == 2);
  CHECK(image_shape(batch) == ImageShape{1, 4, 5});
}

TEST_CASE("pictures are floats of three dimensions by name", "[batch]") {
  const ImageShape shape{3, 20, 30};
  ArraySpec spec = image_spec(shape);
  CHECK(spec.shape == std::vector<std::int64_t>{20, 30, 3});
  CHECK(image_shape(spec) == shape);
  spec.name = "x";
  CHECK_FALSE(image_shape(spec));
  spec = image_spec(shape);
  spec.type = ElementType::uint8;
  CHECK_FALSE(image_shape(spec));
  spec = image_spec(shape);
  spec.shape[0] = -1;
  CHECK_FALSE(image_shape(spec));
  const std::vector<ArraySpec> two = {image_spec(shape), image_spec(shape)};
  CHECK_FALSE(image_shape(two));
}

TEST_CASE("targets fit a task by type and shape", "[batch]") {
  const ArraySpec label = class_spec(10), number{.name = "y"}, flags{.name = "y", .shape = {4}};
  const ArraySpec tokens{.name = "next", .type = ElementType::int64, .shape = {-1}, .bound = 50};
  CHECK(fits(TargetKind::classes, label, 10));
  CHECK_FALSE(fits(TargetKind::classes, label, 0));
  CHECK_FALSE(fits(TargetKind::classes, number, 10));
  CHECK(fits(TargetKind::values, number, 0));
  CHECK(fits(TargetKind::values, flags, 0));
  CHECK_FALSE(fits(TargetKind::values, label, 10));
  CHECK(fits(TargetKind::flags, flags, 0));
  CHECK_FALSE(fits(TargetKind::flags, number, 0));
  CHECK(fits(TargetKind::tokens, tokens, 0));
  CHECK_FALSE(fits(TargetKind::tokens, label, 10));
  CHECK(fits(TargetKind::any, std::nullopt, 0));
  for (const TargetKind kind :
       {TargetKind::classes, TargetKind::flags, TargetKind::values, TargetKind::tokens})
    CHECK_FALSE(fits(kind, std::nullopt, 10));
}
