# The GPU kernels: the same sources for hipcc, nvcc and the emulator (kernels/gpu/runtime.h).
file(GLOB GRETA_GPU_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.hip ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH GRETA_GPU_ROOT)  # kernels/
cmake_path(GET GRETA_GPU_ROOT PARENT_PATH GRETA_GPU_ROOT)

set(GRETA_HIP_ARCHITECTURES gfx90a;gfx940 CACHE STRING "AMD GPUs that hipcc compiles for")
set(GRETA_CUDA_ARCHITECTURE sm_90 CACHE STRING "NVIDIA GPU that nvcc compiles for")

# greta_gpu_library(NAME nvcc|hipcc SOURCE...): compiles *.hip and what includes runtime.h.
# CMake's own HIP and CUDA languages would each cover one of the two compilers, and want more of the
# system than Debian's hipcc brings.
function(greta_gpu_library name compiler)
  find_program(GRETA_${compiler} ${compiler} HINTS /usr/local/cuda/bin /opt/rocm/bin REQUIRED)
  file(REAL_PATH ${GRETA_${compiler}} program)
  cmake_path(GET program PARENT_PATH bin)
  if(compiler STREQUAL nvcc)
    set(flags -x cu -fmad=false --expt-relaxed-constexpr)
    if(GRETA_CUDA_ARCHITECTURE MATCHES "^sm_90a?$")  # with what only this architecture has
      list(APPEND flags -gencode=arch=compute_90a,code=sm_90a -DGRETA_WARPGROUPS)
    else()
      list(APPEND flags -arch=${GRETA_CUDA_ARCHITECTURE})
    endif()
    find_library(GRETA_CUDART NAMES cudart_static cudart REQUIRED
                 HINTS ${bin}/../lib64 ${bin}/../lib ${bin}/../targets/x86_64-linux/lib)
    set(runtime ${GRETA_CUDART} ${CMAKE_DL_LIBS} rt)
  else()
    set(flags -x hip -ffp-contract=off -Wall -Wextra)
    foreach(architecture ${GRETA_HIP_ARCHITECTURES})
      list(APPEND flags --offload-arch=${architecture})
    endforeach()
    find_library(GRETA_AMDHIP NAMES amdhip64 REQUIRED HINTS ${bin}/../lib)
    set(runtime ${GRETA_AMDHIP} ${CMAKE_DL_LIBS})
  endif()

  set(objects)
  foreach(source ${ARGN})
    cmake_path(GET source FILENAME file)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}/${file}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/${name}
      COMMAND ${program} ${flags} -std=c++20 -O3 -DNDEBUG -I${GRETA_GPU_ROOT} -MD -MF ${object}.d
              -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM
      COMMENT "${compiler} ${file}")
    list(APPEND objects ${object})
  endforeach()
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${GRETA_GPU_ROOT})
  target_link_libraries(${name} PUBLIC greta_fingerprint ${runtime})
endfunction()

# ---- For the emulator. Kernels are optimised in every build type, as those of the CPU are.
set(GRETA_EMULATED_FLAGS -O2 -ffp-contract=off)

# Makes the *.hip among the files C++; for targets of the same directory.
function(greta_hip_is_cxx)
  set(hip_sources ${ARGN})
  list(FILTER hip_sources INCLUDE REGEX "\\.hip$")
  set_source_files_properties(${hip_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS -xc++)
endfunction()
