// SPDX-License-Identifier: Apache-2.0
#include "weights/pickle.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/error.hpp"
#include "weights/foreign_file.hpp"

namespace eqt::weights {
namespace {

enum In : std::uint8_t { kWeights = 1, kScripts = 2, kBoth = 3 };

struct KnownGlobal {
  std::string_view name;
  Global global;
  ElementType type = {};  // of a class of storages
};

struct Entry {
  std::string_view module;
  KnownGlobal known;
  In in = kBoth;
};

constexpr std::array kEntries = {
    Entry{"collections", {"OrderedDict", Global::ordered_dict}},
    Entry{"torch._utils", {"_rebuild_tensor", Global::tensor}, kWeights},
    Entry{"torch._utils", {"_rebuild_tensor_v2", Global::tensor}},
    Entry{"torch._utils", {"_rebuild_parameter", Global::parameter}, kWeights},
    Entry{"torch.jit._pickle", {"restore_type_tag", Global::type_tag}},
    Entry{"torch.jit._pickle", {"build_intlist", Global::typed_list}, kScripts},
    Entry{"torch.jit._pickle", {"build_tensorlist", Global::typed_list}, kScripts},
    Entry{"torch.jit._pickle", {"build_doublelist", Global::typed_list}, kScripts},
    Entry{"torch.jit._pickle", {"build_boollist", Global::typed_list}, kScripts},
    Entry{"torch", {"device", Global::device}, kScripts},
    Entry{"builtins", {"complex", Global::complex}, kScripts},
    Entry{"torch", {"Size", Global::size}, kWeights},
    Entry{"torch", {"HalfStorage", Global::storage, ElementType::float16}},
    Entry{"torch", {"BFloat16Storage", Global::storage, ElementType::bfloat16}},
    Entry{"torch", {"FloatStorage", Global::storage, ElementType::float32}},
    Entry{"torch", {"DoubleStorage", Global::storage, ElementType::float64}},
    Entry{"torch", {"ByteStorage", Global::storage, ElementType::uint8}},
    Entry{"torch", {"CharStorage", Global::storage, ElementType::int8}},
    Entry{"torch", {"ShortStorage", Global::storage, ElementType::int16}},
    Entry{"torch", {"IntStorage", Global::storage, ElementType::int32}},
    Entry{"torch", {"LongStorage", Global::storage, ElementType::int64}},
    Entry{"torch", {"BoolStorage", Global::storage, ElementType::boolean}},
    Entry{"torch", {"ComplexFloatStorage", Global::storage, ElementType::complex64}, kScripts},
    Entry{"torch", {"ComplexDoubleStorage", Global::storage, ElementType::complex128}, kScripts},
};

/// Empty if the name is not accepted in such a file. Classes of the archive's own code are not
/// found here.
std::optional<KnownGlobal> find_global(std::string_view module, std::string_view name,
                                       Holds holds) {
  const In wanted = holds == Holds::script ? kScripts : kWeights;
  for (const Entry& entry : kEntries)
    if ((entry.in & wanted) != 0 && entry.module == module && entry.known.name == name)
      return entry.known;
  return {};
}

}  // namespace

std::string_view storage_class(ElementType type) {
  for (const Entry& entry : kEntries)
    if (entry.known.global == Global::storage && entry.known.type == type) return entry.known.name;
  fail(Kind::bug, "expected a type of elements, found {}", static_cast<int>(type));
}

namespace {

using Kind = PickleValue::Kind;

// These limits hold for values, stack, marks, memo and copied pairs; a script has one value for
// each attribute of each module as well.
constexpr std::size_t kMostOfWeights = std::size_t{1} << 19;
constexpr std::size_t kMostOfScript = std::size_t{1} << 21;
constexpr std::size_t kMaxDimensions = 16, kMaxArguments = 8, kLongestKey = 64, kMaxMarks = 8;
constexpr std::size_t kLongestType = 4096, kDeepestType = 64;  // [bytes], [brackets]

/// The operations' bytes, by pickletools' names.
enum Operation : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistentId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kProtocol = 0x80,
  kNewObject = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// The stack machine that executes a pickle.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const ForeignFile& file)
      : bytes_(bytes),
        file_(file),
        is_script_(file.holds == Holds::script),
        most_(is_script_ ? kMostOfScript : kMostOfWeights) {}

