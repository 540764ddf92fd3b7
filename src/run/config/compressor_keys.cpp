// SPDX-License-Identifier: Apache-2.0
// The table of the section `compressor`: one line or two for each key. Everything that is known
// about a key is here and nowhere else; its default is CompressorConfig's.

#include "config/compressor_keys.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "config/document.hpp"
#include "config/field.hpp"
#include "config/nearest.hpp"
#include "core/error.hpp"

namespace eqt::config {
namespace {

using CompressorField = FieldOf<CompressorConfig>;

constexpr std::string_view kSection = "compressor.";

// The key is the member's own name, so the two cannot disagree.
#define EQT_FIELD(name_, on_resume_)                                 \
  bind<CompressorConfig>("compressor." #name_, OnResume::on_resume_, \
                         [](CompressorConfig& config) { return member_at(config.name_); })

std::vector<CompressorField> make_fields() {
  return {
      EQT_FIELD(name, must_stay)
          .says("how gradients are compressed; docs/choosing.md has what it costs in accuracy"),
      bind<CompressorConfig>("compressor.bits", OnResume::must_stay,
                             [](CompressorConfig& config) -> Member {
                               return OpenInteger{&config.bits, &config.open.bits};
                             })
          .from(2, 8)
          .in("bits")
          .says(
              "level compressors: bits per value, sign included; elastiquant families: \"auto\" = "
              "for each tensor by noise and link, with the keys of the compressor auto but menu"),
      EQT_FIELD(bucket_size, must_stay)
          .from(1, 16777216)
          .in("values")
          .says("int8 and level compressors: values that share one norm; by default 512 for qsgd, "
                "qsgd-v and the elastiquant families with norm max, 8192 for the others"),
      EQT_FIELD(norm, must_stay)
          .says("elastiquant families: scale of a bucket (qsgd-v has max, the other level "
                "compressors l2)"),
      EQT_FIELD(coding, must_stay)
          .says("level compressors: how level indices become bits; e-elastiquant: \"auto\" when "
                "unset. none, bf16: \"lossless\" sends the same values in fewer bytes"),
      EQT_FIELD(levels, must_stay)
          .says("elastiquant families: levels j = 1 ... n, n = 2^(bits - 1) - 1"),
      bind<CompressorConfig>("compressor.elasticity", OnResume::must_stay,
                             [](CompressorConfig& config) -> Member {
                               return OpenNumber{&config.elasticity, &config.open.elasticity};
                             })
          .within({0, 1e9, true, false})
          .says(
              "elastiquant families: theta of sinh and adaptive, at most 20; p < 1 of exponential; "
              "mu of mulaw; \"auto\" = the optimum; \"measured\" = from half to twice the optimum, "
              "for each tensor by noise and link"),
      EQT_FIELD(table, must_stay)
          .within({0, 1, true, false})
          .says("levels \"general\": the n levels, increasing to 1"),
      bind<CompressorConfig>(
          "compressor.rate", OnResume::must_stay,
          [](CompressorConfig& config) -> Member { return NumberOrNull{&config.rate}; })
          .from(0.02, 8)
          .in("bits")
          .says("elastiquant families: bits per value of the tensors that are compressed, headers "
                "included; null = by bits and elasticity"),
      EQT_FIELD(rounding, must_stay)
          .says(
              "unbiased compressors: how values go to a level beside them; correlated adds less "
              "noise to the mean of ranks, in the same bytes; nearest: elastiquant families, with "
              "a rate or with the bits of elastiquant; it needs error feedback"),
      EQT_FIELD(adapt_every, must_stay)
          .from(0, kMany)
          .in("steps")
          .says("alq, amq, levels \"adaptive\": steps between fits of the levels to the gradients; "
                "0 = after steps 0, 100, 2000 and each 10000th"),
      EQT_FIELD(density, must_stay)
          .within({0, 1, true, false})
          .says("topk, dgc, threshold, randomk: fraction of the values that is sent; atomo of "
                "entrywise atoms: on average"),
      EQT_FIELD(value_bits, must_stay)
          .from(1, 32)
          .in("bits")
          .says("topk, dgc, threshold, randomk: bits of each value that is sent, 1 to 8, 16 or 32; "
                "up to 8: a sign and one of 2^(value_bits - 1) magnitudes of the tensor"),
      EQT_FIELD(threshold, must_stay)
          .from(0, kHuge)
          .says("threshold: magnitudes above it are sent; 0 = about as many as the density says"),
      EQT_FIELD(unbiased, must_stay)
          .says("randomk: scale by 1 / density instead of using error feedback"),
      EQT_FIELD(rank, must_stay)
          .from(1, 32)
          .says("powersgd: rank of the factors; atomo of spectral atoms: triples sent on average"),
      EQT_FIELD(atoms, must_stay).says("atomo: what is sampled"),
      EQT_FIELD(clip, must_stay)
          .from(0, 1000)
          .in("standard deviations")
          .says("terngrad: gradients are first clipped at this many standard deviations; 0 = no "
                "clipping"),
      EQT_FIELD(warmup_epochs, must_stay)
          .from(0, 1e6)
          .in("epochs")
          .says("dgc: the density falls to its value over this many epochs; 0 = at once"),
      EQT_FIELD(clip_norm, must_stay)
          .from(0, kHuge)
          .says("dgc: clipping threshold for the norm of all ranks' gradient; each rank clips its "
                "own at this / sqrt(ranks); 0 = no clipping"),
      EQT_FIELD(momentum_masking, must_stay)
          .says("dgc: the momentum of a value that is sent begins at 0 again (momentum factor "
                "masking); false: it stays, which loses less where many values are sent"),
      EQT_FIELD(menu, must_stay)
          .says("auto: grades to choose from, of 2 to 16 compressors as \"name\", \"name:bits\", "
                "\"name:bits@factor\" of the best elasticity, \"bf16:lossless\", or "
                "\"name:rate=bits\" with error feedback; with error_feedback ef14 and no menu "
                "given: rates from 0.05 to 8"),
      EQT_FIELD(noise_share, must_stay)
          .within({0, 100, true, false})
          .says("auto: the most noise that compression may add to the mean gradient, as a multiple "
                "of the noise that the batch's gradients have anyway"),
      EQT_FIELD(noise_cap, must_stay)
          .within({0, 1000, true, false})
          .says("auto: the same limit for each tensor by itself, at least noise_share"),
      EQT_FIELD(error_share, must_stay)
          .within({0, 1, true, true})
          .says("auto with rates: the part of the squares of all that is to be sent which may stay "
                "in the memory"),
      EQT_FIELD(observe_every, must_stay)
          .from(1, kMany)
          .in("steps")
          .says("auto: steps between observations of the noise, after the first 4"),
      EQT_FIELD(decide_every, must_stay)
          .from(1, kMany)
          .in("observations")
          .says("auto: observations between decisions"),
      EQT_FIELD(link, may_change)
          .within({0, 1e9, true, false})
          .in("Mb/s")
          .says("auto: the rate of each rank's link, by which bytes become seconds; with a number "
                "the run can be repeated; \"ignore\" = the fewest bytes that the noise allows"),
      EQT_FIELD(replay, may_change)
          .text_is(TextRule::path)
          .or_null()
          .says("auto: a run's decisions.jsonl, whose decisions are taken again; null = decide"),
      EQT_FIELD(skip_below, must_stay)
          .from(0, kMany)
          .in("values")
          .says("smaller tensors and one-dimensional ones are sent as small_tensors says"),
      EQT_FIELD(small_tensors, must_stay)
          .says(
              "how tensors below skip_below and one-dimensional ones are sent, with error feedback "
              "ef14"),
      EQT_FIELD(granularity, must_stay).says("what is compressed as one vector"),
  };
}

#undef EQT_FIELD

/// The field of a key that is named within the section; nullptr if there is none.
const CompressorField* find_in_section(std::string_view name) {
  for (const CompressorField& field : compressor_fields())
    if (std::string_view(field.key).substr(kSection.size()) == name) return &field;
  return nullptr;
}

[[noreturn]] void unknown_key(const std::string& name, const std::string& origin) {
  std::vector<std::string> names;
  for (const CompressorField& field : compressor_fields())
    names.push_back(field.key.substr(kSection.size()));
  const std::string* const near = close_key(name, names);
  fail(Kind::usage, "unknown key {} in {}; {}all keys are: {}", shown_text(name), origin,
       near != nullptr ? fmt::format("the nearest is \"{}\", and ", *near) : "",
       fmt::join(names, ", "));
}

}  // namespace

const std::vector<CompressorField>& compressor_fields() {
  static const std::vector<CompressorField> table = make_fields();
  return table;
}

void choose_compressor_defaults(const std::function<bool(std::string_view)>& is_given,
                                CompressorConfig& compressor) {
  CompressorConfig own = compressor;
  if (const auto choose = compressor.name->choose_defaults) choose(own);
  for (const CompressorField& field : compressor_fields())
    if (!is_given(field.key)) field.write(compressor, field.read(own));
}

std::string CompressorConfig::why_not() const {
  if ((rate || rounding == codec::Rounding::nearest) && open.any())
    return fmt::format(
        "expected numbers for compressor.bits and compressor.elasticity with compressor.{}, with "
        "which the levels follow from the values, found one that the run finds out; leave them out",
        rate ? fmt::format("rate {}", *rate) : "rounding \"nearest\"");
  if (std::string why = codec::why_not(*name, *this); !why.empty()) return why;
  // The header of a bucket and its largest value take about so many bits.
  constexpr double kLeastBits = 64;
  if (rate && *rate * static_cast<double>(bucket_size) < kLeastBits)
    return fmt::format(
        "expected compressor.bucket_size of at least {:.0f} values with compressor.rate {}, since "
        "a bucket takes at least about {:.0f} bits, found {}; leave it out",
        std::ceil(kLeastBits / *rate), *rate, kLeastBits, bucket_size);
  return codec::why_not_open(*name, *this, open);
}

std::unique_ptr<codec::Compressor> CompressorConfig::make() const {
  return open.any() ? codec::make_open(*name, *this, open) : codec::make_compressor(*name, *this);
}

CompressorConfig parse_compressor(const std::string& name, const std::string& json_text,
                                  const std::string& origin) {
  const Json document = parse_document(json_text, origin, "compressor");
  CompressorConfig compressor;
  std::set<std::string, std::less<>> given;
  const auto take = [&](const CompressorField& field, const Json& value) {
    check_value(field, value, origin);
    field.write(compressor, value);
    given.insert(field.key);
  };
  take(*find_in_section("name"), Json(name));
  for (const auto& [key, value] : document.items()) {
    const CompressorField* const field = find_in_section(key);
    if (field == nullptr) unknown_key(key, origin);
    if (key == "name" && value != name)
      fail(Kind::usage, "{}: expected the name \"{}\" or none in the options, found {}", origin,
           name, shown(value));
    take(*field, value);
  }
  choose_compressor_defaults([&](std::string_view key) { return given.contains(key); }, compressor);
  if (const std::string why = compressor.why_not(); !why.empty())
    fail(Kind::usage, "{}: {}", origin, why);
  return compressor;
}

}  // namespace eqt::config
