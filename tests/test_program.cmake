# What takes longest starts first, so that no core is left with it at the end: a test that may take
# longer than a few seconds has a COST, about its seconds. (CTest knows no times before a first run.)

# One test by itself: build/PRESET/tests/PROGRAM --gtest_filter=NAME.

# What is tested is optimised. Tests are hardly: they compile in two thirds of the time with -O1, and
# in half with -O0, which is for those that compute nothing themselves.
set(GRETA_TEST_FLAGS -O1)
if(GRETA_SANITIZE)  # whose checks take -O1 twice as long to compile
  set(GRETA_TEST_FLAGS -O0)
endif()
# Each program in a few parts, so that several run beside each other until all is done, and one for
# its slow tests and for its long ones. A process per test would prepare SQLite's views for each,
# make each its own pages and start each its own servers: twice the time of all.
set(GRETA_TEST_PARTS 3)

# SQLite prepares a view by very many allocations: a short trace of each saves a third of the time
# under a sanitizer. What a report leaves out ASAN_OPTIONS= shows when the test runs by itself.
function(greta_add_test_part program part filter parts index)
  set(test ${program}.${part})
  add_test(NAME ${test} COMMAND ${program} "--gtest_filter=${filter}")
  set_tests_properties(${test} PROPERTIES TIMEOUT 1800 COST 30 ENVIRONMENT
    "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index};ASAN_OPTIONS=malloc_context_size=1")
endfunction()

# The program's tests that this filter takes, as one part with a label of its own.
function(greta_add_labelled_part program label filter)
  greta_add_test_part(${program} ${label} "${filter}" 1 0)
  set_tests_properties(${program}.${label} PROPERTIES LABELS ${label} COST 100)
endfunction()

# Their main(), with SQLite as both programs have it.
add_library(greta_test_main STATIC main.cpp)
target_link_libraries(greta_test_main PUBLIC GTest::gtest PRIVATE greta_db)

# The project's static libraries that these targets need, themselves among them.
function(greta_static_libraries out)
  set(found "")
  set(left ${ARGN})
  while(left)
    list(POP_FRONT left target)
    if(NOT TARGET ${target} OR target IN_LIST found)
      continue()
    endif()
    get_target_property(type ${target} TYPE)
    get_target_property(imported ${target} IMPORTED)
    if(type STREQUAL STATIC_LIBRARY AND NOT imported)
      list(APPEND found ${target})
      get_target_property(needed ${target} INTERFACE_LINK_LIBRARIES)
      if(needed)
        string(REGEX REPLACE "[$]<LINK_ONLY:([^>]*)>" "\\1" needed "${needed}")
        list(APPEND left ${needed})
      endif()
    endif()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# greta_link_before_tests(NAME TARGET...): what these libraries compiled comes before what the tests
# did. Both have what the standard's templates become (a string's push_back), the linker takes the
# first, and the one of tests is hardly optimised: with that, what is tested takes twice as long.
function(greta_link_before_tests name)
  greta_static_libraries(libraries ${ARGN})
  set(files "")
  foreach(library ${libraries})
    list(APPEND files $<TARGET_FILE:${library}>)
  endforeach()
  target_link_options(${name} PRIVATE LINKER:--whole-archive ${files} LINKER:--no-whole-archive)
endfunction()

# greta_test_program(NAME [COMPUTES] SOURCES PATTERN... [SLOW_SOURCES PATTERN...] [EXCEPT REGEX] LINK TARGET...
# [SLOW TEST...] [LONG TEST...] [TOLD_BY_VIEWS SUITE... BUT TEST...]): a test program of these
# sources, which is told where the programs and the project's own files are. COMPUTES: its tests do
# arithmetic or match regular expressions. SLOW: whole models, servers, browsers and histories,
# which are minutes under a sanitizer, and touch no memory that other tests do not touch. LONG:
# those with more seeds or other formats, that run a program hundreds of times, and files as large
# as limits are for: for CI.
# SLOW_SOURCES: files with no test but such, and what only those need: not compiled under a sanitizer.
# TOLD_BY_VIEWS: what these ask is answered by SQLite, which no sanitizer of ours sees into, through
# code that the BUT of them, or the rest of their suite, run: under a sanitizer only those do.
function(greta_test_program name)
  cmake_parse_arguments(ARG "COMPUTES" "EXCEPT" "SOURCES;SLOW_SOURCES;LINK;SLOW;LONG;TOLD_BY_VIEWS;BUT" ${ARGN})
  greta_sources(sources ${ARG_SOURCES} EXCEPT ${ARG_EXCEPT})
  if(ARG_SLOW_SOURCES)
    greta_sources(slow_sources ${ARG_SLOW_SOURCES} EXCEPT ${ARG_EXCEPT})
    list(REMOVE_ITEM sources ${slow_sources})
  endif()
  add_executable(${name} ${sources})
  if(NOT GRETA_SANITIZE)  # behind the others, which so never lean on what these include
    target_sources(${name} PRIVATE ${slow_sources})
  endif()
  target_link_libraries(${name} PRIVATE greta_test_main ${ARG_LINK})
  greta_link_before_tests(${name} ${ARG_LINK})
  target_compile_options(${name} PRIVATE $<IF:$<BOOL:${ARG_COMPUTES}>,${GRETA_TEST_FLAGS},-O0>)
  target_compile_definitions(${name} PRIVATE
    GRETA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GRETA_DB_PROGRAM="$<TARGET_FILE:greta-db>"
    GRETA_INFER_PROGRAM="$<TARGET_FILE:greta-infer>")
  set(left_out ${ARG_SLOW} ${ARG_LONG})
  if(GRETA_SANITIZE)
    # What tests do themselves is checked for addresses alone: the other checks take a minute to
    # compile into them.
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
    if(ARG_BUT)
      list(APPEND left_out ${ARG_TOLD_BY_VIEWS})
      list(JOIN ARG_BUT ":" but)
      greta_add_test_part(${name} but "${but}" 1 0)
    endif()
  endif()
  list(JOIN left_out ":" left_out)
  foreach(part RANGE 1 ${GRETA_TEST_PARTS})
    math(EXPR index "${part} - 1")
    greta_add_test_part(${name} part${part} "-${left_out}" ${GRETA_TEST_PARTS} ${index})
  endforeach()
  if(GRETA_SANITIZE)
    return()
  endif()
  foreach(label SLOW LONG)
    if(ARG_${label})
      list(JOIN ARG_${label} ":" filter)
      string(TOLOWER ${label} label)
      greta_add_labelled_part(${name} ${label} "${filter}")
    endif()
  endforeach()
endfunction()
