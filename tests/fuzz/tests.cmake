# SPDX-License-Identifier: Apache-2.0
# Tests of decoders with malformed bytes. The table support/decoder_table.cpp is used by the damaged
# messages here, the fuzzer, the hashes of encoded bytes and the speed rows.

eqt_test_library(eqt_decoders LINK eqt_codec SOURCES ../support/decoder_table.cpp ../support/hostile_bytes.cpp)

if(TARGET eqt_config)
  eqt_test(decoder_table LABEL unit LINK eqt_decoders eqt_config SOURCES decoder_table_test.cpp)
endif()

# As a property it also runs under the sanitizers; by hand with --count 1000000.
eqt_tool(malformed LINK eqt_decoders SOURCES malformed.cpp)
add_dependencies(test_programs malformed)
add_test(NAME malformed COMMAND malformed --count 100000)
set_tests_properties(malformed PROPERTIES LABELS property TIMEOUT 600)

eqt_tool(codec_bytes LINK eqt_decoders eqt_hwy SOURCES codec_bytes.cpp)
add_dependencies(test_programs codec_bytes)
add_test(NAME codec_bytes COMMAND codec_bytes)
set_tests_properties(codec_bytes PROPERTIES LABELS golden TIMEOUT 600)

# The fuzzer needs a separate build with Clang: preset fuzz. The test makes it and runs it.
if(EQT_FUZZ)
  eqt_tool(codec_fuzz LINK eqt_decoders SOURCES codec_fuzz.cpp)
  target_link_options(codec_fuzz PRIVATE -fsanitize=fuzzer)
  eqt_tool(reader_fuzz LINK eqt_analyze eqt_config eqt_data eqt_forecast eqt_report eqt_topology eqt_weights ZLIB::ZLIB
    SOURCES reader_fuzz.cpp text_readers.cpp)
  target_link_options(reader_fuzz PRIVATE -fsanitize=fuzzer)
  # The readers alone: their room needs MPI and LibTorch.
  target_sources(reader_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/src/program/planner/cluster_file.cpp
    ${PROJECT_SOURCE_DIR}/src/program/planner/checked_object.cpp)
  # The reader alone: its room needs LibTorch.
  target_sources(reader_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/src/learning/model/encoder_shape.cpp)
  # The reader alone: its room writes through others that need MPI.
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/learning/checkpoint/state_file.cpp)
    target_sources(reader_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/src/learning/checkpoint/state_file.cpp)
    target_link_libraries(reader_fuzz PRIVATE eqt_xxhash)
    target_compile_definitions(reader_fuzz PRIVATE EQT_FUZZ_CHECKPOINT=1)
  endif()
elseif(NOT EQT_ONLY_PORTABLE AND NOT EQT_SANITIZE)
  add_test(NAME fuzz COMMAND ${PROJECT_SOURCE_DIR}/scripts/fuzz.sh --quick)
  set_tests_properties(fuzz PROPERTIES LABELS "fuzz;long" TIMEOUT 900 PROCESSORS 2
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()
