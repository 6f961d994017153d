#pragma once
#include <zlib.h>

// deflateInit2 is a macro, which Swift cannot call. 15 is a window of 32 KiB, 16 asks for gzip, and 8 is the default of the hash table.
static inline int czlib_gzip_init(z_stream *stream, int level) {
  return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
}
