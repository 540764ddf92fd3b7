# eqt_add_library(ROOM SOURCES ... [LINK ...] [PRIVATE_LINK ...]): one static library per room.
# LINK lists the rooms and libraries that the room's headers show; PRIVATE_LINK those that only its
# sources use. A room that calls one it does not list fails to link.

add_library(eqt_options INTERFACE)
target_compile_features(eqt_options INTERFACE cxx_std_20)
target_compile_options(eqt_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor
  -Wold-style-cast
  # Contracted multiply-adds would make a codec's bytes depend on the instruction set.
  -ffp-contract=off)
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
  target_compile_options(eqt_options INTERFACE -fsanitize=fuzzer-no-link)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")  # this machine's instruction set alone: half the build
    target_compile_options(eqt_options INTERFACE -march=native)
    target_compile_definitions(eqt_options INTERFACE HWY_COMPILE_ONLY_STATIC=1)
  endif()
endif()

function(eqt_add_library room)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(eqt_${room} STATIC ${ARG_SOURCES})
  set_target_properties(eqt_${room} PROPERTIES CXX_EXTENSIONS OFF)
  target_include_directories(eqt_${room} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(eqt_${room} PUBLIC ${ARG_LINK} PRIVATE eqt_options ${ARG_PRIVATE_LINK})
endfunction()
