# SPDX-License-Identifier: Apache-2.0
# Finds what the program stands on; never downloads, never builds. Each failure names the Debian
# package. See README.md beside this file for what each one is for.

macro(eqt_need name package)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} was not found: install Debian's ${package}, or point "
                        "CMAKE_PREFIX_PATH at your own.")
  endif()
endmacro()

include(CheckCXXSourceCompiles)
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
eqt_need(PkgConfig pkg-config)

find_package(fmt QUIET)
eqt_need(fmt libfmt-dev)
find_package(nlohmann_json QUIET)
eqt_need(nlohmann_json nlohmann-json3-dev)
pkg_check_modules(hwy QUIET IMPORTED_TARGET libhwy)
eqt_need(hwy libhwy-dev)
# Kernels are compiled for SSE4, AVX2 and AVX-512 or for NEON, and as portable code, which HWY_WANT_SSE4
# would take away: it makes SSE4 what every processor is expected to have. Left out are SSSE3,
# which is the best set only of processors from before 2009 (they use the portable code), and scalable
# vectors (SVE, RVV), which have no fixed length at compile time.
add_library(eqt_hwy INTERFACE)
target_link_libraries(eqt_hwy INTERFACE PkgConfig::hwy)
target_compile_definitions(eqt_hwy INTERFACE
  "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128|HWY_RVV)")

