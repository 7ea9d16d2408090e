// Counts bytes by tier and category: what the plan promised, what is held, and the most ever held.
#include "memory/arena.h"

const char *zr_tier_name(zero_tier tier)
{
    static const char *const names[] = {
#define TIER_NAME(name) [ZERO_TIER_##name] = #name,
        ZERO_TIERS(TIER_NAME)
#undef TIER_NAME
    };
    return (int)tier >= 0 && (int)tier < ZR_COUNT(names) ? names[tier] : "unknown";
}

const char *zr_memory_category_name(zero_memory_category category)
{
    static const char *const names[] = {
#define CATEGORY_NAME(name) [ZERO_MEM_##name] = #name,
        ZERO_MEMORY_CATEGORIES(CATEGORY_NAME)
#undef CATEGORY_NAME
    };
    return (int)category >= 0 && (int)category < ZR_COUNT(names) ? names[category] : "unknown";
}

void zr_ledger_hold(zr_ledger *ledger, zero_tier tier, zero_memory_category category, int64_t bytes)
{
    assert((int)category >= 0 && category < ZERO_MEM_COUNT && (int)tier >= 0 &&
           tier < ZERO_TIER_COUNT);
    ledger->held[tier][category] += bytes;
    assert(ledger->held[tier][category] >= 0);
    ledger->peak[tier][category] =
        ZR_MAX(ledger->peak[tier][category], ledger->held[tier][category]);
}

zero_status zr_ledger_check(const zr_ledger *ledger, zero_error *error)
{
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        for (int c = 0; c < ZERO_MEM_COUNT; c++)
            if (ledger->held[t][c] != ledger->planned[t][c])
                return zr_fail(error, ZERO_ERR_INTERNAL,
                               "%s memory for %s: %lld bytes held, where the plan says %lld",
                               zr_tier_name((zero_tier)t),
                               zr_memory_category_name((zero_memory_category)c),
                               (long long)ledger->held[t][c], (long long)ledger->planned[t][c]);
    return ZERO_OK;
}
