// SPDX-License-Identifier: Apache-2.0
// What LibTorch's reader would believe or run is refused; tests/e2e/own_network.sh has networks
// from Python.

#include "weights/script_archive.hpp"

#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/script_bytes.hpp"
#include "weights/zip_archive.hpp"

using namespace eqt;
using namespace eqt::support;
using test::says;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// The error for this archive; "" if it is accepted, then what is given on is accepted as well.
std::string refusal(const std::string& archive) {
  try {
    const std::string checked = weights::checked_script(bytes_of(archive), "net.pt");
    (void)weights::checked_script(bytes_of(checked), "net.pt");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::data);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    CHECK(std::string(error.what()).find("model.path net.pt") != std::string::npos);
    return error.what();
  }
  return "";
}
std::string refusal(const ScriptParts& parts) { return refusal(parts.archive()); }
std::string of_data(const std::string& value) {
  return refusal(ScriptParts{.data = pickle(value)});
}
/// A module with one more attribute, `a`.
std::string of_attribute(const std::string& value) {
  return of_data(ScriptParts::pickled_object("__torch__", "Net", {pickled("a"), value}));
}
std::string of_tensor(const PickledTensor& tensor) { return of_attribute(pickled(tensor)); }
std::string of_code(const std::string& more) {
  ScriptParts parts;
  parts.code += more;
  return refusal(parts);
}
std::string of_statement(const std::string& statement) {
  return of_code("    " + statement + "\n");
}

std::string many(std::size_t count, const std::string& part) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += part;
  return all;
}
const std::string kPut("q\0", 2), kGet("h\0", 2);  // the first place of the memo
std::string call(const char* module, const char* name, const std::string& arguments) {
  return pickled_global(module, name) + "(" + arguments + "tR";
}

}  // namespace

TEST_CASE("a module of tensors, numbers, lists and dicts is given on, without what nobody reads",
          "[script_archive]") {
  const std::string ints = call("torch.jit._pickle", "build_intlist", "](K\1K\2e");
  const std::string dict =
      call("torch.jit._pickle", "restore_type_tag",
           pickled_dict({pickled("k"), ints}) + pickled("Dict[str, List[int]]"));
  CHECK(of_attribute(ints).empty());
  CHECK(of_attribute(dict).empty());
  CHECK(of_attribute(call("builtins", "complex", "G" + std::string(16, '\0').insert(8, "G"))) ==
        "");
  CHECK(of_attribute(call("torch", "device", pickled("cpu"))).empty());
  CHECK(of_attribute("(K\1G" + std::string(8, '\0') + pickled("a") + "Nt").empty());
  CHECK(of_tensor({.sizes = {2, 2}, .strides = {3, 0}}).empty());
  CHECK(of_tensor({.elements = 0, .sizes = {0, 3}, .strides = {3, 1}}).empty());

  const ScriptParts parts{.more = {{"code/__torch__.py.debug_pkl", "\x80\x02Q."},
                                   {"code/a.b.py", "((("},
                                   {"bytecode.pkl", "\x80\x02Q."},
                                   {"extra/preprocessing.json", "{}"}}};
  const std::string archive = parts.archive();
  const std::string checked = weights::checked_script(bytes_of(archive), "net.pt");
  const weights::ZipArchive read(bytes_of(checked), weights::ForeignFile("net.pt"));
  std::vector<std::string> names;
  for (const auto& record : read.records()) names.push_back(record.name);
  CHECK(names == std::vector<std::string>{"net/code/__torch__.py", "net/constants.pkl",
                                          "net/data.pkl", "net/data/0", "net/version"});
  CHECK(std::ranges::equal(read.read(*read.find("net/data.pkl")), bytes_of(parts.data)));
}

