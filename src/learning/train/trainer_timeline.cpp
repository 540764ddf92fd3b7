// SPDX-License-Identifier: Apache-2.0
// What the trainer notes of all ranks' last steps.

#include <fmt/format.h>

#include "train/trainer.hpp"

namespace eqt::train {

void Trainer::begin_timeline() {
  if (p_.timeline == nullptr) return;
  const sync::CommonClock clock = sync::agree_on_clock(p_.comm);
  p_.timeline->set_clock(clock);
  if (clock.error_seconds == 0 || p_.comm.rank() != 0) return;
  p_.sink.write(metrics::NoteRecord{
      .step = 0,
      .text = fmt::format("timeline: clocks of hosts are compared to within {:.2g} ms",
                          1000 * clock.error_seconds)});
}

void Trainer::write_timeline() {
  if (p_.timeline == nullptr) return;
  for (const metrics::TimelineRecord& record : p_.timeline->gather(p_.comm)) p_.sink.write(record);
}

}  // namespace eqt::train
