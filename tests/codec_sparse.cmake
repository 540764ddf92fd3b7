# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_sparse_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES
  unit/codec/entries_test.cpp
  unit/codec/gap_coding_test.cpp
  unit/codec/largest_test.cpp
  unit/codec/randomk_test.cpp
  unit/codec/sparse_payload_test.cpp
  unit/codec/value_coding_test.cpp)
eqt_test(codec_sparse_property LABEL property LINK eqt_codec eqt_hwy
  nlohmann_json::nlohmann_json SOURCES
  property/codec/sparse_laws_test.cpp
  ALONE property/codec/sparse_malformed_test.cpp)
eqt_test(codec_sparse_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES
  golden/codec_sparse_test.cpp)
