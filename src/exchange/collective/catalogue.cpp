// SPDX-License-Identifier: Apache-2.0
#include "collective/catalogue.hpp"

#include "collective/collective.hpp"
#include "collective/worker_mean.hpp"
#include "core/error.hpp"

namespace eqt::collective {

const CollectiveRow kAutomatic = {
    .name = "auto",
    .about =
        "the fastest of those that work with the compressor, in a simulated exchange; "
        "config.json names it",
    .make =
        [](const CollectiveParts& parts) {
          return choose_collective(parts.compressor, parts.plan.front().end, parts.comm.size())
              .make(parts);
        },
    .make_for_workers =
        [](const WorkerParts& parts) {
          return parts.compressor.properties().is_float32()
                     ? make_worker_dense(parts.plan, parts.workers)
                     : make_worker_allgather(parts.compressor, parts.plan, parts.workers);
        },
    .carries_int8_segments = true};

const Catalogue<CollectiveRow>& CollectiveRow::all() {
#define EQT_COLLECTIVE(row) row,
  static const Catalogue<CollectiveRow> rows = {
#include "collective/collectives.def"
  };
#undef EQT_COLLECTIVE
  return rows;
}

std::string_view why_not(const CollectiveRow& row, const codec::Compressor& compressor) {
  if (row.why_not == nullptr) return {};
  if (compressor.properties().averages_itself)
    return "averages messages, where factors are averaged by a collective of their own";
  return row.why_not(compressor);
}

std::string refusal(const CollectiveRow& row, const codec::Compressor& compressor,
                    std::string_view why) {
  std::string suitable;
  for (const Entry<CollectiveRow> other : CollectiveRow::all())
    if (why_not(*other, compressor).empty())
      suitable += fmt::format("{}\"{}\"", suitable.empty() ? "" : ", ", other->name);
  return fmt::format(
      "expected synchronization.collective to be one of {}, found \"{}\", which {}, for the "
      "compressor \"{}\"; set it to \"auto\"",
      suitable, row.name, why, codec::codec_name(compressor.id()));
}

void require_carries(const CollectiveRow& row, const codec::Compressor& compressor) {
  if (const std::string_view why = why_not(row, compressor); !why.empty())
    fail(Kind::usage, "{}", refusal(row, compressor, why));
}

const CollectiveRow& choose_collective(const codec::Compressor& compressor, std::size_t values,
                                       int ranks) {
  const codec::Properties properties = compressor.properties();
  if (properties.is_float32()) return kDense;
  if (properties.averages_itself) return kPowerSgd;
  return scatter_pays(compressor, values, static_cast<std::size_t>(ranks)) ? kScatterReduce
                                                                           : kAllgather;
}

}  // namespace eqt::collective
