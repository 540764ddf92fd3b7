eqt_test(codec_adaptive_reference LABEL golden LINK eqt_codec nlohmann_json::nlohmann_json SOURCES
  golden/adaptive_reference_test.cpp)
