#ifndef ROLLCALL_CBUILD_H
#define ROLLCALL_CBUILD_H

/// The commit that this binary was built from; empty when the build was not told.
extern const char *_Nonnull rollcall_build_commit(void);

#endif
