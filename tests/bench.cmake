# SPDX-License-Identifier: Apache-2.0
# Measurements without pass or fail: run by hand or with ctest -L bench, never by scripts/test.sh.

find_package(benchmark QUIET)
if(benchmark_FOUND)
  add_executable(codec_rows EXCLUDE_FROM_ALL bench/codec_rows.cpp)
  target_link_libraries(codec_rows PRIVATE eqt_decoders benchmark::benchmark eqt_options)
  add_test(NAME bench.codec_rows.build
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target codec_rows)
  add_test(NAME bench.codec_rows COMMAND codec_rows --benchmark_min_time=0.05)
  set_tests_properties(bench.codec_rows.build PROPERTIES LABELS bench FIXTURES_SETUP codec_rows
    TIMEOUT 300 RUN_SERIAL ON)
  set_tests_properties(bench.codec_rows PROPERTIES LABELS bench FIXTURES_REQUIRED codec_rows
    TIMEOUT 600 RUN_SERIAL ON)
endif()

add_test(NAME bench.compare_torch COMMAND ${CMAKE_CURRENT_LIST_DIR}/bench/compare_torch.sh --rounds 1)
set_tests_properties(bench.compare_torch PROPERTIES LABELS bench TIMEOUT 600 RUN_SERIAL ON
  SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]" ENVIRONMENT "EQT_PROGRAM=$<TARGET_FILE:equant-train>")

eqt_test(bench_unit LABEL unit LINK eqt_bench eqt_networks SOURCES
  bench/same_results.cpp unit/bench/convolutions_test.cpp
  unit/bench/measure_codec_test.cpp)

# Without LibTorch, which may bring a oneDNN of another version.
if(TARGET eqt_found_onednn)
  add_executable(onednn_convolutions EXCLUDE_FROM_ALL bench/onednn_convolutions.cpp bench/onednn_library.cpp
    bench/same_results.cpp)
  target_include_directories(onednn_convolutions PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(onednn_convolutions PRIVATE eqt_bench eqt_int8 eqt_model eqt_found_onednn eqt_options)
  add_test(NAME bench.onednn_convolutions.build
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target onednn_convolutions)
  add_test(NAME bench.onednn_convolutions COMMAND onednn_convolutions)
  set_tests_properties(bench.onednn_convolutions.build PROPERTIES LABELS bench FIXTURES_SETUP onednn_convolutions
    TIMEOUT 300 RUN_SERIAL ON)
  set_tests_properties(bench.onednn_convolutions PROPERTIES LABELS bench FIXTURES_REQUIRED onednn_convolutions
    TIMEOUT 600 RUN_SERIAL ON)
endif()

add_executable(integer_speed bench/integer_speed.cpp)
target_include_directories(integer_speed PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(integer_speed PRIVATE eqt_collective eqt_mpi_test_main eqt_options)

add_executable(guard_cost bench/guard_cost.cpp)
target_include_directories(guard_cost PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(guard_cost PRIVATE eqt_train eqt_codec eqt_xxhash eqt_mpi_test_main
  eqt_options)

if(TARGET equant_codec)
  add_test(NAME bench.ddp_hook COMMAND ${CMAKE_CURRENT_LIST_DIR}/bench/ddp_hook.sh)
  set_tests_properties(bench.ddp_hook PROPERTIES LABELS bench TIMEOUT 600 RUN_SERIAL ON
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]" ENVIRONMENT "EQUANT_CODEC_LIBRARY=$<TARGET_FILE:equant_codec>")
endif()

add_test(NAME bench.plan_laboratory COMMAND ${CMAKE_CURRENT_LIST_DIR}/bench/plan_laboratory.py --every 5 --steps 6
  $<TARGET_FILE:equant-train>)
set_tests_properties(bench.plan_laboratory PROPERTIES LABELS bench TIMEOUT 1800 RUN_SERIAL ON
  SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
