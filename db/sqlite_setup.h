#pragma once

namespace greta {

/// Sets SQLite and the allocator up for a program of many threads, each with connections of its
/// own: before its first connection. No connection may then be used by two threads at a time.
void set_up_sqlite();

}  // namespace greta
