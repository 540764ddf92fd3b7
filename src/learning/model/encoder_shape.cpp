// SPDX-License-Identifier: Apache-2.0
// Source   Hugging Face, transformers, the members of BertConfig and DistilBertConfig

#include "model/encoder_shape.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"

namespace eqt::model {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 16;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kWidest = std::int64_t{1} << 16;
constexpr std::int64_t kMaxParameters = std::int64_t{1} << 32;  // 16 GiB, and as much per gradient

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  fail(Kind::data,
       "expected the config.json of a BERT or DistilBERT in {}, but {}; take the folder that "
       "save_pretrained() of Hugging Face's transformers writes",
       path, reason);
}

class Members {
 public:
  Members(const json& object, const std::string& path) : object_(object), path_(path) {}

  std::int64_t integer(const char* name, std::optional<std::int64_t> otherwise = {}) const {
    const auto found = object_.find(name);
    if (found == object_.end() && otherwise) return *otherwise;
    if (found == object_.end() || !found->is_number_integer())
      refuse(path_, fmt::format("its member {} is no whole number", name));
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX)
      refuse(path_, fmt::format("its member {} is too large", name));
    return found->get<std::int64_t>();
  }
  double share(const char* name, double otherwise) const {
    const auto found = object_.find(name);
    if (found == object_.end() || found->is_null()) return otherwise;
    if (!found->is_number()) refuse(path_, fmt::format("its member {} is no number", name));
    return found->get<double>();
  }
  std::string text(const char* name, const std::string& otherwise) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_string() ? found->get<std::string>() : otherwise;
  }
  /// @param expected what the member has to say where it is there
  void require(const char* name, const std::string& expected) const {
    const std::string found = text(name, expected);
    if (found != expected)
      refuse(path_, fmt::format("its member {} is \"{}\" instead of \"{}\"", name,
                                found.substr(0, 60), expected));
  }

 private:
  const json& object_;
  const std::string& path_;
};

EncoderShape bert_shape(const Members& members) {
  members.require("hidden_act", "gelu");
  members.require("position_embedding_type", "absolute");
  EncoderShape shape{.family = EncoderFamily::bert,
                     .vocabulary = members.integer("vocab_size"),
                     .positions = members.integer("max_position_embeddings"),
                     .segments = members.integer("type_vocab_size", 2),
                     .layers = members.integer("num_hidden_layers"),
                     .hidden = members.integer("hidden_size"),
                     .heads = members.integer("num_attention_heads"),
                     .intermediate = members.integer("intermediate_size"),
                     .epsilon = members.share("layer_norm_eps", 1e-12),
                     .dropout = members.share("hidden_dropout_prob", 0.1),
                     .attention_dropout = members.share("attention_probs_dropout_prob", 0.1)};
  shape.head_dropout = members.share("classifier_dropout", shape.dropout);
  return shape;
}

EncoderShape distilbert_shape(const Members& members) {
  members.require("activation", "gelu");
  return {.family = EncoderFamily::distilbert,
          .vocabulary = members.integer("vocab_size"),
          .positions = members.integer("max_position_embeddings"),
          .segments = 0,
          .layers = members.integer("n_layers"),
          .hidden = members.integer("dim"),
          .heads = members.integer("n_heads"),
          .intermediate = members.integer("hidden_dim"),
          .epsilon = 1e-12,
          .dropout = members.share("dropout", 0.1),
          .attention_dropout = members.share("attention_dropout", 0.1),
          .head_dropout = members.share("seq_classif_dropout", 0.2)};
}

/// Matrices and embeddings; what else there is does not count beside them.
/// @pre each number is within its bounds, so that the products fit
std::int64_t parameters_of(const EncoderShape& s) {
  const std::int64_t rows = s.vocabulary + s.positions + s.segments;
  return s.hidden * (rows + s.layers * (4 * s.hidden + 2 * s.intermediate));
}

/// Returns what is wrong with the sizes; "" if nothing is.
std::string complaint(const EncoderShape& s) {
  const auto within = [](std::int64_t value, std::int64_t most) {
    return value >= 1 && value <= most;
  };
  const auto is_share = [](double value) { return value >= 0 && value < 1; };
  if (!within(s.vocabulary, kMaxTokens))
    return fmt::format("1 to {} tokens, found {}", kMaxTokens, s.vocabulary);
  if (!within(s.positions, kMaxPositions))
    return fmt::format("1 to {} positions, found {}", kMaxPositions, s.positions);
  if (s.segments < 0 || s.segments > kMaxPositions)
    return fmt::format("0 to {} kinds of tokens, found {}", kMaxPositions, s.segments);
  if (!within(s.layers, kMaxLayers))
    return fmt::format("1 to {} layers, found {}", kMaxLayers, s.layers);
  if (!within(s.hidden, kWidest)) return fmt::format("1 to {} hidden, found {}", kWidest, s.hidden);
  if (!within(s.heads, s.hidden) || s.hidden % s.heads != 0)
    return fmt::format("a width of the hidden state that heads divide, found {} for {} heads",
                       s.hidden, s.heads);
  if (!within(s.intermediate, 16 * kWidest))
    return fmt::format("an intermediate width of 1 to {}, found {}", 16 * kWidest, s.intermediate);
  if (const std::int64_t all = parameters_of(s); all > kMaxParameters)
    return fmt::format("sizes that make at most {} parameters, found {}", kMaxParameters, all);
  if (!(s.epsilon > 0 && s.epsilon < 1))
    return fmt::format("an epsilon between 0 and 1, found {}", s.epsilon);
  for (const double share : {s.dropout, s.attention_dropout, s.head_dropout})
    if (!is_share(share)) return fmt::format("a dropout in [0, 1), found {}", share);
  return "";
}

}  // namespace

EncoderShape parse_encoder_config(const std::string& json_text, const std::string& path) {
  const json object = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse(path, "it is no JSON object");
  const Members members(object, path);
  const std::string kind = members.text("model_type", "");
  if (kind != "bert" && kind != "distilbert")
    refuse(path, fmt::format("its model_type is \"{}\"", kind.substr(0, 60)));
  EncoderShape shape = kind == "bert" ? bert_shape(members) : distilbert_shape(members);
  if (const std::string wrong = complaint(shape); !wrong.empty())
    fail(Kind::data, "{}: expected {}; take the folder of another model", path, wrong);
  return shape;
}

Capitals parse_tokenizer_config(const std::string& json_text) {
  const json object = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Capitals::unknown;
  const auto found = object.find("do_lower_case");
  if (found == object.end() || !found->is_boolean()) return Capitals::unknown;
  return found->get<bool>() ? Capitals::do_not : Capitals::count;
}

void check_encoder_shape(const EncoderShape& shape, std::string_view where) {
  if (const std::string wrong = complaint(shape); !wrong.empty())
    fail(Kind::usage, "{}: expected {}; choose another", where, wrong);
}

}  // namespace eqt::model