TEST_CASE("a storage that is not as long as its tensor says is refused", "[script_archive]") {
  for (const std::size_t bytes : {0u, 20u, 23u, 28u, 48u})
    says(refusal(ScriptParts{.storage = std::string(bytes, '\0')}),
         "instead of 6 float32 elements");
  says(of_tensor({.key = "1"}), "no record data/1");
  says(of_tensor({.key = "../code/__torch__.py"}), "no record data/../code/__torch__.py");
  says(of_tensor({.elements = 7}), "24 bytes instead of 7");
  says(of_tensor({.elements = std::int64_t{1} << 62}), "instead of 4611686018427387904");
  says(of_tensor({.type = "DoubleStorage"}), "instead of 6 float64");
  says(of_tensor({.sizes = {2, 4}}), "not in its storage 0 of 6 elements");
  says(of_tensor({.strides = {4, 1}}), "not in its storage");
  says(of_tensor({.offset = 1}), "not in its storage");
  // So many that numbers of elements overflow, on six.
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  says(of_tensor({.sizes = {kHuge, kHuge}, .strides = {0, 0}}), "not in its storage");
  says(of_tensor({.type = "QInt8Storage"}), "names torch.QInt8Storage");
  // LibTorch would read it once for each.
  ScriptParts large;
  large.data = pickle(ScriptParts::pickled_object(
      "__torch__", "Net",
      {pickled("a"), "(" + many(6, pickled(PickledTensor{.elements = 25000})) + "t"}));
  large.storage = std::string(100000, '\0');
  says(refusal(large), "more than 4 times its bytes");
}

TEST_CASE("pickles that end LibTorch's reader are refused, in data and constants",
          "[script_archive]") {
  const std::vector<std::pair<std::string, const char*>> wrong = {
      {"\x80\x02Q.", "not there"},
      {"\x80\x02R.", "not there"},
      {"\x80\x02"
       "0.",
       "operation 0x30"},
      {"\x80\x04N.", "protocol 4"},
      {pickle(")" + std::string(300000, '\x85')), "in each other"},
      {pickle("]" + kPut + "(" + kGet + "e\x85"), "contains itself"},
      {pickle(")r\xff\xff\xff\xff"), "memoises a value at 4294967295"},
      {pickle("))"), "goes on"},
      {pickle(")") + ")", "goes on"},
      {pickle("cos\nsystem\n(" + pickled("true") + "tR"), "os.system"},
      {pickle(call("torch.jit._pickle", "restore_type_tag",
                   "]" + pickled(many(100000, "List[") + "int"))),
       "the type List["},
      {pickle("}(NNu"), "None as a key"},
      {pickle("K\1)R"), "a number for a class or function"},
      {pickle("c__torch__\nNet\n)R"), "a tuple for a text"}};
  for (const auto& [bytes, words] : wrong) {
    const std::string in_data = refusal(ScriptParts{.data = bytes});
    CAPTURE(words, in_data);
    CHECK((in_data.find(words) != std::string::npos ||
           in_data.find("instead of an object") != std::string::npos));
    const std::string in_constants = refusal(ScriptParts{.constants = bytes});
    CAPTURE(in_constants);
    CHECK((in_constants.find(words) != std::string::npos ||
           in_constants.find("instead of a tuple") != std::string::npos));
  }
  says(of_attribute(")" + std::string(300000, '\x85')), "more than 256 values in each other");
  // Each level twice the one below: LibTorch would go through it for years.
  says(of_attribute("K\1\x85" + kPut + many(60, kGet + "\x86" + kPut)),
       "the same values too often");
}

TEST_CASE("objects are of classes in the code, and none is a constant", "[script_archive]") {
  const std::string other = ScriptParts::pickled_object("__torch__", "Other", {});
  says(of_attribute(other), "__torch__.Other, which is no class of its code");
  says(
      of_attribute(ScriptParts::pickled_object("__torch__.torch.classes.nnapi", "Compilation", {})),
      "no class of its code");
  ScriptParts parts;
  parts.data = pickle(ScriptParts::pickled_object("__torch__", "Net", {pickled("a"), other}));
  const std::string code = parts.code;
  parts.code = code + "class Other:\n  pass\n";
  CHECK(refusal(parts).empty());
  parts.code = code + "class Other(Enum):\n  a = 1\n";
  says(refusal(parts), "no class of its code");
  parts.code = code + "class Other((Enum)):\n  a = 1\n";
  says(refusal(parts), "no class of its code");
  parts.data =
      pickle(ScriptParts::pickled_object("__torch__", "Net",
                                         {pickled("a"), "c__torch__\nOther\nK\2R", pickled("b"),
                                          "c__torch__\nOther\n" + pickled("x") + "R"}));
  const auto with_values = [&](const std::string& lines) {
    parts.code = code + "class Other(Enum):\n" + lines;
    return refusal(parts);
  };
  CHECK(with_values("  a = 2\n  b = \"x\"\n").empty());
  // LibTorch would make 12 and 2.0 of these.
  for (const char* const lines : {"  a = 12\n  b = \"x\"\n", "  a = 2e0\n  b = \"x\"\n",
                                  "  a = 2.\n  b = \"x\"\n", "  a = 2\n  b = \"\"\n"})
    says(with_values(lines), "no enumeration of its code with that value");
  says(with_values("  a = 2\n  b = \"x\" \"y\"\n"), "side by side");
  says(refusal(ScriptParts{
           .constants = pickle(ScriptParts::pickled_object("__torch__", "Net", {}) + "\x85")}),
       "an object as a constant");
  says(of_data("c__torch__\nNet\nK\1\x85\x81}b"), "arguments to a class");
  says(of_data("ctorch\nFloatStorage\n)\x81}b"), "an object of FloatStorage");
}

