# SPDX-License-Identifier: Apache-2.0
# Frames, casts, the catalogue, dispatch by instruction set, and terngrad of signs/.
eqt_test(codec_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES unit/frame_test.cpp unit/casts_test.cpp unit/catalogue_test.cpp unit/simd_test.cpp unit/terngrad_test.cpp)
eqt_test(codec_property LABEL property LINK eqt_codec eqt_hwy
  SOURCES property/basic_laws_test.cpp property/correlated_laws_test.cpp property/damped_laws_test.cpp)
eqt_test(codec_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/codec_basic_test.cpp)

# levels/
eqt_test(codec_levels_unit LABEL unit LINK eqt_codec eqt_hwy
  SOURCES unit/bit_stream_test.cpp unit/elias_test.cpp unit/huffman_test.cpp unit/level_kernels_test.cpp
    unit/level_usage_test.cpp unit/levels_test.cpp)
eqt_test(codec_levels_property LABEL property TIMEOUT 300 LINK eqt_codec eqt_hwy
  SOURCES property/level_laws_test.cpp
  ALONE property/level_malformed_test.cpp)
eqt_test_library(eqt_level_vectors LINK eqt_codec nlohmann_json::nlohmann_json SOURCES ../support/level_vectors.cpp)
eqt_test(codec_levels_golden LABEL golden LINK eqt_level_vectors eqt_hwy
  SOURCES golden/levels_test.cpp golden/level_vectors_test.cpp)
eqt_test(codec_levels_reference LABEL golden LINK eqt_level_vectors SOURCES golden/level_reference_test.cpp)
eqt_test(codec_adaptive_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES unit/adaptive_levels_test.cpp)
eqt_test(codec_adaptive_property LABEL property LINK eqt_codec eqt_hwy SOURCES property/adaptive_laws_test.cpp)
eqt_test(codec_adaptive_golden LABEL golden LINK eqt_level_vectors eqt_hwy SOURCES golden/adaptive_test.cpp)
eqt_test(codec_adaptive_reference LABEL golden LINK eqt_codec nlohmann_json::nlohmann_json
  SOURCES golden/adaptive_reference_test.cpp)

# entropy/
eqt_test(codec_entropy_unit LABEL unit LINK eqt_codec eqt_hwy
  SOURCES unit/code_kernels_test.cpp unit/gap_code_test.cpp unit/rans_test.cpp)
eqt_test(codec_entropy_property LABEL property TIMEOUT 300 LINK eqt_codec eqt_hwy
  SOURCES property/entropy_laws_test.cpp)

# rate/
eqt_test(codec_rate_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES unit/nested_gaps_test.cpp)
eqt_test(codec_rate_property LABEL property TIMEOUT 300 LINK eqt_codec eqt_hwy SOURCES property/rate_laws_test.cpp)

# lossless/
eqt_test(codec_lossless_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES unit/lossless_test.cpp)
eqt_test(codec_lossless_property LABEL property LINK eqt_codec eqt_hwy SOURCES property/lossless_laws_test.cpp)
eqt_test(codec_lossless_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/lossless_test.cpp)

# sparse/
eqt_test(codec_sparse_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES unit/entries_test.cpp unit/gap_coding_test.cpp unit/largest_test.cpp unit/randomk_test.cpp
    unit/sparse_payload_test.cpp unit/value_coding_test.cpp)
eqt_test(codec_sparse_property LABEL property LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES property/sparse_laws_test.cpp
  ALONE property/sparse_malformed_test.cpp)
eqt_test(codec_sparse_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/codec_sparse_test.cpp)

# The rest of signs/, int8 and natural compression
eqt_test(codec_simple_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES unit/int8_test.cpp unit/natural_test.cpp
  ALONE unit/sign_test.cpp)
eqt_test(codec_simple_property LABEL property LINK eqt_codec eqt_hwy SOURCES property/simple_laws_test.cpp)
eqt_test(codec_simple_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/codec_simple_test.cpp)

# low_rank/
eqt_test(codec_low_rank_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES unit/atoms_test.cpp unit/low_rank_test.cpp)
eqt_test(codec_low_rank_property LABEL property LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES property/low_rank_laws_test.cpp)
eqt_test(codec_low_rank_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/low_rank_test.cpp)

# integer/
eqt_test(codec_integer_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES unit/integer_kernels_test.cpp)
eqt_test(codec_integer_property LABEL property LINK eqt_decoders eqt_hwy SOURCES property/integer_laws_test.cpp)
eqt_test(codec_integer_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/integer_test.cpp)

# mixed/
eqt_test(codec_mixed_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES unit/mixed_grades_test.cpp unit/open_menu_test.cpp)

# Every compressor, encoded and decoded by several threads.
eqt_test(codec_parallel LABEL property LINK eqt_decoders
  SOURCES property/parallel_laws_test.cpp property/parallel_malformed_test.cpp)

# Compressors in shared objects: the example, and one plugin for each violation of the interface.
function(eqt_plugin name source)
  add_library(${name} MODULE EXCLUDE_FROM_ALL ${source})
  set_target_properties(${name} PROPERTIES C_STANDARD 99 PREFIX "" LIBRARY_OUTPUT_DIRECTORY
    ${CMAKE_CURRENT_BINARY_DIR}/plugins)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  list(APPEND EQT_PLUGINS ${name})
  set(EQT_PLUGINS ${EQT_PLUGINS} PARENT_SCOPE)
endfunction()

set(bad_plugin ${PROJECT_SOURCE_DIR}/tests/support/plugins/bad_plugin.c)
eqt_plugin(mean_sign ${PROJECT_SOURCE_DIR}/docs/examples/mean_sign.c)
foreach(way IN ITEMS NO_SYMBOL OTHER_VERSION CRASHES WRITES_PAST NOT_DETERMINISTIC REFUSES_OPTIONS
        BAD_NAME TAKEN_NAME FAILS_TO_ENCODE CRASHES_AT_SIZE USES_UP_THE_STACK ROUNDS_UPWARD)
  string(TOLOWER ${way} name)
  string(REPLACE "_" "-" compressor ${name})
  eqt_plugin(${name} ${bad_plugin} BAD=${way} EQT_PLUGIN_NAME="${compressor}")
endforeach()
eqt_plugin(floats ${bad_plugin} EQT_PLUGIN_NAME="floats")

eqt_test(codec_plugin LABEL unit LINK eqt_codec SOURCES unit/plugin_test.cpp)
target_compile_definitions(codec_plugin PRIVATE EQT_PLUGIN_DIR="${CMAKE_CURRENT_BINARY_DIR}/plugins")
add_dependencies(codec_plugin ${EQT_PLUGINS})
