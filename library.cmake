# greta_sources(OUT PATTERN... [EXCEPT REGEX...]): the files of the current folder that match, but no main.cpp.
function(greta_sources out)
  cmake_parse_arguments(ARG "" "" "EXCEPT" ${ARGN})
  list(TRANSFORM ARG_UNPARSED_ARGUMENTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  file(GLOB found CONFIGURE_DEPENDS ${ARG_UNPARSED_ARGUMENTS})
  foreach(regex /main[.]cpp$ ${ARG_EXCEPT})
    list(FILTER found EXCLUDE REGEX ${regex})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# One library per folder, of all its sources unless they are listed: a folder that includes what it may not know
# fails to link.
function(greta_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_SOURCES)
    greta_sources(ARG_SOURCES *.cpp)
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()
