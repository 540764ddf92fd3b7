// SPDX-License-Identifier: Apache-2.0
#include "core/catalogue.hpp"

#include <array>
#include <type_traits>

#include "support/catch.hpp"

using namespace eqt;

namespace zoo {

struct Animal {
  std::string_view name, about;
  int legs = 0;

  static const Catalogue<Animal>& all();
};

constexpr Animal kSpider{"spider", "weaves", 8};
constexpr Animal kHeron{"heron", "waits", 2};

const Catalogue<Animal>& Animal::all() {
  static const Catalogue<Animal> rows = {kSpider, kHeron};
  return rows;
}

enum class Size { small, large };

constexpr std::array kSizes = {Named<Size>{Size::small, "small", "fits into a hand"},
                               Named<Size>{Size::large, "large", "does not"}};
std::span<const Named<Size>> names_of(Size) { return kSizes; }

enum class Unnamed { value };

}  // namespace zoo

using zoo::Animal;

TEST_CASE("a catalogue finds rows by name, in the order that they were listed in") {
  static_assert(CataloguedRow<Animal>);
  CHECK(Animal::all().find("heron") == &zoo::kHeron);
  CHECK(Animal::all().find("Heron") == nullptr);
  CHECK(Animal::all().at("spider")->legs == 8);
  CHECK_THROWS_AS(Animal::all().at("fish"), Error);
  CHECK(Animal::all().names() == "spider, heron");
  int legs = 0;
  for (const Entry<Animal> animal : Animal::all()) legs = 10 * legs + animal->legs;
  CHECK(legs == 82);
}

TEST_CASE("a catalogue takes rows at run time, but no name twice") {
  Catalogue<Animal> rows = {zoo::kSpider};
  CHECK_THROWS_AS(rows.add(zoo::kSpider), Error);
  rows.add(zoo::kHeron);
  REQUIRE(rows.size() == 2);
  CHECK(rows.at("heron")->legs == 2);
  CHECK_THROWS_AS((Catalogue<Animal>{zoo::kHeron, zoo::kHeron}), Error);
}

TEST_CASE("entries are equal if they are the same row, and cannot be made from a temporary") {
  const Animal twin = zoo::kHeron;
  const Entry<Animal> heron = zoo::kHeron;
  CHECK(heron == Animal::all().at("heron"));
  CHECK_FALSE(heron == Entry<Animal>(twin));
  static_assert(!std::is_constructible_v<Entry<Animal>, Animal>);
  static_assert(!std::is_default_constructible_v<Entry<Animal>>);
}

TEST_CASE("an enum's values have names") {
  static_assert(NamedEnum<zoo::Size> && !NamedEnum<zoo::Unnamed> && !NamedEnum<int>);
  CHECK(name_of(zoo::Size::large) == "large");
  CHECK(row_of(zoo::Size::small).about == "fits into a hand");
  REQUIRE(find_named<zoo::Size>("small") != nullptr);
  CHECK(find_named<zoo::Size>("small")->value == zoo::Size::small);
  CHECK(find_named<zoo::Size>("tiny") == nullptr);
  CHECK_THROWS_AS(name_of(static_cast<zoo::Size>(7)), Error);
}
