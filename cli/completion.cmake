# Installs the completion scripts of a program, which are what `PROGRAM completion SHELL` prints, where
# each shell looks for them.
include(GNUInstallDirs)
set(GRETA_ZSH_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING
    "Where zsh's completions are installed; Debian's packages have a place of their own for them")

function(greta_completion_scripts program)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/completion)
  set(scripts)
  foreach(shell bash zsh fish)
    set(script ${folder}/${program}.${shell})
    add_custom_command(OUTPUT ${script}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${program} completion ${shell} > ${script}
      DEPENDS ${program} VERBATIM COMMENT "Writing the ${shell} completion of ${program}")
    list(APPEND scripts ${script})
  endforeach()
  add_custom_target(${program}-completion ALL DEPENDS ${scripts})
  install(FILES ${folder}/${program}.bash RENAME ${program} COMPONENT programs
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${folder}/${program}.zsh RENAME _${program} COMPONENT programs
          DESTINATION ${GRETA_ZSH_COMPLETIONS})
  install(FILES ${folder}/${program}.fish COMPONENT programs
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()
