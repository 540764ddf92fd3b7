# SPDX-License-Identifier: Apache-2.0
# Tests of the room bench, and the programs that measure, which stand beside them: these do not pass or fail, and run
# by hand or with ctest -L bench, never by scripts/test.sh.

eqt_tool(entropy_speed LINK eqt_codec SOURCES entropy_speed.cpp)
eqt_tool(low_rank_speed LINK eqt_codec SOURCES low_rank_speed.cpp)

# What scripts/count_neon.sh counts the instructions of; the addresses are those of its disassembly.
eqt_tool(pass_once NOT_IN_ALL LINK eqt_codec eqt_int8 SOURCES pass_once.cpp)
target_link_options(pass_once PRIVATE -no-pie)

if(TARGET eqt_torch)
  eqt_tool(train_throughput LINK eqt_networks SOURCES train_throughput.cpp)
  eqt_tool(norm_throughput LINK eqt_networks eqt_torch SOURCES norm_throughput.cpp)
  eqt_tool(rounding_noise NOT_IN_ALL LINK eqt_networks eqt_analyze eqt_theory SOURCES rounding_noise.cpp)
  eqt_tool(gradient_fidelity LINK eqt_networks eqt_data SOURCES gradient_fidelity.cpp)
endif()
if(EQT_ONLY_PORTABLE)
  return()
endif()

eqt_test(bench_unit LABEL unit LINK eqt_bench eqt_networks
  SOURCES same_results.cpp unit/convolutions_test.cpp unit/measure_codec_test.cpp)

# Without LibTorch, which may bring a oneDNN of another version.
if(TARGET eqt_found_onednn)
  eqt_tool(onednn_convolutions NOT_IN_ALL LINK eqt_bench eqt_int8 eqt_model eqt_found_onednn
    SOURCES onednn_convolutions.cpp onednn_library.cpp same_results.cpp)
  add_test(NAME bench.onednn_convolutions.build
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target onednn_convolutions)
  add_test(NAME bench.onednn_convolutions COMMAND onednn_convolutions)
  set_tests_properties(bench.onednn_convolutions.build PROPERTIES LABELS bench FIXTURES_SETUP onednn_convolutions
    TIMEOUT 300 RUN_SERIAL ON)
  set_tests_properties(bench.onednn_convolutions PROPERTIES LABELS bench FIXTURES_REQUIRED onednn_convolutions
    TIMEOUT 600 RUN_SERIAL ON)
endif()

eqt_tool(integer_speed LINK eqt_collective eqt_mpi_test_main SOURCES integer_speed.cpp)
eqt_tool(guard_cost LINK eqt_train eqt_codec eqt_xxhash eqt_mpi_test_main SOURCES guard_cost.cpp)

find_package(benchmark QUIET)
if(benchmark_FOUND)
  eqt_tool(codec_rows NOT_IN_ALL LINK eqt_decoders benchmark::benchmark SOURCES codec_rows.cpp)
  add_test(NAME bench.codec_rows.build
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target codec_rows)
  add_test(NAME bench.codec_rows COMMAND codec_rows --benchmark_min_time=0.05)
  set_tests_properties(bench.codec_rows.build PROPERTIES LABELS bench FIXTURES_SETUP codec_rows
    TIMEOUT 300 RUN_SERIAL ON)
  set_tests_properties(bench.codec_rows PROPERTIES LABELS bench FIXTURES_REQUIRED codec_rows
    TIMEOUT 600 RUN_SERIAL ON)
endif()

add_test(NAME bench.compare_torch COMMAND ${CMAKE_CURRENT_LIST_DIR}/compare_torch.sh --rounds 1)
set_tests_properties(bench.compare_torch PROPERTIES LABELS bench TIMEOUT 600 RUN_SERIAL ON
  SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]" ENVIRONMENT "EQT_PROGRAM=$<TARGET_FILE:equant-train>")

if(TARGET equant_codec)
  add_test(NAME bench.ddp_hook COMMAND ${CMAKE_CURRENT_LIST_DIR}/ddp_hook.sh)
  set_tests_properties(bench.ddp_hook PROPERTIES LABELS bench TIMEOUT 600 RUN_SERIAL ON
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]" ENVIRONMENT "EQUANT_CODEC_LIBRARY=$<TARGET_FILE:equant_codec>")
endif()

add_test(NAME bench.plan_laboratory COMMAND ${CMAKE_CURRENT_LIST_DIR}/plan_laboratory.py --every 5 --steps 6
  $<TARGET_FILE:equant-train>)
set_tests_properties(bench.plan_laboratory PROPERTIES LABELS bench TIMEOUT 1800 RUN_SERIAL ON
  SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
