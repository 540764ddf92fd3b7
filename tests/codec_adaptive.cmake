# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_adaptive_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES
  unit/codec/adaptive_levels_test.cpp)
eqt_test(codec_adaptive_property LABEL property LINK eqt_codec eqt_hwy SOURCES
  property/codec/adaptive_laws_test.cpp)
eqt_test(codec_adaptive_golden LABEL golden LINK eqt_level_vectors eqt_hwy SOURCES
  golden/adaptive_test.cpp)
eqt_test(codec_adaptive_reference LABEL golden LINK eqt_codec nlohmann_json::nlohmann_json SOURCES
  golden/adaptive_reference_test.cpp)
eqt_test(codec_mixed_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES
  unit/codec/mixed_grades_test.cpp unit/codec/open_menu_test.cpp)
