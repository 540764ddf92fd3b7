// The cost cards of COSTS.md as code: what a mean over ranks sends, encodes and waits for.

#pragma once

#include <optional>
#include <string_view>

namespace eqt::collective {

/// What one synchronization has to move. Where ranks differ, their mean.
struct Volume {
  int ranks = 1;             // n
  double values = 0;         // d
  double message_bytes = 0;  // m: d values as messages of the compressor, frames included;
                             // power-sgd: both factors and what travels exactly
  double scales = 0;         // float32 that all ranks agree on before they encode (terngrad)
};

/// What it costs a rank; the mean over ranks where they differ by a run. Bytes are exact where a
/// message's length depends on its number of values alone. Where it depends on the values (entropy
/// coding), a mean's message may be longer or shorter than a gradient's, which m stands for.
struct CostCard {
  int rounds = 0;             // messages that wait for one another
  double sent_bytes = 0;      // payload and frame headers, without what TCP or MPI add
  double encoded_values = 0;  // by the compressor
  double decoded_values = 0;
  double added_values = 0;  // float32 additions outside the compressor
  int quantisations = 0;    // of a value on its way into the result
};

/// The card of a collective by its name() or its name in configs; nothing for `auto` and names that
/// have no card.
/// @pre volume.ranks >= 1
std::optional<CostCard> cost_card(std::string_view collective, const Volume& volume);

}  // namespace eqt::collective
