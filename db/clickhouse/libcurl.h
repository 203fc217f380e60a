#pragma once
#include <curl/curl.h>

namespace greta::clickhouse {

/// What is called of libcurl, which is loaded when a server is first asked for: with the libraries
/// that it needs, more than all others of a program together, it would take a sixth of the time in
/// which a file says how a run comes out.
struct Libcurl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_free) free;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_escape) easy_escape;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_mime_init) mime_init;
  decltype(&curl_mime_addpart) mime_addpart;
  decltype(&curl_mime_name) mime_name;
  decltype(&curl_mime_data) mime_data;
  decltype(&curl_mime_filename) mime_filename;
  decltype(&curl_mime_free) mime_free;
};

/// Loaded and begun once in a process. Throws Error where the library is not there, or has not all
/// of these.
const Libcurl& libcurl();

}  // namespace greta::clickhouse
