# Writes page.css and page.js of FOLDER into the C++ source OUT as raw string literals. cmake -P script.
# A literal has at most 64 KiB in some compilers: both files are far smaller.
set(text "// Generated from page.css and page.js.\n#include \"cli/pages/page_files.h\"\n\nnamespace greta {\n")
foreach(file style:page.css script:page.js)
  string(REPLACE ":" ";" parts ${file})
  list(GET parts 0 name)
  list(GET parts 1 path)
  file(READ ${FOLDER}/${path} content)
  string(APPEND text "std::string_view page_${name}() {\n  return R\"page_file(${content})page_file\";\n}\n")
endforeach()
string(APPEND text "}  // namespace greta\n")
file(WRITE ${OUT} "${text}")
