# SPDX-License-Identifier: Apache-2.0
# Debian's cross compiler for arm64, and qemu to run what it builds. arm64 libraries are those that
# scripts/test_arm64.sh unpacks into build/arm64-root. Where EQT_ARM64_FROM_SYSTEM is in the environment, as
# in the Debian of packaging/build_for_arm64.sh, they are those that the system has beside its own.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(root ${CMAKE_CURRENT_LIST_DIR}/../../build/arm64-root)
cmake_path(NORMAL_PATH root)
set(libraries ${root}/usr/lib/aarch64-linux-gnu)
if(NOT DEFINED ENV{EQT_ARM64_FROM_SYSTEM})
  set(CMAKE_FIND_ROOT_PATH ${root} /usr/aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
  set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu
      -E LD_LIBRARY_PATH=${libraries}:${root}/lib/aarch64-linux-gnu)
  set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}:${root}/lib/aarch64-linux-gnu")
  # libjpeg's header includes one that differs between architectures.
  foreach(language IN ITEMS C CXX)
    set(CMAKE_${language}_FLAGS_INIT "-idirafter ${root}/usr/include/aarch64-linux-gnu")
  endforeach()
else()
  set(root "")
  set(libraries /usr/lib/aarch64-linux-gnu)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
endif()
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${root}/usr/share/pkgconfig)

# MPI's compiler wrapper is a program for arm64: what it would say.
if(EXISTS ${libraries}/openmpi/lib/libmpi.so)
  set(MPI_SKIP_COMPILER_WRAPPER ON CACHE BOOL "Whether MPI is found without asking its compiler wrapper")
  set(MPI_CXX_LIB_NAMES mpi CACHE STRING "MPI's libraries")
  set(MPI_mpi_LIBRARY ${libraries}/openmpi/lib/libmpi.so CACHE FILEPATH "MPI's library")
  set(MPI_CXX_HEADER_DIR ${libraries}/openmpi/include CACHE PATH "MPI's headers")
endif()
