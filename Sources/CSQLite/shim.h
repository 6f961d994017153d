#pragma once
#include <sqlite3.h>

// sqlite3_db_config is variadic, which Swift cannot call. From here on closing the connection leaves the write-ahead log as it is.
static inline int csqlite_keep_log(sqlite3 *connection) {
  return sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
