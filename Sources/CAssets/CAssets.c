#include "CAssets.h"

// C23 has #embed, and the clang of Swift knows it in every mode.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char asset_0[] = {
#embed "../Console/actions.js"
};

static const unsigned char asset_1[] = {
#embed "../Console/api.js"
};

static const unsigned char asset_2[] = {
#embed "../Console/apps.js"
};

static const unsigned char asset_3[] = {
#embed "../Console/chart.js"
};

static const unsigned char asset_4[] = {
#embed "../Console/cluster.js"
};

static const unsigned char asset_5[] = {
#embed "../Console/console.css"
};

static const unsigned char asset_6[] = {
#embed "../Console/console.js"
};

static const unsigned char asset_7[] = {
#embed "../Console/dom.js"
};

static const unsigned char asset_8[] = {
#embed "../Console/index.html"
};

static const unsigned char asset_9[] = {
#embed "../Console/live.js"
};

static const unsigned char asset_10[] = {
#embed "../Console/pager.js"
};

static const unsigned char asset_11[] = {
#embed "../Console/ui.js"
};

static const unsigned char asset_12[] = {
#embed "../Console/users.js"
};

static const unsigned char asset_13[] = {
#embed "../Console/webhooks.js"
};

static const unsigned char asset_14[] = {
#embed "../WebClient/client.js"
};

static const struct rollcall_asset assets[] = {
    {"Console/actions.js", asset_0, sizeof asset_0},
    {"Console/api.js", asset_1, sizeof asset_1},
    {"Console/apps.js", asset_2, sizeof asset_2},
    {"Console/chart.js", asset_3, sizeof asset_3},
    {"Console/cluster.js", asset_4, sizeof asset_4},
    {"Console/console.css", asset_5, sizeof asset_5},
    {"Console/console.js", asset_6, sizeof asset_6},
    {"Console/dom.js", asset_7, sizeof asset_7},
    {"Console/index.html", asset_8, sizeof asset_8},
    {"Console/live.js", asset_9, sizeof asset_9},
    {"Console/pager.js", asset_10, sizeof asset_10},
    {"Console/ui.js", asset_11, sizeof asset_11},
    {"Console/users.js", asset_12, sizeof asset_12},
    {"Console/webhooks.js", asset_13, sizeof asset_13},
    {"WebClient/client.js", asset_14, sizeof asset_14},
};

const size_t rollcall_assets_count = sizeof assets / sizeof assets[0];

const struct rollcall_asset *rollcall_asset_at(size_t index) { return &assets[index]; }