TEST_CASE("code that is nested too deeply is refused, however it is nested", "[script_archive]") {
  const std::string deep = "nested too deeply";
  says(of_statement("q = " + many(200000, "(") + "x" + many(200000, ")")), deep);
  says(of_statement("q = " + many(5000, "-") + "x"), deep);
  says(of_statement("q = x" + many(5000, "+x")), deep);
  says(of_statement("q = x" + many(5000, "[0]")), deep);
  says(of_statement("q = x" + many(5000, ".T")), deep);
  says(of_statement("q = 1" + many(5000, " if True else 1")), deep);
  says(of_statement("q = " + many(5000, "not ") + "True"), deep);
  std::string inner = "    if True:\n";
  for (std::size_t i = 1; i < 1300; ++i) inner += std::string(4 + i, ' ') + "if True:\n";
  says(of_code(inner), deep);
  says(of_code("    if True:\n      pass\n" + many(5000, "    elif True:\n      pass\n")), deep);
  std::string calls, circle;
  for (int i = 0; i < 2000; ++i) {
    calls += fmt::format("def f{}(x: Tensor) -> Tensor:\n  return __torch__.f{}(x)\n", i, i + 1);
    circle += fmt::format("def g{0}(x: Tensor) -> Tensor:\n  return __torch__.g{1}(x)\n", i,
                          (i + 1) % 2000);
  }
  says(of_code(calls + "def f2000(x: Tensor) -> Tensor:\n  return x\n"), deep);
  says(of_code(circle), deep);
  says(of_code(many(2000, "\n")), "empty lines");
  says(of_code(many(2000, "# a\n")), "empty lines");
  // Long is not deep: a list, statements, a chain of a few, a text of brackets.
  CHECK(of_statement("q = [" + many(100000, "1, ") + "]").empty());
  CHECK(of_code(many(20000, "    q = torch.add(x, x)\n")).empty());
  CHECK(of_statement("q = \"" + many(5000, "(") + "\\\"\", '[' \"\"\"\n{\"\"\"").empty());
  CHECK(of_code("def f(x: Tensor) -> Tensor:\n  return __torch__.f(x)\n").empty());
}

TEST_CASE("code that acts while it is read, or names what it does not have, is refused",
          "[script_archive]") {
  says(of_code("  def __setstate__(self: __torch__.Net, a: int) -> NoneType:\n    return None\n"),
       "would run while the file is read");
  says(of_statement("q = __torch__.torch.classes.nnapi.Compilation()"), "does not have");
  says(of_statement("q = (__torch__).Net"), "does not have");
  says(of_statement("q = )"), "closes a bracket");
  says(of_code("    q = (\n"), "not closed");
  says(of_statement("q = \"a"), "does not end");
  says(of_statement("q = \"a\\"), "does not end");
  says(of_statement("q = x # type: (int)"), "type comment");
  says(of_statement("q = x\x01"), "the byte 1");
  says(of_code("class Net(Module):\n  a : int\n"), "defines Net twice");
  says(refusal(ScriptParts{.code = "a = 1\n"}), "neither a class nor a function");
}

TEST_CASE("archives that LibTorch would read in another way are refused", "[script_archive]") {
  says(refusal("PK"), "no whole zip archive");
  says(refusal(zip_bytes({{"net/version", "3"}})), "no record data.pkl");
  says(refusal(ScriptParts{.version = "three"}), "version is no number");
  says(refusal(ScriptParts{.more = {{"byteorder", "big"}}}), "another order");
  std::string damaged = ScriptParts{.storage = "abcdefghijklmnopqrstuvwx"}.archive();
  damaged[damaged.find("mnop")] ^= 1;
  says(refusal(damaged), "data/0 is damaged");
  std::string trailing = ScriptParts{}.archive();
  says(refusal(trailing.substr(0, trailing.size() - 1)), "no whole zip archive");
}
