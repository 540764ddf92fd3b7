// SPDX-License-Identifier: Apache-2.0
#include "model/averaged_views.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::model {

void AveragedViews::predict(Replica& replica, const data::Batch& batch, data::Array& out) {
  if (!differ()) return replica.predict(batch, out);
  EQT_CHECK(batch.inputs.size() == 1, "views of {} inputs", batch.inputs.size());
  seen_.inputs.resize(1);
  bool first = true;
  for (const data::View& view : data::views_of(views_)) {
    data::write_view(batch.inputs.front(), view, seen_.inputs.front());
    replica.predict(seen_, outputs_);
    const auto own = outputs_.get<float>();
    if (first) {
      std::ranges::fill(out.prepare<float>(outputs_.spec, batch.size()), 0.0f);
      first = false;
    }
    const auto mean = out.get<float>();
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += view.weight * own[i];
  }
}

}  // namespace eqt::model
