// SPDX-License-Identifier: Apache-2.0
// Files that we write as torch.save does, by our reader; tests/e2e/weights_interop.py has Python's.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_files.hpp"
#include "support/written_weights.hpp"
#include "weights/state_dict.hpp"

using namespace eqt;
using test::bytes_of;

TEST_CASE("a state dict that is written is read again, whatever types, sizes and strides") {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::vector<std::int64_t> counter = {std::int64_t{1} << 40};
  const std::vector<weights::Tensor> tensors = {
      // (2, 3, 4) stored with the first dimension last.
      {"conv.weight", weights::ElementType::float32, {2, 3, 4}, {1, 2, 6}, 0, bytes_of(values)},
      {"counter", weights::ElementType::int64, {}, {}, 0, bytes_of(counter)},
      {"none", weights::ElementType::float32, {0, 300}, {300, 1}, 0, {}}};
  const std::string file = weights::pack_state_dict(tensors);
  const weights::StateDict dict = test::read_weights(file, "a.pt");
  REQUIRE(dict.tensors().size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(dict.tensors()[i].name == tensors[i].name);
    CHECK(dict.tensors()[i].type == tensors[i].type);
    CHECK(dict.tensors()[i].sizes == tensors[i].sizes);
  }
  std::vector<float> read_back(24), wanted(24);
  weights::copy_row_major(dict.tensors()[0], std::as_writable_bytes(std::span(read_back)));
  for (std::size_t i = 0; i < 24; ++i)
    wanted[i] = static_cast<float>(i / 12 + 2 * (i / 4 % 3) + 6 * (i % 4));
  CHECK(read_back == wanted);
  std::int64_t number = 0;
  weights::copy_row_major(dict.tensors()[1], std::as_writable_bytes(std::span(&number, 1)));
  CHECK(number == counter[0]);
  CHECK(file == weights::pack_state_dict(tensors));  // no date in it
}

TEST_CASE("storages lie at multiples of 64 bytes in the file") {
  const std::vector<float> values = {3.25f, -7.5f, 1e30f};
  const std::string file = weights::pack_state_dict(std::vector<weights::Tensor>{
      {"a", weights::ElementType::float32, {1}, {1}, 0, bytes_of(values)},
      {"b", weights::ElementType::float32, {3}, {1}, 0, bytes_of(values)}});
  const std::string_view wanted(reinterpret_cast<const char*>(values.data()), 12);
  const std::size_t found = file.find(wanted);
  REQUIRE(found != std::string::npos);
  CHECK(found % 64 == 0);
  CHECK(file.find(wanted.substr(0, 4)) % 64 == 0);
}

TEST_CASE("a network whose own names look like a wrapper's is read, wrapped or not") {
  const test::TemporaryFiles folder;
  const std::string path = folder.write("a.pt", "");
  const std::vector<float> ones = {1, 1};
  for (const std::string own : {"module.w", "module.module.w", "_orig_mod.w", "w"}) {
    for (const std::string wrapper : {"", "module."}) {
      const std::string name = wrapper + own;
      const std::vector<weights::Tensor> tensors = {
          {name, weights::ElementType::float32, {2}, {1}, 0, bytes_of(ones)}};
      folder.write("a.pt", weights::pack_state_dict(tensors));
      std::vector<float> read = {0, 0};
      const std::vector<weights::Target> targets = {
          {own, weights::ElementType::float32, {2}, {1}, std::as_writable_bytes(std::span(read))}};
      weights::load_state_dict(path, targets);
      CHECK(read == ones);
    }
  }
}

