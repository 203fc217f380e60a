# Installs what a program prints of itself: its manual page, and its completion scripts where each shell
# looks for them.
include(GNUInstallDirs)
set(GRETA_ZSH_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING
    "Where zsh's completions are installed; Debian's packages have a place of their own for them")

function(greta_self_description program)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/completion)
  set(scripts)
  foreach(kind "bash:completion bash" "zsh:completion zsh" "fish:completion fish" "1:manual")
    string(REGEX REPLACE ":.*" "" ending ${kind})
    string(REGEX REPLACE ".*:" "" words ${kind})
    separate_arguments(words)
    set(script ${folder}/${program}.${ending})
    add_custom_command(OUTPUT ${script}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${program} ${words} > ${script}
      DEPENDS ${program} VERBATIM COMMENT "Writing ${program}.${ending}")
    list(APPEND scripts ${script})
  endforeach()
  add_custom_target(${program}-self-description ALL DEPENDS ${scripts})
  install(FILES ${folder}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
  install(FILES ${folder}/${program}.bash RENAME ${program} COMPONENT programs
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${folder}/${program}.zsh RENAME _${program} COMPONENT programs
          DESTINATION ${GRETA_ZSH_COMPLETIONS})
  install(FILES ${folder}/${program}.fish COMPONENT programs
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()
