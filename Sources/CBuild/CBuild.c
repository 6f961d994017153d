#include "CBuild.h"

const char *rollcall_build_commit(void) { return BUILD_COMMIT; }