pkg_check_modules(xxhash QUIET IMPORTED_TARGET libxxhash)
eqt_need(xxhash libxxhash-dev)
add_library(eqt_xxhash INTERFACE)
target_link_libraries(eqt_xxhash INTERFACE PkgConfig::xxhash)
# Debian's library for x86 carries the functions that pick an instruction set at run time.
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::xxhash)
check_cxx_source_compiles(
  "#include <xxh_x86dispatch.h>
   int main() { return static_cast<int>(XXH3_64bits_withSeed_dispatch(\"\", 0, 0)); }"
  EQT_XXHASH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
if(EQT_XXHASH_DISPATCH)
  target_compile_definitions(eqt_xxhash INTERFACE EQT_XXHASH_DISPATCH=1)
endif()

# What follows is for more than the compressors.
if(EQT_ONLY_CODECS)
  return()
endif()

find_package(ZLIB QUIET)
eqt_need(ZLIB zlib1g-dev)

pkg_check_modules(libzip QUIET IMPORTED_TARGET libzip)
eqt_need(libzip libzip-dev)
pkg_check_modules(isal QUIET IMPORTED_TARGET libisal)
eqt_need(isal libisal-dev)
pkg_check_modules(utf8proc QUIET IMPORTED_TARGET libutf8proc)
eqt_need(utf8proc libutf8proc-dev)
find_package(PNG QUIET)
eqt_need(PNG libpng-dev)
find_package(JPEG QUIET)
eqt_need(JPEG libjpeg62-turbo-dev)
# Decoding a part of a picture is what libjpeg-turbo adds to libjpeg.
set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
check_cxx_source_compiles(
  "#include <cstdio>
   #include <jpeglib.h>
   int main() { jpeg_crop_scanline(nullptr, nullptr, nullptr); return 0; }"
  EQT_JPEG_CROPS)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT EQT_JPEG_CROPS)
  message(FATAL_ERROR "This libjpeg has no jpeg_crop_scanline: install libjpeg-turbo, Debian's libjpeg62-turbo-dev.")
endif()
pkg_check_modules(libwebp QUIET IMPORTED_TARGET libwebp)
eqt_need(libwebp libwebp-dev)
pkg_check_modules(libarchive QUIET IMPORTED_TARGET libarchive)
eqt_need(libarchive libarchive-dev)

find_package(Eigen3 QUIET)
eqt_need(Eigen3 libeigen3-dev)

if(EQT_TESTS)
  find_package(Catch2 QUIET)
  eqt_need(Catch2 catch2)
endif()

# The C++ bindings of MPI are deprecated, and linking them would cost an extra library.
set(MPI_CXX_SKIP_MPICXX ON)
set(MPI_DETERMINE_LIBRARY_VERSION ON)

# What follows is for the rooms that talk to other ranks or to LibTorch, and for the program.
if(EQT_ONLY_PORTABLE)
  if(NOT CMAKE_CROSSCOMPILING OR MPI_SKIP_COMPILER_WRAPPER)  # a wrapper would find this machine's
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  return()
endif()

find_package(CLI11 QUIET)
eqt_need(CLI11 libcli11-dev)

find_package(MPI QUIET COMPONENTS CXX)
eqt_need(MPI "libopenmpi-dev and openmpi-bin")
# Debian's Open MPI is linked in a folder of its own and loaded from the system's: no search path for it.
if(CMAKE_LIBRARY_ARCHITECTURE)
  list(APPEND CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/lib)
endif()

# Optional, for a comparison. Not by its find_package, which ends with an error where there is no OpenCL.
# Version 3 has another interface; OpenMP's threads are those that tests/bench/onednn_library.cpp limits to one.
find_library(EQT_ONEDNN_LIBRARY dnnl)
find_package(OpenMP QUIET COMPONENTS CXX)
if(EQT_ONEDNN_LIBRARY AND OpenMP_CXX_FOUND AND NOT EQT_SANITIZE)
  set(CMAKE_REQUIRED_LIBRARIES ${EQT_ONEDNN_LIBRARY} OpenMP::OpenMP_CXX)
  check_cxx_source_compiles(
    "#include <oneapi/dnnl/dnnl.hpp>
     #if DNNL_VERSION_MAJOR != 2 || DNNL_CPU_RUNTIME != DNNL_RUNTIME_OMP
     #error
     #endif
     int main() { return dnnl::version()->major; }"
    EQT_ONEDNN)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(EQT_ONEDNN)
  add_library(eqt_found_onednn INTERFACE)
  target_link_libraries(eqt_found_onednn INTERFACE ${EQT_ONEDNN_LIBRARY} OpenMP::OpenMP_CXX)
endif()

# Optional, to export networks. Not by its find_package, whose targets name libraries that Debian does not install.
find_library(EQT_ONNX_LIBRARY onnx)
find_library(EQT_ONNX_PROTO_LIBRARY onnx_proto)
find_library(EQT_PROTOBUF_LIBRARY protobuf)
if(EQT_ONNX_LIBRARY AND EQT_ONNX_PROTO_LIBRARY AND EQT_PROTOBUF_LIBRARY)
  set(CMAKE_REQUIRED_LIBRARIES ${EQT_ONNX_LIBRARY} ${EQT_ONNX_PROTO_LIBRARY} ${EQT_PROTOBUF_LIBRARY})
  check_cxx_source_compiles(
    "#define ONNX_NAMESPACE onnx
     #define ONNX_ML 1
     #include <onnx/checker.h>
     #include <onnx/onnx_pb.h>
     #include <onnx/shape_inference/implementation.h>
     int main() {
       onnx::ModelProto model;
       onnx::checker::check_model(model);
       onnx::shape_inference::InferShapes(model);
     }"
    EQT_ONNX)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(EQT_ONNX)
  add_library(eqt_found_onnx INTERFACE)
  target_link_libraries(eqt_found_onnx INTERFACE ${EQT_ONNX_LIBRARY} ${EQT_ONNX_PROTO_LIBRARY} ${EQT_PROTOBUF_LIBRARY})
else()
  message(STATUS "Export to ONNX is off, for its library was not found: install Debian's libonnx-dev and libprotobuf-dev to have it")
endif()

if(NOT EQT_TORCH)
  return()
endif()
# The one door to LibTorch: only src/learning/model/torch links it.
add_library(eqt_torch INTERFACE)
# NVIDIA devices train where LibTorch was built for them.
set(eqt_torch_cuda OFF)
if(EQT_CUDA AND NOT EQT_TORCH_CPU_ONLY)
  find_library(EQT_TORCH_CUDA_LIBRARY torch_cuda PATH_SUFFIXES lib)
  find_library(EQT_C10_CUDA_LIBRARY c10_cuda PATH_SUFFIXES lib)
  if(EQT_TORCH_CUDA_LIBRARY AND EQT_C10_CUDA_LIBRARY)
    set(eqt_torch_cuda ON)
  else()
    message(STATUS "Training on NVIDIA devices is off, for this LibTorch was built without CUDA: to have it, name "
                   "the folder torch of a wheel for CUDA in CMAKE_PREFIX_PATH")
  endif()
endif()
if(EQT_TORCH_CPU_ONLY OR eqt_torch_cuda)
  # Not find_package(Torch), which ends with an error where no CUDA toolkit fits the build for CUDA that is found.
  find_library(EQT_TORCH_CPU_LIBRARY torch_cpu PATH_SUFFIXES lib)
  find_library(EQT_C10_LIBRARY c10 PATH_SUFFIXES lib)
  find_path(EQT_TORCH_INCLUDE_DIR torch/csrc/api/include/torch/torch.h PATH_SUFFIXES include)
  if(NOT EQT_TORCH_CPU_LIBRARY OR NOT EQT_C10_LIBRARY OR NOT EQT_TORCH_INCLUDE_DIR)
    message(FATAL_ERROR "Expected lib/libtorch_cpu.so, lib/libc10.so and include/torch below a folder of "
                        "CMAKE_PREFIX_PATH, found not all of them: name the folder torch of a wheel.")
  endif()
  target_include_directories(eqt_torch SYSTEM INTERFACE
    ${EQT_TORCH_INCLUDE_DIR} ${EQT_TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(eqt_torch INTERFACE ${EQT_TORCH_CPU_LIBRARY} ${EQT_C10_LIBRARY})
  # What LibTorch itself needs of CUDA is looked for when the program starts.
  target_link_options(eqt_torch INTERFACE -Wl,--allow-shlib-undefined)
  if(eqt_torch_cuda)
    get_filename_component(eqt_wheel ${EQT_TORCH_CUDA_LIBRARY} DIRECTORY)
    if(EXISTS ${eqt_wheel}/../version.py)
      file(STRINGS ${eqt_wheel}/../version.py eqt_cuda_line REGEX "^cuda")
      string(REGEX MATCH "[0-9]+" eqt_torch_cuda_major "${eqt_cuda_line}")
      string(REGEX MATCH "^[0-9]+" eqt_nvcc_major "${CMAKE_CUDA_COMPILER_VERSION}")
      if(NOT eqt_torch_cuda_major EQUAL eqt_nvcc_major)
        message(FATAL_ERROR "Expected one major version of CUDA, found ${eqt_nvcc_major} of nvcc and "
                            "${eqt_torch_cuda_major} of LibTorch in ${eqt_wheel}: take a wheel for CUDA "
                            "${eqt_nvcc_major}, or set CUDACXX to the nvcc of CUDA ${eqt_torch_cuda_major}.")
      endif()
    endif()
    # It registers itself when it is loaded, and the program names nothing of it.
    target_link_libraries(eqt_torch INTERFACE
      "-Wl,--push-state,--no-as-needed,${EQT_TORCH_CUDA_LIBRARY},${EQT_C10_CUDA_LIBRARY},--pop-state")
    message(STATUS "Training on NVIDIA devices is on, by ${EQT_TORCH_CUDA_LIBRARY}")
  endif()
  return()
endif()
find_package(Torch 1.13 QUIET)
eqt_need(Torch libtorch-dev)
if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(FATAL_ERROR "This LibTorch was built with the old C++ ABI, which the system's libraries "
                      "cannot be linked with: use a build with _GLIBCXX_USE_CXX11_ABI=1.")
endif()

target_include_directories(eqt_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(eqt_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(eqt_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(eqt_torch INTERFACE ${eqt_torch_flags})
