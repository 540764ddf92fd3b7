// Zip archives from outside, looked at before anything believes their lengths.

#pragma once

#include <cstdint>
#include <string>

namespace eqt::model {

/// That no record of the archive at `path` is longer than what the file holds of it: torch.save
/// stores records as they are, and one that is compressed could grow a thousandfold in memory.
/// Format: PKWARE's APPNOTE.TXT 6.3, 4.3.12 to 4.3.16, with the 64-bit fields that LibTorch writes.
/// @throws Error{data} with what is wrong with the directory or a record
void require_stored_records(const std::string& path);

}  // namespace eqt::model
