#pragma once

#include <stddef.h>

/// A file that a node serves, inside the binary.
struct rollcall_asset {
    /// The path below `Sources`: "Console/console.js".
    const char *name;
    const unsigned char *bytes;
    size_t count;
};

extern const size_t rollcall_assets_count;

/// The asset at an index below the count.
const struct rollcall_asset *rollcall_asset_at(size_t index);
