# Writes OUT, the definition of build_info(), when what it says changed since.
# Arguments: OUT, ROOT (of the sources), VERSION, COMMIT (empty: that of the checkout at ROOT).
set(commit "${COMMIT}")
set(dirty "std::nullopt")
find_program(GIT git)
if(GIT AND commit STREQUAL "")
  # The prefix is empty at the top: another project's checkout around these sources says nothing.
  execute_process(COMMAND ${GIT} -C ${ROOT} rev-parse --show-prefix
    OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0 AND prefix STREQUAL "")
    execute_process(COMMAND ${GIT} -C ${ROOT} rev-parse --verify --quiet HEAD
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT} -C ${ROOT} --no-optional-locks status --porcelain
      OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT commit STREQUAL "" AND failed EQUAL 0)
      set(dirty "true")
      if(changes STREQUAL "")
        set(dirty "false")
      endif()
    endif()
  endif()
endif()

set(text "#include \"engine/session/run_info.h\"

namespace greta {

BuildInfo build_info() { return {\"${VERSION}\", \"${commit}\", ${dirty}}; }

}  // namespace greta
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
