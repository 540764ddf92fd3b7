// SPDX-License-Identifier: Apache-2.0
// Files of torch.save and malformed files, made by hand; tests/e2e/weights_interop.py has files
// from Python.

#include "weights/state_dict.hpp"

#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/torch_bytes.hpp"

using namespace eqt;
using namespace eqt::support;
using test::says;

namespace {

weights::StateDict read(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  return weights::StateDict({bytes.begin(), bytes.end()}, "test.pt");
}

/// The error for this file; "" if it is accepted.
std::string refusal(const std::string& file) {
  try {
    (void)read(file);
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    CHECK(std::string(error.what()).find("test.pt") != std::string::npos);
    return error.what();
  }
  return "";
}
std::string refusal_of_pickle(const std::string& pickle) {
  return refusal(torch_archive(pickle, {std::string(24, '\0')}));
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
const std::string kSix = raw<float>({0, 1, 2, 3, 4, 5});

std::vector<float> row_major(const weights::Tensor& tensor, std::size_t count) {
  std::vector<float> values(count);
  weights::copy_row_major(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

/// The values of a dict's one tensor on the storage 0 1 2 3 4 5.
std::vector<float> values_of(const PickledTensor& tensor, std::size_t count) {
  const auto file =
      read(torch_archive(pickle(pickled_dict({pickled("w"), pickled(tensor)})), {kSix}));
  REQUIRE(file.tensors().size() == 1);
  CHECK(file.tensors()[0].name == "w");
  CHECK(file.tensors()[0].sizes == tensor.sizes);
  return row_major(file.tensors()[0], count);
}

std::string names_of(const std::string& value) {
  std::string names;
  const auto file = read(torch_archive(pickle(value), {kSix}));
  for (const weights::Tensor& tensor : file.tensors()) names += std::string(tensor.name) + " ";
  return names;
}

const std::string kOrderedDict = pickled_global("collections", "OrderedDict");
const std::string kTensor = pickled(PickledTensor{});

}  // namespace

TEST_CASE("tensors are read row by row, with any strides", "[weights]") {
  using Values = std::vector<float>;
  CHECK(values_of({}, 6) == Values{0, 1, 2, 3, 4, 5});
  CHECK(values_of({.sizes = {3, 2}, .strides = {1, 3}}, 6) == Values{0, 3, 1, 4, 2, 5});
  CHECK(values_of({.offset = 1, .sizes = {2, 2}, .strides = {3, 1}}, 4) == Values{1, 2, 4, 5});
  CHECK(values_of({.offset = 5, .sizes = {}, .strides = {}}, 1) == Values{5});
  CHECK(values_of({.offset = 2, .sizes = {2, 2}, .strides = {0, 0}}, 4) == Values{2, 2, 2, 2});
  CHECK(values_of({.sizes = {2, 1, 3}, .strides = {3, 1ll << 62, 1}}, 6) ==
        Values{0, 1, 2, 3, 4, 5});
  CHECK(values_of({.sizes = {2, 1, 2}, .strides = {1, 1ll << 62, 2}}, 4) == Values{0, 2, 1, 3});
  CHECK(values_of({.sizes = {0, 3}, .strides = {3, 1}}, 0).empty());
  CHECK(values_of({.elements = 0, .offset = 9, .sizes = {3, 0}, .strides = {1, 1}}, 0).empty());
}

TEST_CASE("every usual type is recognised", "[weights]") {
  using weights::ElementType;
  const std::array<std::pair<const char*, ElementType>, 10> types = {
      {{"HalfStorage", ElementType::float16},
       {"BFloat16Storage", ElementType::bfloat16},
       {"FloatStorage", ElementType::float32},
       {"DoubleStorage", ElementType::float64},
       {"ByteStorage", ElementType::uint8},
       {"CharStorage", ElementType::int8},
       {"ShortStorage", ElementType::int16},
       {"IntStorage", ElementType::int32},
       {"LongStorage", ElementType::int64},
       {"BoolStorage", ElementType::boolean}}};
  for (const auto& [name, type] : types) {
    CAPTURE(name);
    const std::string value = pickled_dict({pickled("w"), pickled(PickledTensor{.type = name})});
    const std::size_t bytes = 6 * weights::element_bytes(type);
    const auto file = read(torch_archive(pickle(value), {std::string(bytes, '\1')}));
    CHECK(file.tensors()[0].type == type);
    says(refusal(torch_archive(pickle(value), {std::string(bytes - 1, '\1')})), "found a part");
  }
}

TEST_CASE("a dict of tensors is found under the usual names", "[weights]") {
  const std::string tensors = pickled("a") + kTensor + pickled("b") + kTensor;
  const std::string plain = pickled_dict({tensors});
  CHECK(names_of(plain) == "a b ");
  // state_dict(): an OrderedDict with the attribute _metadata.
  CHECK(names_of(kOrderedDict + ")R(" + tensors + "u" +
                 pickled_dict({pickled("_metadata"), kOrderedDict + ")R"}) + "b") == "a b ");
  CHECK(names_of(kOrderedDict + "(](](" + pickled("a") + kTensor + "e" + "](" + pickled("b") +
                 kTensor + "eetR") == "a b ");
  for (const char* const name : {"state_dict", "model_state_dict", "model"}) {
    CHECK(names_of(pickled_dict({pickled("epoch"), "K\3", pickled(name), plain, pickled("args"),
                                 "N", pickled("best"), "G" + std::string(8, '\0')})) == "a b ");
  }
  CHECK(names_of(pickled_dict({pickled("module.a"), kTensor, pickled("module.b"), kTensor})) ==
        "a b ");
  CHECK(names_of(pickled_dict({pickled("module.a"), kTensor, pickled("b"), kTensor})) ==
        "module.a b ");
  CHECK(names_of(pickled_dict({pickled("_orig_mod.module.a"), kTensor})) == "a ");
  const std::string parameter = pickled_global("torch._utils", "_rebuild_parameter") + "(" +
                                kTensor + "\x88" + kOrderedDict + ")RtR";
  CHECK(names_of(pickled_dict({pickled("a"), parameter})) == "a ");
  const std::string tagged = pickled_global("torch.jit._pickle", "restore_type_tag") + "(" + plain +
                             pickled("Dict[str, Tensor]") + "tR";
  CHECK(names_of(tagged) == "a b ");
  CHECK(names_of("}") == "");

  says(refusal_of_pickle(pickle("]")), "found a list");
  says(refusal_of_pickle(pickle(pickled_dict({pickled("a"), "K\1"}))), "\"a\" with a number");
  says(refusal_of_pickle(pickle(pickled_dict({"K\1", kTensor}))), "a number with a tensor");
  says(refusal_of_pickle(pickle(pickled_dict({pickled("a"), kTensor, pickled("a"), kTensor}))),
       "twice");
  says(refusal_of_pickle(pickle(pickled_dict({pickled("a\n\x1b[31m"), "N"}))), "\"a??[31m\"");
}

TEST_CASE("a tensor beyond its storage is refused", "[weights]") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::vector<PickledTensor> beyond = {
      {.elements = 7},
      {.elements = kHuge},
      {.offset = 1},
      {.offset = kHuge},
      {.sizes = {2, 4}},
      {.strides = {4, 1}},
      {.sizes = {kHuge, kHuge}},
      {.sizes = {3, 3}, .strides = {kHuge, kHuge}},
      {.sizes = {kHuge}, .strides = {1}},
  };
  for (const PickledTensor& tensor : beyond) {
    const std::string file =
        torch_archive(pickle(pickled_dict({pickled("w"), pickled(tensor)})), {kSix});
    says(refusal(file), "whole of tensor w");
  }
  for (const PickledTensor& tensor : std::vector<PickledTensor>{
           {.elements = -1}, {.offset = -1}, {.sizes = {-2, 3}}, {.strides = {-3, 1}}})
    says(refusal_of_pickle(pickle(pickled_dict({pickled("w"), pickled(tensor)}))), "count -");
  says(refusal_of_pickle(pickle(pickled(PickledTensor{.sizes = {6}}))), "1 sizes and 2 strides");
  says(refusal_of_pickle(pickle(pickled(PickledTensor{.key = "1"}))), "no record archive/data/1");
}

TEST_CASE("pickles of other things are refused", "[weights]") {
  says(refusal_of_pickle("\x80\x02Q."), "not there");
  says(refusal_of_pickle(pickle("cos\nsystem\n(" + pickled("true") + "tR")), "os.system");
  says(refusal_of_pickle(pickle("ctorch\nload\n")), "torch.load");
  says(refusal_of_pickle(pickle(pickled("os") + pickled("system") + "\x93")), "os.system");
  says(refusal_of_pickle(pickle("ctorch\nFloatStorage\n)R")), "calls FloatStorage");
  says(refusal_of_pickle(pickle("K\1)R")), "a number for a class or function");
  says(refusal_of_pickle(pickle("K\1Q")), "a number for a tuple");
  says(refusal_of_pickle(pickle("(K\1tQ")), "no storage");
  says(refusal_of_pickle(pickle("]}b")), "a list for a dict");
  says(refusal_of_pickle(pickle("}(K\1u")), "key without a value");
  says(refusal_of_pickle(pickle("h\1")), "did not memoise");
  says(refusal_of_pickle(pickle("t")), "mark that is not there");
  says(refusal_of_pickle(pickle("}(N")), "found None");
  says(refusal_of_pickle(pickle("Ptorch\n")), "operation 0x50");
  says(refusal_of_pickle("\x80\x01}."), "protocol 1");
  says(refusal_of_pickle("}."), "no protocol");
  says(refusal_of_pickle("\x80\x02}"), "too early");
  says(refusal_of_pickle("\x80\x02X" + number_bytes(~0ull, 4)), "too early");
  says(refusal_of_pickle("\x80\x04\x8d" + number_bytes(~0ull, 8)), "too early");
  says(refusal_of_pickle(pickle("\x8a\x09" + std::string(9, '\1'))), "64 bits");
}

TEST_CASE("pickles that would take all memory, stack or time are refused", "[weights]") {
  const auto many = [](std::size_t count, const std::string& part) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += part;
    return all;
  };
  says(refusal_of_pickle(pickle(")" + std::string(300000, '\x85'))), "found a tuple");
  says(refusal_of_pickle(pickle(std::string(5000000, '('))), "more than");
  says(refusal_of_pickle(pickle(std::string(5000000, '}'))), "more than");
  says(refusal_of_pickle(pickle("Nq\1" + many(2000000, "h\1"))), "more than");
  says(refusal_of_pickle(pickle("Nr\xff\xff\xff\x7f")),
       "found None");  // an index of the memo, no table
  // One long list, used many times.
  const std::string pairs = "](" + many(100000, "](NNe") + "eq\1";
  says(refusal_of_pickle(pickle(pairs + kOrderedDict + "q\2" + many(1000, "h\2h\1\x85R"))),
       "more than");
  says(refusal_of_pickle(pickle("(" + many(100000, "N") + "tq\1" + kOrderedDict + "h\1R")),
       "100000 arguments");
  // A dict of itself.
  says(refusal_of_pickle(pickle("}q\1" + pickled("model") + "h\1s")), "\"model\" with a dict");
}

TEST_CASE("the format before torch 1.6 is read, and refused if it is damaged", "[weights]") {
  const std::string head = "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
  const std::string machine = pickle(pickled_dict({pickled("little_endian"), "\x88"}));
  const std::string value = pickle(pickled_dict({pickled("w"), kTensor}));
  const std::string keys = pickle("](" + pickled("0") + "e");
  const std::string file = head + machine + value + keys + number_bytes(6, 8) + kSix;
  const auto taken = read(file);
  CHECK(row_major(taken.tensors()[0], 6) == std::vector<float>{0, 1, 2, 3, 4, 5});
  for (std::size_t cut = 1; cut < file.size(); ++cut) {
    INFO("cut by " << cut);
    CHECK(!refusal(file.substr(0, file.size() - cut)).empty());
  }
  const std::string big = pickle(pickled_dict({pickled("little_endian"), "\x89"}));
  says(refusal(head + big + value + keys + number_bytes(6, 8) + kSix), "another order");
  says(refusal(head + machine + value + keys + number_bytes(5, 8) + kSix), "5 elements instead");
  says(refusal(head + machine + value + pickle("]")), "lacks 1 of 1");
  says(refusal(head + machine + value + pickle("](" + pickled("1") + "e")), "does not use");
  says(refusal(head + machine + value + pickle("}")), "no list of storages");
  says(refusal(pickle("}")), "other things than torch.save's");
}

TEST_CASE("an archive that is not torch.save's is refused", "[weights]") {
  says(refusal(zip_bytes({{"a", "1"}})), "no record data.pkl");
  says(refusal(zip_bytes({{"a/data.pkl", "1"}, {"b/data.pkl", "1"}})), "more than one");
  says(refusal(zip_bytes({{"a/data.pkl", pickle("}")}, {"a/byteorder", "big"}})), "another order");
  std::string damaged = torch_archive(pickle(pickled_dict({pickled("w"), kTensor})), {kSix});
  damaged[damaged.find(kSix) + 4] ^= 1;
  says(refusal(damaged), "archive/data/0 is damaged");
}

TEST_CASE("a tensor of other sizes is resized only where the file holds all its values",
          "[weights]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/w.pt";
  std::vector<float> values(6, -1.0f);
  const weights::Target target{.name = "table",
                               .type = weights::ElementType::float32,
                               .sizes = {1, 6, 1},
                               .strides = {6, 1, 1},
                               .storage = std::as_writable_bytes(std::span(values))};
  bool is_asked = false;
  weights::FileNames names;
  names.can_resize = [](std::string_view name, std::span<const std::int64_t> sizes) {
    return name == "table" && sizes.size() == 3;
  };
  names.resized = [&](std::string_view, std::span<const std::int64_t>,
                      std::span<const float> from) {
    is_asked = true;
    return std::optional(std::vector<float>(6, static_cast<float>(from.size())));
  };
  const auto load = [&](const std::vector<std::int64_t>& sizes,
                        const std::vector<std::int64_t>& strides) {
    is_asked = false;
    std::ofstream(path, std::ios::binary) << torch_archive(
        pickle(pickled_dict(
            {pickled("table"), pickled(PickledTensor{.sizes = sizes, .strides = strides})})),
        {kSix});
    weights::load_state_dict(path, std::span(&target, 1), names);
  };
  load({1, 2, 3}, {6, 3, 1});
  CHECK(is_asked);
  CHECK(values == std::vector<float>(6, 6.0f));
  constexpr auto power = [](int exponent) { return std::int64_t{1} << exponent; };
  // Their number of values is beyond 64 bits, beyond any memory, and one more than the file has.
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{1, power(31), power(33)}, {1, power(38), 192}, {1, 7, 1}}) {
    const std::string sentence = test::refusal(Kind::data, [&] { load(sizes, {0, 0, 0}); });
    says(sentence, "expected table of shape [1, 6, 1]");
    says(sentence, "w.pt, found shape [1, " + std::to_string(sizes[1]));
    CHECK_FALSE(is_asked);
  }
  says(test::refusal(Kind::data, [&] { load({2, 3}, {3, 1}); }), "found shape [2, 3]");
  CHECK_FALSE(is_asked);
}
