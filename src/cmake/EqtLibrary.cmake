# SPDX-License-Identifier: Apache-2.0
# eqt_add_library(ROOM SOURCES ... [LINK ...] [PRIVATE_LINK ...] [OWN_PRECOMPILED] [UNITY] [COLD] [OBJECTS]):
# one static library per room; with OBJECTS, objects that a program links one by one. LINK lists the rooms
# and libraries that the room's headers show; PRIVATE_LINK those that only its sources use. A room that
# calls one it does not list fails to link. Headers of the standard library, fmt and (in rooms that link it)
# nlohmann/json are precompiled, but for OWN_PRECOMPILED. UNITY compiles several sources as one unit, but for
# those that Highway includes once for each instruction set. It is for rooms whose speed does not matter:
# names in unnamed namespaces must then differ between the sources of a room. COLD is for rooms that run before and
# after the work, or once for a file: they are optimized less, and take two thirds of the time to compile.
#
# Rooms are compiled as position-independent code with hidden symbols, so that libequant_codec.so is linked
# from the program's own objects. Calls and data that cannot be seen from outside are reached as in an
# executable: it costs the program no speed. OWN_PRECOMPILED leaves a room as the compiler makes it, since
# LibTorch's inline functions may have to be one function in the program and in LibTorch.

add_library(eqt_options INTERFACE)
target_compile_features(eqt_options INTERFACE cxx_std_20)
target_compile_options(eqt_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor
  -Wold-style-cast
  # Contracted multiply-adds would make a codec's bytes depend on the instruction set.
  -ffp-contract=off)
# From release 13 on GCC takes its own strings and std::vector<bool>, inlined, for writes out of bounds.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(eqt_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
# All is compiled by one compiler: how an older one passed a pair of doubles on arm64 does not matter.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  target_compile_options(eqt_options INTERFACE -Wno-psabi)
endif()
if(EQT_WARNINGS_AS_ERRORS)
  target_compile_options(eqt_options INTERFACE -Werror)
endif()
if(EQT_DCHECKS)
  target_compile_definitions(eqt_options INTERFACE EQT_DCHECKS=1)
endif()
if(EQT_SANITIZE)
  target_compile_options(eqt_options INTERFACE -fsanitize=${EQT_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(eqt_options INTERFACE -fsanitize=${EQT_SANITIZE})
endif()

if(EQT_FUZZ)  # coverage in every room, libFuzzer's main in the fuzzer alone
  # Clang 14 cannot emit the data of -fsanitize=function for coroutines.
  target_compile_options(eqt_options INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize=function)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")  # this machine's instruction set alone: half the build
    target_compile_options(eqt_options INTERFACE -march=native -mno-gfni)  # see src/codecs/codec/simd.cpp
    target_compile_definitions(eqt_options INTERFACE HWY_COMPILE_ONLY_STATIC=1)
  endif()
endif()

# Headers are named room/file.hpp, whatever folder the room stands in. eqt_rooms lists folder/room.
set(eqt_room_table ${PROJECT_SOURCE_DIR}/src/rooms.txt)
file(STRINGS ${eqt_room_table} eqt_rooms REGEX "^[a-z]")
list(TRANSFORM eqt_rooms REPLACE " *:.*" "")
list(TRANSFORM eqt_rooms REPLACE "/.*" "" OUTPUT_VARIABLE eqt_include_folders)
list(REMOVE_DUPLICATES eqt_include_folders)
list(TRANSFORM eqt_include_folders PREPEND ${PROJECT_SOURCE_DIR}/src/)

set(eqt_shareable POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

# eqt_precompile(NAME LINK ... HEADERS ...): precompiled headers, which targets with the same compiler
# options share by `target_precompile_headers(TARGET REUSE_FROM NAME)`.
function(eqt_precompile name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF ${eqt_shareable})
  target_link_libraries(${name} PRIVATE eqt_options ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

set(eqt_usual_headers
  <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <coroutine> <cstddef> <cstdint>
  <cstdio> <cstdlib> <cstring> <exception> <filesystem> <fstream> <functional> <iterator> <limits> <map>
  <memory> <mutex> <new> <numeric> <optional> <set> <span> <stdexcept> <string> <string_view>
  <system_error> <thread> <tuple> <type_traits> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
eqt_precompile(eqt_precompiled LINK fmt::fmt HEADERS ${eqt_usual_headers})
eqt_precompile(eqt_precompiled_json LINK fmt::fmt nlohmann_json::nlohmann_json
  HEADERS ${eqt_usual_headers} <nlohmann/json.hpp>)

function(eqt_add_library room)
  cmake_parse_arguments(ARG "OWN_PRECOMPILED;UNITY;COLD;OBJECTS" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  set(kind STATIC)
  if(ARG_OBJECTS)
    set(kind OBJECT)
  endif()
  add_library(eqt_${room} ${kind} ${ARG_SOURCES})
  set_target_properties(eqt_${room} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(eqt_${room} PUBLIC
    "$<BUILD_INTERFACE:${eqt_include_folders}>" $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/eqt>)
  target_compile_features(eqt_${room} PUBLIC cxx_std_20)
  target_link_libraries(eqt_${room} PUBLIC ${ARG_LINK}
    PRIVATE $<BUILD_INTERFACE:eqt_options> ${ARG_PRIVATE_LINK})
  if(ARG_COLD)
    target_compile_options(eqt_${room} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  set(own ${ARG_LINK} ${ARG_PRIVATE_LINK})
  if(ARG_OWN_PRECOMPILED)
  elseif(nlohmann_json::nlohmann_json IN_LIST own)
    target_precompile_headers(eqt_${room} REUSE_FROM eqt_precompiled_json)
  else()
    target_precompile_headers(eqt_${room} REUSE_FROM eqt_precompiled)
  endif()
  if(NOT ARG_OWN_PRECOMPILED)
    set_target_properties(eqt_${room} PROPERTIES ${eqt_shareable})
  endif()
  # A build without precompiled headers shows what a source forgets to include, each on its own.
  if(ARG_UNITY AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set_target_properties(eqt_${room} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    foreach(source IN LISTS ARG_SOURCES)
      file(STRINGS ${source} vectors REGEX HWY_TARGET_INCLUDE LIMIT_COUNT 1)
      if(vectors)
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endif()
endfunction()
