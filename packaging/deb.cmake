# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB` in the build folder: packages equant-train, libequant-codec1 and libequant-codec-dev.

# The maintainers' name is that of CITATION.cff. They have no address, so whoever builds packages for
# others gives one, as for Debian's own tools, in the environment: DEBEMAIL, and DEBFULLNAME.
file(STRINGS ${PROJECT_SOURCE_DIR}/CITATION.cff eqt_authors REGEX "^  - name: ")
string(REGEX REPLACE "^  - name: " "" eqt_maintainer "${eqt_authors}")
if(DEFINED ENV{DEBFULLNAME})
  set(eqt_maintainer $ENV{DEBFULLNAME})
endif()
set(eqt_address $ENV{DEBEMAIL})
if(eqt_address)
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${eqt_maintainer} <${eqt_address}>")
else()
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${eqt_maintainer}")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${CPACK_DEBIAN_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_VENDOR "${eqt_maintainer}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_COMPONENTS_ALL develop)
if(CMAKE_CROSSCOMPILING AND CMAKE_LIBRARY_ARCHITECTURE STREQUAL aarch64-linux-gnu)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()

set(CPACK_DEBIAN_DEVELOP_PACKAGE_NAME libequant-codec-dev)
set(CPACK_DEBIAN_DEVELOP_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOP_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOP_PACKAGE_DEPENDS "libfmt-dev, libhwy-dev, libxxhash-dev, pkgconf")
if(TARGET equant_codec)
  string(PREPEND CPACK_DEBIAN_DEVELOP_PACKAGE_DEPENDS
    "libequant-codec1 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), ")
endif()
set(CPACK_DEBIAN_DEVELOP_PACKAGE_SUGGESTS "cmake")
set(CPACK_DEBIAN_DEVELOP_DESCRIPTION "gradient compressors for distributed training, development files
Quantizers and sparsifiers for gradients and other arrays of float32:
ElastiQuant, QSGD, NUQSGD, TernGrad, natural compression, top-k, Deep Gradient
Compression, signSGD, PowerSGD and others, with entropy codes and frames.

This package has the header of libequant_codec for C and, for C++20, a static
library with its headers; files for CMake and pkg-config, examples, and the
header for compressors that equant-train loads as plugins.")

if(TARGET equant_codec)
  list(APPEND CPACK_COMPONENTS_ALL library)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libequant-codec1)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "python3-numpy, python3-torch")
  set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "gradient compressors for distributed training, shared library
Quantizers and sparsifiers for gradients and other arrays of float32:
ElastiQuant, QSGD, NUQSGD, TernGrad, natural compression, top-k, signSGD,
PowerSGD and others, with entropy codes and frames.

This package has the library that programs load, with an interface in plain C,
and the Python package equant: arrays and tensors to bytes and back, and a
communication hook for the gradients of PyTorch's DistributedDataParallel.")
endif()

if(NOT EQT_ONLY_PORTABLE)
  list(APPEND CPACK_COMPONENTS_ALL program)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME equant-train)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
  # Libraries are found by dpkg-shlibdeps. LibTorch runs with any BLAS, but the reference one, which it
  # would install by itself, is several times slower.
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "openmpi-bin")
  if(EQT_TORCH)
    string(APPEND CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS ", libopenblas0-pthread | libblas.so.3")
  endif()
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "dataset-fashion-mnist, gnuplot-nox, python3")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS
    "curl | wget, iproute2, libequant-codec-dev, openssh-client, rsync")
  set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "train neural networks over slow networks with compressed gradients
Trains neural networks, published ones and the user's own, on all ranks of an
MPI job: on boards, machines on Wi-Fi or rented hosts without a fast
interconnect. Between the machines each gradient value takes a few bits
instead of 32.

A JSON config chooses among many compressors, several collectives and, for
networks without a fast path between all hosts, gossip with neighbours and
local SGD. Every run records its accuracy, bytes sent, bits per value and
where the time went; a run that is stopped can be resumed bit for bit.

Other verbs of the program measure hosts and links, time the compressors and
collectives, compute what theory says of them, and turn finished runs into
tables, plots and a page.")
endif()

# What only Debian's packages have is written when their files lie in place. The date is that of the
# sources, so that packages of all architectures have the same changelog.
find_package(Git QUIET)
set(eqt_given_epoch "$ENV{SOURCE_DATE_EPOCH}")
if(Git_FOUND AND NOT eqt_given_epoch)
  execute_process(COMMAND ${GIT_EXECUTABLE} log -1 --format=%ct WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE eqt_commit_seconds OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(ENV{SOURCE_DATE_EPOCH} "${eqt_commit_seconds}")
endif()
string(TIMESTAMP eqt_package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(ENV{SOURCE_DATE_EPOCH} "${eqt_given_epoch}")
set(eqt_package_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
foreach(step IN ITEMS finish library)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/${step}.cmake.in ${PROJECT_BINARY_DIR}/debian-${step}.cmake @ONLY)
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/debian-finish.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/debian-library.cmake)

include(CPack)

# All packages, without the tests that cpack by itself would wait for.
add_custom_target(debian_packages
  COMMAND ${CMAKE_CPACK_COMMAND} -G DEB --config ${PROJECT_BINARY_DIR}/CPackConfig.cmake
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
add_dependencies(debian_packages eqt_codec)
if(TARGET equant_codec)
  add_dependencies(debian_packages equant_codec)
endif()
if(NOT EQT_ONLY_PORTABLE)
  add_dependencies(debian_packages equant-train manual)
endif()
