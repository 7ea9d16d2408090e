// How the ranks of a machine divide an all-gather: each shard of a rank elsewhere crosses the
// network once, to one of them, in turn. plan/ computes it beforehand, comm/ does it.
#ifndef ZR_BASE_FETCHES_H
#define ZR_BASE_FETCHES_H

// Returns how many of the shards of `strangers`, ranks on other machines, a rank brings to its
// machine, on which it is number `place` of `locals`.
static inline int zr_fetches(int strangers, int locals, int place)
{
    return (strangers + locals - 1 - place) / locals;
}

#endif
