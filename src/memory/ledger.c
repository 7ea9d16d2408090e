// Bytes by category: what the plan promised, what is held, and the most that ever was.
#include "memory/ledger.h"

const char *zr_memory_kind_name(zr_memory_kind kind)
{
    static const char *const names[] = {[ZR_DEVICE] = "device", [ZR_HOST] = "host", [ZR_NVME] = "nvme"};
    return (int)kind >= 0 && (int)kind < ZR_COUNT(names) ? names[kind] : "unknown";
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

void zr_ledger_hold(zr_ledger *ledger, zero_memory_category category, int64_t bytes)
{
    assert((int)category >= 0 && category < ZERO_MEM_COUNT);
    ledger->held[category] += bytes;
    assert(ledger->held[category] >= 0);
    ledger->peak[category] = ZR_MAX(ledger->peak[category], ledger->held[category]);
}

zero_status zr_ledger_check(const zr_ledger *ledger, zero_error *error)
{
    for (int i = 0; i < ZERO_MEM_COUNT; i++) {
        if (ledger->held[i] != ledger->planned[i])
            return zr_fail(error, ZERO_ERR_INTERNAL, "memory for %s: %lld bytes held, where the plan says %lld",
                           zr_memory_category_name((zero_memory_category)i), (long long)ledger->held[i],
                           (long long)ledger->planned[i]);
    }
    return ZERO_OK;
}
