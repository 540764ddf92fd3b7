eqt_test(codec_adaptive_unit LABEL unit LINK eqt_codec PkgConfig::hwy SOURCES
  unit/codec/adaptive_levels_test.cpp)
eqt_test(codec_adaptive_property LABEL property LINK eqt_codec PkgConfig::hwy SOURCES
  property/codec/adaptive_laws_test.cpp)
eqt_test(codec_adaptive_golden LABEL golden LINK eqt_level_vectors PkgConfig::hwy SOURCES
  golden/adaptive_test.cpp)
eqt_test(codec_adaptive_reference LABEL golden LINK eqt_codec nlohmann_json::nlohmann_json SOURCES
  golden/adaptive_reference_test.cpp)
