eqt_test(codec_simple_unit LABEL unit LINK eqt_codec PkgConfig::hwy nlohmann_json::nlohmann_json
  SOURCES
  unit/codec/int8_test.cpp
  unit/codec/natural_test.cpp
  unit/codec/sign_test.cpp)