TEST_CASE("values of other float types become float32, in the target's strides") {
  const test::TemporaryFiles folder;
  const std::string path = folder.write("a.pt", "");
  // 1.5, -2^-24 (the smallest of float16), 65504 (its largest), 0, 2^-14, -0.333...
  const std::vector<std::uint16_t> halves = {0x3E00, 0x8001, 0x7BFF, 0x0000, 0x0400, 0xB555};
  const std::vector<std::uint16_t> brain = {0x3FC0, 0xC000, 0x7F7F, 0x0000, 0x0080, 0xBEAB};
  const std::vector<double> doubles = {1.5, -2, 3e38, 0, 1e-40, 1.0 / 3};
  std::vector<float> a(6), b(6), c(6);
  const auto target = [](std::string name, std::vector<float>& values) {
    return weights::Target{std::move(name),
                           weights::ElementType::float32,
                           {2, 3},
                           {1, 2},
                           std::as_writable_bytes(std::span(values))};
  };
  const std::vector<weights::Target> targets = {target("a", a), target("b", b), target("c", c)};
  using weights::ElementType;
  std::vector<weights::Tensor> tensors = {
      {"a", ElementType::float16, {2, 3}, {3, 1}, 0, bytes_of(halves)},
      {"b", ElementType::bfloat16, {2, 3}, {3, 1}, 0, bytes_of(brain)},
      {"c", ElementType::float64, {2, 3}, {3, 1}, 0, bytes_of(doubles)}};
  folder.write("a.pt", weights::pack_state_dict(tensors));
  weights::load_state_dict(path, targets);
  CHECK(a == std::vector<float>{1.5f, 0, -0x1p-24f, 0x1p-14f, 65504, -0x1.554p-2f});
  CHECK(b == std::vector<float>{1.5f, 0, -2, 0x1p-126f, 0x1.fep127f, -0x1.56p-2f});
  CHECK(c == std::vector<float>{1.5f, 0, -2, 1e-40f, 3e38f, 1.0f / 3});

  const std::vector<double> huge = {1.5, -2, 3e39, 0, 1e-40, 1.0 / 3};
  tensors[2].storage = bytes_of(huge);
  folder.write("a.pt", weights::pack_state_dict(tensors));
  std::ranges::fill(a, 9.0f);
  CHECK_THAT(test::refusal(Kind::data, [&] { weights::load_state_dict(path, targets); }),
             Catch::Matchers::ContainsSubstring("finite values of c"));
  CHECK(a == std::vector<float>(6, 9.0f));  // all or none
}