  ValueId run() {
    if (take_number(1) != kProtocol) refuse(file_, "its pickle has no protocol");
    const std::uint64_t protocol = take_number(1);
    if (is_script_ && protocol != 2)
      refuse(file_, "its pickle is of protocol {} instead of 2", protocol);
    if (protocol < 2 || protocol > 5)
      refuse(file_, "its pickle is of protocol {} instead of 2 to 5", protocol);
    for (;;) {
      const auto operation = static_cast<Operation>(take_number(1));
      if (operation == kStop) return last();
      if (!push_constant(operation) && !remember(operation) && !combine(operation))
        refuse(file_, "its pickle has the operation 0x{:02x}, which {} not need",
               static_cast<unsigned>(operation), is_script_ ? "a module does" : "weights do");
    }
  }

  std::vector<PickleValue> take_values() { return std::move(values_); }
  std::size_t bytes_used() const { return at_; }

 private:
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse(file_, "its pickle ends too early");
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t take_number(std::size_t count) { return little_endian(take(count), 0, count); }
  std::string_view take_text(std::uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string_view take_line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    const std::string_view line = take_text(static_cast<std::uint64_t>(end - rest.begin()));
    take(1);
    return line;
  }
  /// Two's complement of `count` bytes.
  std::int64_t take_signed(std::size_t count) {
    if (count == 0) return 0;
    if (count > 8) refuse(file_, "its pickle has a number of more than 64 bits");
    const auto shift = static_cast<unsigned>(64 - 8 * count);
    return static_cast<std::int64_t>(take_number(count) << shift) >> shift;
  }

  void limit(std::size_t count, std::string_view what) const {
    if (count >= most_) refuse(file_, "its pickle has more than {} {}", most_, what);
  }

