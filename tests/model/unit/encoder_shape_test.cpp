// SPDX-License-Identifier: Apache-2.0
#include "model/encoder_shape.hpp"

#include <string>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace eqt::model;
using eqt::Kind;
using eqt::test::refusal;
using eqt::test::says;

namespace {

// Those of bert-base-uncased and distilbert-base-uncased.
const std::string kBert =
    R"({"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": false, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
    "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
    "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522})";
const std::string kDistilBert =
    R"({"activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1,
    "dim": 768, "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02,
    "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12, "n_layers": 6,
    "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false,
    "tie_weights_": true, "vocab_size": 30522})";

/// With another value of a member.
std::string with(std::string text, const std::string& member, const std::string& value) {
  const std::size_t at = text.find("\"" + member + "\": ") + member.size() + 4;
  const std::size_t end = text.find_first_of(",}", at);
  return text.replace(at, end - at, value);
}

std::string refused(const std::string& text) {
  return refusal(Kind::data, [&] { parse_encoder_config(text, "config.json"); });
}

}  // namespace

TEST_CASE("the shape of a BERT and a DistilBERT", "[encoder]") {
  const EncoderShape bert = parse_encoder_config(kBert, "config.json");
  CHECK(bert == EncoderShape{.family = EncoderFamily::bert,
                             .vocabulary = 30522,
                             .positions = 512,
                             .segments = 2,
                             .layers = 12,
                             .hidden = 768,
                             .heads = 12,
                             .intermediate = 3072});
  const EncoderShape small = parse_encoder_config(kDistilBert, "config.json");
  CHECK(small.family == EncoderFamily::distilbert);
  CHECK(small.layers == 6);
  CHECK(small.segments == 0);
  CHECK(small.head_dropout == 0.2);
  CHECK(parse_encoder_config(with(kBert, "hidden_dropout_prob", "0.25"), "").head_dropout == 0.25);
}

TEST_CASE("configs of other networks are refused", "[encoder]") {
  says(refused("["), "no JSON object");
  says(refused("[]"), "no JSON object");
  says(refused("{}"), "model_type");
  says(refused(with(kBert, "model_type", "\"roberta\"")), "roberta");
  says(refused(with(kBert, "hidden_act", "\"relu\"")), "relu");
  says(refused(with(kBert, "hidden_size", "770")), "770");
  says(refused(with(kBert, "hidden_size", "\"a\"")), "hidden_size");
  says(refused(with(kBert, "num_hidden_layers", "0")), "layers");
  says(refused(with(kBert, "num_attention_heads", "0")), "heads");
  says(refused(with(kBert, "vocab_size", "18446744073709551615")), "vocab_size");
  says(refused(with(kBert, "vocab_size", "-1")), "tokens");
  says(refused(with(kBert, "layer_norm_eps", "0")), "epsilon");
  // Each number is within its own bounds.
  says(refused(with(kBert, "vocab_size", "16777216")), "found 12970231296");
  says(refused(with(kBert, "hidden_dropout_prob", "1")), "dropout");
}

TEST_CASE("tokenizer_config.json says whether capitals count", "[encoder]") {
  CHECK(parse_tokenizer_config(R"({"do_lower_case": true})") == Capitals::do_not);
  CHECK(parse_tokenizer_config(R"({"do_lower_case": false})") == Capitals::count);
  CHECK(parse_tokenizer_config(R"({"do_lower_case": 1})") == Capitals::unknown);
  CHECK(parse_tokenizer_config("{") == Capitals::unknown);
}