TEST_CASE("names of the file and of the network may differ by a beginning, a tie and a new head") {
  const test::TemporaryFiles folder;
  const std::string path = folder.write("a.pt", "");
  using weights::ElementType;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto tensor = [&](std::string_view name, std::vector<std::int64_t> sizes) {
    const std::size_t bytes = weights::elements_of(sizes) * sizeof(float);
    const std::vector<std::int64_t> strides = weights::row_major_strides(sizes);
    return weights::Tensor{name, ElementType::float32,         std::move(sizes), strides,
                           0,    bytes_of(values).first(bytes)};
  };
  std::vector<float> body(2), head(3);
  const auto target = [](std::string name, std::vector<float>& to, std::string tied = "") {
    const auto size = static_cast<std::int64_t>(to.size());
    return weights::Target{.name = std::move(name),
                           .type = ElementType::float32,
                           .sizes = {size},
                           .strides = {1},
                           .storage = std::as_writable_bytes(std::span(to)),
                           .tied_to = std::move(tied)};
  };
  const auto load = [&](const std::vector<weights::Tensor>& tensors,
                        const std::vector<weights::Target>& targets, std::int64_t outputs = 0,
                        bool new_head = true) {
    std::ranges::fill(body, 0.0f);
    std::ranges::fill(head, 0.0f);
    folder.write("a.pt", weights::pack_state_dict(tensors));
    return weights::load_state_dict(path, targets,
                                    {.outputs = outputs, .last_layer = "fc.", .new_head = new_head})
        .kept;
  };
  const std::vector<float> one_two = {1, 2}, one_to_three = {1, 2, 3};
  const std::vector<weights::Target> plain = {target("a.w", body), target("fc.b", head)};
  for (const auto& names : {std::array{"a.w", "fc.b"}, std::array{"net.a.w", "net.fc.b"},
                            std::array{"model.net.a.w", "model.net.fc.b"}}) {
    CHECK(load({tensor(names[0], {2}), tensor(names[1], {3})}, plain).empty());
    CHECK(body == one_two);
    CHECK(head == one_to_three);
  }
  // The network's own names begin alike.
  load({tensor("a.w", {2}), tensor("fc.b", {3})}, {target("m.a.w", body), target("m.fc.b", head)});
  CHECK(head == one_to_three);
  const std::string missing = test::refusal(Kind::data, [&] {
    load({tensor("a.w", {2}), tensor("net.fc.b", {3})}, plain);
  });
  test::says(missing, "expected a tensor fc.b ");
  test::says(missing, "the nearest is net.fc.b");

  // Another number of outputs.
  const std::vector<weights::Tensor> five = {tensor("a.w", {2}), tensor("fc.b", {5})};
  CHECK(load(five, plain, 3) == std::vector<std::string>{"fc.b"});
  CHECK(body == one_two);
  CHECK(head == std::vector<float>(3, 0.0f));
  for (const std::int64_t outputs : {0, 2})
    test::says(test::refusal(Kind::data, [&] { load(five, plain, outputs); }), "fc.b of shape [3]");
  const std::string refused =
      test::refusal(Kind::data, [&] { load(five, plain, 3, /*new_head=*/false); });
  test::says(refused, "expected fc.b of shape [3] in the weights file ");
  test::says(refused, "found shape [5]; set model.new_head to \"auto\"");
  test::says(refused, "weights of a network with 3 outputs");
  test::refusal(Kind::data, [&] { load({tensor("a.w", {3}), tensor("fc.b", {5})}, plain, 3); });
  test::refusal(Kind::data, [&] { load({tensor("a.w", {2}), tensor("fc.b", {5, 1})}, plain, 3); });

  // No last layer at all, as a file of the layers below it has; without those it is another file.
  CHECK(load({tensor("a.w", {2})}, plain, 3) == std::vector<std::string>{"fc.b"});
  CHECK(body == one_two);
  CHECK(head == std::vector<float>(3, 0.0f));
  CHECK(load({tensor("net.a.w", {2})}, plain, 3) == std::vector<std::string>{"fc.b"});
  test::says(
      test::refusal(Kind::data, [&] { load({tensor("a.w", {2})}, plain, 3, /*new_head=*/false); }),
      "expected fc.b of shape [3] in the weights file " + path + ", found none of that name; set");
  test::says(test::refusal(Kind::data, [&] { load({tensor("a.w", {2})}, plain); }),
             "expected a tensor fc.b ");
  test::says(test::refusal(Kind::data,
                           [&] {
                             load({tensor("a.w", {2}), tensor("new.b", {3})}, plain, 3);
                           }),
             "expected a tensor fc.b ");
  test::says(test::refusal(Kind::data, [&] { load({tensor("conv", {2})}, plain, 3); }),
             "found none of that name; it has conv and others; check model.name");

  // Two names of one tensor: either, or both with the same values.
  const std::vector<weights::Target> tied = {target("a.w", body), target("b.w", body, "a.w")};
  for (const auto& names :
       {std::array{"a.w", "a.w"}, std::array{"b.w", "b.w"}, std::array{"a.w", "b.w"}}) {
    std::vector<weights::Tensor> tensors = {tensor(names[0], {2}), tensor(names[1], {2})};
    if (names[0] == std::string(names[1])) tensors.pop_back();
    load(tensors, tied);
    CHECK(body == one_two);
  }
  std::vector<weights::Tensor> different = {tensor("a.w", {2}), tensor("b.w", {2})};
  different[1].offset = 1;
  different[1].storage = bytes_of(values);
  const std::string two = test::refusal(Kind::data, [&] { load(different, tied); });
  test::says(two, "same values of a.w and b.w");
}
