#include "trace/status.h"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <string_view>
#include <system_error>

#include "common/thread.h"
#include "common/utf8.h"
#include "db/database.h"
#include "engine/record/run_queue.h"

namespace greta::trace {
namespace {

// No allocation may fail where an error is told.
thread_local char last_error[1024] = "";

void keep(std::string_view text) noexcept {
  size_t n = text.size() < sizeof last_error ? text.size() : sizeof last_error - 1;
  if (n < text.size()) n = utf8::valid_prefix(text.substr(0, n));
  for (size_t i = 0; i < n; ++i) last_error[i] = text[i] == '\n' ? ' ' : text[i];
  last_error[n] = '\0';
}

greta_status status_of_sqlite(int code) noexcept {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return GRETA_ERROR_BUSY;
    case SQLITE_NOMEM:
      return GRETA_ERROR_MEMORY;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return GRETA_ERROR_FORMAT;
    default:
      return GRETA_ERROR_IO;
  }
}

greta_status told(greta_status status, const std::exception& error) noexcept {
  keep(error.what());
  return status;
}

}  // namespace

const char* error_text() noexcept { return last_error; }
void clear_error() noexcept { last_error[0] = '\0'; }

greta_status take_exception() noexcept {
  try {
    throw;
  } catch (const Refused& error) {
    return told(error.status, error);
  } catch (const RunExists& error) {
    return told(GRETA_ERROR_EXISTS, error);
  } catch (const RunEnded& error) {
    return told(GRETA_ERROR_STATE, error);
  } catch (const RunWriteError& error) {
    return told(status_of_sqlite(error.code), error);
  } catch (const DatabaseError& error) {
    return told(GRETA_ERROR_FORMAT, error);
  } catch (const SQLite::Exception& error) {
    return told(status_of_sqlite(error.getErrorCode()), error);
  } catch (const std::system_error& error) {
    const bool exists = error.code() == std::errc::file_exists;
    return told(exists ? GRETA_ERROR_EXISTS : GRETA_ERROR_IO, error);
  } catch (const ThreadError& error) {
    return told(GRETA_ERROR_MEMORY, error);
  } catch (const std::bad_alloc&) {
    keep("out of memory");
    return GRETA_ERROR_MEMORY;
  } catch (const std::invalid_argument& error) {
    return told(GRETA_ERROR_ARGUMENT, error);
  } catch (const std::length_error& error) {
    return told(GRETA_ERROR_ARGUMENT, error);
  } catch (const std::exception& error) {
    return told(GRETA_ERROR_INTERNAL, error);
  } catch (...) {
    keep("an exception of no known kind");
    return GRETA_ERROR_INTERNAL;
  }
}

}  // namespace greta::trace
