// SPDX-License-Identifier: Apache-2.0
// Outputs of a network for several views of each picture, averaged. No torch.

#pragma once

#include "data/views.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// Its memory is used again from batch to batch.
class AveragedViews {
 public:
  explicit AveragedViews(data::TestViews views) : views_(views) {}

  /// False: the network sees the pictures as they are, and evaluate() need not be replaced.
  bool differ() const { return views_ != data::TestViews::plain; }
  /// Fills `out` as Replica::predict(), with the weighted mean over the views.
  /// @pre pictures are the batch's only input
  void predict(Replica& replica, const data::Batch& batch, data::Array& out);

 private:
  data::TestViews views_;
  data::Batch seen_;
  data::Array outputs_;
};

}  // namespace eqt::model
