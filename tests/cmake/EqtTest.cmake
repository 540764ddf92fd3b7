# SPDX-License-Identifier: Apache-2.0
# eqt_test(NAME LABEL unit LINK ... SOURCES ... [ALONE ...]): one Catch2 program, one CTest entry. Sources under ALONE
# have names that others have, too.
# eqt_mpi_test(NAME RANKS 1 2 3 4 LINK ... SOURCES ...): one Catch2 program with the MPI runner, one CTest entry per
# rank count, named NAME.Nranks.
# eqt_test_library(NAME LINK ... SOURCES ...): code that several tests share.
# eqt_tool(NAME [NOT_IN_ALL] LINK ... SOURCES ...): a program with a main of its own that is no test, or one whose
# add_test follows; NOT_IN_ALL leaves it out of a usual build.
# Sources are named from the folder of the tests.cmake that lists them.
# Target test_programs: all test programs, without benchmarks and fuzzers.

add_custom_target(test_programs)

# Sanitized programs are slow, and MPI is built without sanitizers: it causes false reports of
# races, and leaks of its plugins have no symbols after unloading, so leaks are searched only in
# tests of one process.
set(EQT_TEST_SLOWDOWN 1)
set(EQT_SANITIZER_ENVIRONMENT "")
set(EQT_MPI_SANITIZER_ENVIRONMENT "")
if(EQT_SANITIZE)
  set(EQT_TEST_SLOWDOWN 10)
  set(EQT_SANITIZER_ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:print_suppressions=0")
  set(EQT_MPI_SANITIZER_ENVIRONMENT "${EQT_SANITIZER_ENVIRONMENT};ASAN_OPTIONS=detect_leaks=0")
elseif(CMAKE_CROSSCOMPILING)  # an emulator runs them
  set(EQT_TEST_SLOWDOWN 10)
endif()

# Compiling the tests' own code takes longer than running it, so it is not optimized; the libraries
# are.
set(EQT_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)

# Catch2 itself takes as long to compile as twenty tests.
add_library(eqt_test_runner STATIC ${PROJECT_SOURCE_DIR}/tests/support/runner.cpp)
target_include_directories(eqt_test_runner PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(eqt_test_runner PUBLIC Catch2::Catch2)
target_compile_features(eqt_test_runner PUBLIC cxx_std_20)
target_compile_options(eqt_test_runner PRIVATE ${EQT_TEST_OPTIONS})
add_library(eqt_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/main.cpp)
target_link_libraries(eqt_test_main PUBLIC eqt_test_runner)

# Headers of tests are precompiled, too: in programs that link nlohmann/json with it, in those that include LibTorch
# with what the room model precompiles of it.
set(eqt_test_headers ${eqt_usual_headers} <random> <sstream> ${PROJECT_SOURCE_DIR}/tests/support/catch.hpp)
eqt_precompile(eqt_precompiled_tests LINK fmt::fmt Catch2::Catch2 HEADERS ${eqt_test_headers})
eqt_precompile(eqt_precompiled_tests_json LINK fmt::fmt Catch2::Catch2 nlohmann_json::nlohmann_json
  HEADERS ${eqt_test_headers} <nlohmann/json.hpp>)
foreach(name IN ITEMS eqt_precompiled_tests eqt_precompiled_tests_json)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF CXX_VISIBILITY_PRESET default
    VISIBILITY_INLINES_HIDDEN OFF)
  target_compile_options(${name} PRIVATE ${EQT_TEST_OPTIONS})
endforeach()

# eqt_precompile_test(NAME LIBRARIES...): for the target NAME, which links these.
function(eqt_precompile_test name)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  if(eqt_torch IN_LIST ARGN)
    target_compile_definitions(${name} PRIVATE FMT_HEADER_ONLY=1)  # as there
    target_precompile_headers(${name} REUSE_FROM eqt_model_torch)
  elseif(nlohmann_json::nlohmann_json IN_LIST ARGN)
    target_precompile_headers(${name} REUSE_FROM eqt_precompiled_tests_json)
  else()
    target_precompile_headers(${name} REUSE_FROM eqt_precompiled_tests)
  endif()
endfunction()

# Into `out`: SOURCES as absolute paths.
function(eqt_from_here out)
  set(paths "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_LIST_DIR} NORMALIZE)
    list(APPEND paths ${source})
  endforeach()
  set(${out} ${paths} PARENT_SCOPE)
endfunction()

function(eqt_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;ALONE;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ARG_TIMEOUT "${EQT_TEST_SLOWDOWN} * ${ARG_TIMEOUT}")
  eqt_from_here(sources ${ARG_SOURCES})
  eqt_from_here(alone ${ARG_ALONE})
  add_executable(${name} ${sources} ${alone})
  add_dependencies(test_programs ${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE EQT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} eqt_test_main eqt_options)
  target_compile_options(${name} PRIVATE ${EQT_TEST_OPTIONS})
  eqt_precompile_test(${name} ${ARG_LINK})
  # Six sources are compiled as one, which halves the time, as in the rooms.
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "OMP_NUM_THREADS=1;${EQT_SANITIZER_ENVIRONMENT}" SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endfunction()

# Settings that Open MPI needs to run as root or with more ranks than cores. Each job has its own
# folder for MPI's files, because a job that ends removes files of others from a shared one. Other
# MPIs ignore them.
set(EQT_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma,xpmem,knem
    OMP_NUM_THREADS=1)

function(eqt_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  eqt_from_here(sources ${ARG_SOURCES})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} Catch2::Catch2 PRIVATE eqt_options)
  target_compile_options(${name} PRIVATE ${EQT_TEST_OPTIONS})
endfunction()

function(eqt_tool name)
  cmake_parse_arguments(ARG "NOT_IN_ALL" "" "SOURCES;LINK" ${ARGN})
  eqt_from_here(sources ${ARG_SOURCES})
  set(all "")
  if(ARG_NOT_IN_ALL)
    set(all EXCLUDE_FROM_ALL)
  endif()
  add_executable(${name} ${all} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} eqt_options)
endfunction()

if(NOT EQT_ONLY_PORTABLE)
  eqt_test_library(eqt_mpi_test_main SOURCES ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp
    LINK eqt_comm eqt_test_runner MPI::MPI_CXX)
endif()

function(eqt_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "RANKS;SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  math(EXPR ARG_TIMEOUT "${EQT_TEST_SLOWDOWN} * ${ARG_TIMEOUT}")
  eqt_from_here(sources ${ARG_SOURCES})
  add_executable(${name} ${sources})
  add_dependencies(test_programs ${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} eqt_mpi_test_main eqt_options)
  target_compile_options(${name} PRIVATE ${EQT_TEST_OPTIONS})
  eqt_precompile_test(${name} ${ARG_LINK})
  foreach(ranks IN LISTS ARG_RANKS)
    set(processors 2)
    if(ranks EQUAL 1)
      set(processors 1)
    endif()
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/mpi/${name}.${ranks})
    set(environment ${EQT_MPI_ENVIRONMENT} OMPI_MCA_orte_tmpdir_base=${folder}
        PRTE_MCA_prte_tmpdir_base=${folder} ${EQT_MPI_SANITIZER_ENVIRONMENT})
    add_test(NAME ${name}.${ranks}ranks
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.${ranks}ranks PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT}
      PROCESSORS ${processors} ENVIRONMENT "${environment}")
  endforeach()
endfunction()