  ValueId make(PickleValue value) {
    limit(values_.size(), "values");
    values_.push_back(std::move(value));
    return static_cast<ValueId>(values_.size() - 1);
  }
  void push(ValueId id) {
    limit(stack_.size(), "values on its stack");
    stack_.push_back(id);
  }
  void push(PickleValue value) { push(make(std::move(value))); }
  void push_number(std::int64_t number) { push({.kind = Kind::number, .number = number}); }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = text}); }

  void need(std::size_t count) const {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - bottom < count) refuse(file_, "its pickle takes values that are not there");
  }
  ValueId pop() {
    need(1);
    const ValueId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  /// Returns what is left at the end.
  ValueId last() {
    const ValueId id = pop();
    if (is_script_ && (!stack_.empty() || !marks_.empty() || at_ != bytes_.size()))
      refuse(file_, "its pickle goes on after its end");
    return id;
  }
  PickleValue& top(Kind kind) {
    need(1);
    PickleValue& value = values_[stack_.back()];
    if (value.kind != kind)
      refuse(file_, "its pickle takes {} for {}", kind_name(value.kind), kind_name(kind));
    return value;
  }
  /// The values above the last `count` on the stack.
  std::vector<ValueId> pop_many(std::size_t count) {
    need(count);
    std::vector<ValueId> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<ValueId> pop_to_mark() {
    if (marks_.empty()) refuse(file_, "its pickle takes a mark that is not there");
    std::vector<ValueId> items = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  /// Operations that make a value from their own bytes.
  bool push_constant(Operation operation) {
    switch (operation) {
      case kNone:
        return push({.kind = Kind::none}), true;
      case kNewTrue:
      case kNewFalse:
        return push({.kind = Kind::truth, .number = operation == kNewTrue}), true;
      case kBinInt:
        return push_number(take_signed(4)), true;
      case kBinInt1:
        return push_number(static_cast<std::int64_t>(take_number(1))), true;
      case kBinInt2:
        return push_number(static_cast<std::int64_t>(take_number(2))), true;
      case kLong1:
        return push_number(take_signed(take_number(1))), true;
      case kBinFloat:  // the value is not used
        return take(8), push({.kind = Kind::real}), true;
      case kShortBinString:
      case kShortBinUnicode:
        return push_text(take_text(take_number(1))), true;
      case kBinString:
      case kBinUnicode:
        return push_text(take_text(take_number(4))), true;
      case kBinUnicode8:
        return push_text(take_text(take_number(8))), true;
      case kEmptyList:
        return push({.kind = Kind::list}), true;
      case kEmptyDict:
        return push({.kind = Kind::dict}), true;
      case kEmptyTuple:
        return push({.kind = Kind::tuple}), true;
      case kGlobal: {
        const std::string_view module = take_line();
        return push_global(module, take_line()), true;
      }
      default:
        return false;
    }
  }

  /// Operations on the stack's marks and the memo.
  bool remember(Operation operation) {
    switch (operation) {
      case kFrame:  // a hint for readers of streams
        return take_number(8), true;
      case kMark:
        limit(marks_.size(), "marks");
        return marks_.push_back(stack_.size()), true;
      case kBinPut:
        return memoize(take_number(1)), true;
      case kLongBinPut:
        return memoize(take_number(4)), true;
      case kMemoize:
        return memoize(memo_.size()), true;
      case kBinGet:
        return push(recall(take_number(1))), true;
      case kLongBinGet:
        return push(recall(take_number(4))), true;
      default:
        return false;
    }
  }
  void memoize(std::uint64_t place) {
    need(1);
    limit(memo_.size(), "memoised values");
    // LibTorch keeps a table of all places up to the last one.
    if (is_script_ && place > memo_.size())
      refuse(file_, "its pickle memoises a value at {}, after {} others", place, memo_.size());
    memo_[place] = stack_.back();
  }
  ValueId recall(std::uint64_t place) const {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse(file_, "its pickle takes a value that it did not memoise");
    return found->second;
  }

  /// Operations that make a value from other values.
  bool combine(Operation operation) {
    switch (operation) {
      case kTuple:
        return push({.kind = Kind::tuple, .items = pop_to_mark()}), true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return push({.kind = Kind::tuple, .items = pop_many(operation - kTuple1 + 1u)}), true;
      case kAppend:
        return add(Kind::list, pop_many(1)), true;
      case kAppends:
        return add(Kind::list, pop_to_mark()), true;
      case kSetItem:
        return add(Kind::dict, pop_many(2)), true;
      case kSetItems:
        return add(Kind::dict, pop_to_mark()), true;
      case kNewObject:
        return is_script_ ? start_object() : false;
      case kBuild:
        if (is_script_) return build_object(), true;
        return pop(), void(top(Kind::dict)), true;
      case kStackGlobal: {
        if (is_script_) return false;  // of protocol 4
        const std::vector<ValueId> names = pop_many(2);
        return push_global(text_of(names[0]), text_of(names[1])), true;
      }
      case kReduce: {
        const ValueId arguments = pop();
        return push(call(pop(), arguments)), true;
      }
      case kBinPersistentId:
        return push_storage(pop()), true;
      default:
        return false;
    }
  }
  void add(Kind kind, const std::vector<ValueId>& items) {
    if (kind == Kind::dict && items.size() % 2 != 0)
      refuse(file_, "its pickle has a key without a value");
    std::vector<ValueId>& all = top(kind).items;
    all.insert(all.end(), items.begin(), items.end());
  }

  const PickleValue& value_of(ValueId id, Kind kind) const {
    if (values_[id].kind != kind)
      refuse(file_, "its pickle takes {} for {}", kind_name(values_[id].kind), kind_name(kind));
    return values_[id];
  }
  std::string_view text_of(ValueId id) const { return value_of(id, Kind::text).text; }
  std::int64_t count_of(ValueId id) const {
    const std::int64_t number = value_of(id, Kind::number).number;
    if (number < 0) refuse(file_, "its pickle has the count {}", number);
    return number;
  }

  void push_global(std::string_view module, std::string_view name) {
    if (is_script_ && (module == "__torch__" || module.starts_with("__torch__.")))
      return push_class(module, name);
    const std::optional<KnownGlobal> known = find_global(module, name, file_.holds);
    if (!known && module == "torch._utils" && name.starts_with("_rebuild_"))
      refuse(file_,
             "it has a tensor that is not a plain one, such as a quantized or sparse one ({}.{})",
             module, printable(name));
    if (!known)
      refuse(file_, "it names {}.{}, which a {} does not need", printable(module), printable(name),
             is_script_ ? "module" : "dict of tensors");
    push({.kind = Kind::global,
          .global = static_cast<std::uint8_t>(known->global),
          .type = known->type,
          .text = known->name});
  }

  /// The name is the two lines of the pickle, which follow each other.
  void push_class(std::string_view module, std::string_view name) {
    const std::string_view lines(module.data(), module.size() + 1 + name.size());
    push({.kind = Kind::global,
          .global = static_cast<std::uint8_t>(Global::script_class),
          .text = lines});
  }
  void need_class() {
    if (top(Kind::global).global != static_cast<std::uint8_t>(Global::script_class))
      refuse(file_, "its pickle makes an object of {}", top(Kind::global).text);
  }
  /// A class stands for its object until the object gets its attributes, as in LibTorch.
  bool start_object() {
    if (!value_of(pop(), Kind::tuple).items.empty())
      refuse(file_, "its pickle gives arguments to a class");
    need_class();
    return true;
  }
  void build_object() {
    const ValueId attributes = pop();
    // The same dict may be that of many objects.
    const std::vector<ValueId>& items = value_of(attributes, Kind::dict).items;
    copied_pairs_ += items.size() / 2;
    limit(copied_pairs_, "attributes");
    for (std::size_t i = 0; i < items.size(); i += 2) (void)text_of(items[i]);
    need_class();
    const std::string_view name = values_[pop()].text;
    push({.kind = Kind::object, .text = name, .items = {attributes}});
  }

  /// An enumeration's class, called with the value itself.
  ValueId make_enumerator(ValueId type, ValueId value) {
    if (values_[value].kind != Kind::number) (void)text_of(value);
    return make({.kind = Kind::enumerator, .text = values_[type].text, .items = {value}});
  }

  ValueId call(ValueId callable, ValueId argument_tuple) {
    if (value_of(callable, Kind::global).global == static_cast<std::uint8_t>(Global::script_class))
      return make_enumerator(callable, argument_tuple);
    const auto global = static_cast<Global>(value_of(callable, Kind::global).global);
    const std::size_t count = value_of(argument_tuple, Kind::tuple).items.size();
    const auto least = [&]() -> std::size_t {
      if (global == Global::ordered_dict) return 0;
      return global == Global::tensor ? 4 : 1;
    }();
    if (count < least || count > kMaxArguments)
      refuse(file_, "its pickle calls {} with {} arguments", value_of(callable, Kind::global).text,
             count);
    // A copy, because making a value may move the others.
    const std::vector<ValueId> arguments = values_[argument_tuple].items;
    if (is_script_) check_script_call(global, arguments);
    switch (global) {
      case Global::ordered_dict:
        return is_script_ ? make({.kind = Kind::none}) : make_dict(arguments);
      case Global::tensor:
        return make_tensor(arguments);
      case Global::parameter:
        return (void)value_of(arguments[0], Kind::tensor), arguments[0];
      case Global::size:
        return (void)value_of(arguments[0], Kind::tuple), arguments[0];
      case Global::type_tag:
        return arguments[0];
      case Global::typed_list:
        return (void)value_of(arguments[0], Kind::list), arguments[0];
      case Global::device:
      case Global::complex:
        return make({.kind = Kind::other});
      case Global::storage:
      case Global::script_class:
        break;
    }
    refuse(file_, "its pickle calls {}", value_of(callable, Kind::global).text);
  }

  /// LibTorch looks at the arguments' types, but not at what it does not know of.
  void check_script_call(Global global, const std::vector<ValueId>& arguments) const {
    const auto need_arguments = [&](std::size_t least, std::size_t most) {
      if (arguments.size() < least || arguments.size() > most)
        refuse(file_, "its pickle calls a function with {} arguments", arguments.size());
    };
    switch (global) {
      case Global::ordered_dict:  // of a tensor's hooks, which are not saved
        return need_arguments(0, 0);
      case Global::tensor:
        need_arguments(6, 7);
        (void)value_of(arguments[4], Kind::truth);
        (void)value_of(arguments[5], Kind::none);
        // Negated or conjugated, by name.
        if (arguments.size() > 6 && value_of(arguments[6], Kind::dict).items.size() > kMaxMarks)
          refuse(file_, "its pickle has a tensor with too many marks");
        if (arguments.size() > 6)
          for (const ValueId part : values_[arguments[6]].items)
            if (values_[part].kind != Kind::text) (void)value_of(part, Kind::truth);
        return;
      case Global::type_tag:
        need_arguments(2, 2);
        if (values_[arguments[0]].kind != Kind::list) (void)value_of(arguments[0], Kind::dict);
        return check_type(text_of(arguments[1]));
      case Global::device:
        return need_arguments(1, 1), (void)text_of(arguments[0]);
      case Global::complex:
        need_arguments(2, 2);
        return (void)value_of(arguments[0], Kind::real), (void)value_of(arguments[1], Kind::real);
      default:
        return need_arguments(1, 1);
    }
  }
  /// "Dict[str, List[Tensor]]": LibTorch's parser calls itself for each bracket.
  void check_type(std::string_view type) const {
    std::size_t open = 0, deepest = 0;
    for (const char c : type) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ',' || c == ' ';
      if (c == '[' || c == '(') {
        deepest = std::max(deepest, ++open);
      } else if (c == ']' || c == ')') {
        open -= std::min<std::size_t>(open, 1);
      } else if (!letter) {
        deepest = kDeepestType + 1;
      }
    }
    if (type.size() > kLongestType || deepest > kDeepestType)
      refuse(file_, "its pickle has the type {}", printable(type));
  }

  /// OrderedDict(), or, as Python 2 wrote it, OrderedDict([[key, value], ...]).
  ValueId make_dict(const std::vector<ValueId>& arguments) {
    PickleValue dict{.kind = Kind::dict};
    if (!arguments.empty()) {
      // The same list may occur many times.
      const std::vector<ValueId>& pairs = value_of(arguments[0], Kind::list).items;
      copied_pairs_ += pairs.size();
      limit(copied_pairs_, "pairs in lists");
      for (const ValueId pair : pairs) {
        const PickleValue& both = values_[pair];
        if ((both.kind != Kind::list && both.kind != Kind::tuple) || both.items.size() != 2)
          refuse(file_, "its pickle makes an OrderedDict of what are no pairs");
        dict.items.insert(dict.items.end(), both.items.begin(), both.items.end());
      }
    }
    return make(std::move(dict));
  }

  /// (storage, offset, sizes, strides, ...)
  ValueId make_tensor(const std::vector<ValueId>& arguments) {
    (void)value_of(arguments[0], Kind::storage);
    (void)count_of(arguments[1]);
    const std::vector<ValueId>& sizes = value_of(arguments[2], Kind::tuple).items;
    const std::vector<ValueId>& strides = value_of(arguments[3], Kind::tuple).items;
    if (sizes.size() != strides.size() || sizes.size() > kMaxDimensions)
      refuse(file_, "it has a tensor of {} sizes and {} strides", sizes.size(), strides.size());
    for (const std::vector<ValueId>* const counts : {&sizes, &strides})
      for (const ValueId count : *counts) (void)count_of(count);
    return make({.kind = Kind::tensor, .items = {arguments.begin(), arguments.begin() + 4}});
  }

  /// ("storage", class, key, device, elements[, None])
  void push_storage(ValueId id) {
    const std::vector<ValueId>& parts = value_of(id, Kind::tuple).items;
    const std::size_t most = is_script_ ? 5 : 6;
    const bool fits = parts.size() >= 5 && parts.size() <= most && text_of(parts[0]) == "storage";
    if (!fits) refuse(file_, "its pickle refers to what is no storage");
    const PickleValue& type = value_of(parts[1], Kind::global);
    if (type.global != static_cast<std::uint8_t>(Global::storage))
      refuse(file_, "its pickle has a storage of {}", type.text);
    if (parts.size() == 6 && values_[parts[5]].kind != Kind::none)
      refuse(file_, "it has a storage that is a part of another");
    const std::string_view key = text_of(parts[2]);
    if (is_script_) (void)text_of(parts[3]);  // the device
    if (key.size() > kLongestKey) refuse(file_, "it has a storage named {}", printable(key));
    push({.kind = Kind::storage, .type = type.type, .number = count_of(parts[4]), .text = key});
  }

  std::span<const std::byte> bytes_;
  const ForeignFile& file_;
  const bool is_script_;
  const std::size_t most_;
  std::size_t at_ = 0;
  std::vector<PickleValue> values_;
  std::vector<ValueId> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint64_t, ValueId> memo_;
  std::size_t copied_pairs_ = 0;
};

}  // namespace

