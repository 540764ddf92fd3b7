eqt_test(codec_unit LABEL unit LINK eqt_codec PkgConfig::hwy nlohmann_json::nlohmann_json SOURCES
  unit/codec/frame_test.cpp
  unit/codec/casts_test.cpp)