std::string_view kind_name(Kind kind) noexcept {
  constexpr std::array<std::string_view, 14> kNames = {"None",
                                                       "a truth value",
                                                       "a number",
                                                       "a floating-point number",
                                                       "a text",
                                                       "a tuple",
                                                       "a list",
                                                       "a dict",
                                                       "a class or function",
                                                       "a storage",
                                                       "a tensor",
                                                       "an object",
                                                       "a value of an enumeration",
                                                       "another value"};
  return kNames[static_cast<std::size_t>(kind)];
}

Pickle::Pickle(std::span<const std::byte> bytes, const ForeignFile& file) {
  Machine machine(bytes, file);
  root_ = machine.run();
  values_ = machine.take_values();
  bytes_used_ = machine.bytes_used();
}

std::string class_name(const PickleValue& value) {
  std::string name(value.text);
  std::ranges::replace(name, '\n', '.');
  return name;
}

ElementPlaces places_of(const Pickle& pickle, const PickleValue& tensor) {
  const auto numbers = [&](ValueId tuple) {
    std::vector<std::int64_t> all;
    for (const ValueId id : pickle.at(tuple).items) all.push_back(pickle.at(id).number);
    return all;
  };
  return {.sizes = numbers(tensor.items[2]),
          .strides = numbers(tensor.items[3]),
          .offset = pickle.at(tensor.items[1]).number};
}

bool ElementPlaces::lies_in(std::int64_t elements) const {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  std::int64_t left = elements - 1 - offset;  // [elements] after the first one
  if (offset >= elements) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t steps = sizes[i] - 1, stride = strides[i];
    if (steps == 0 || stride == 0) continue;
    if (steps > left / stride) return false;
    left -= steps * stride;
  }
  return true;
}

}  // namespace eqt::weights
