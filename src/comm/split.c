// Splits a job into groups: finds the members of each, and has the implementation make them.
//
// All ranks exchange their colours and keys, so all of them know all groups, and find the same
// mistakes. A rank that is alone in its group gets a communicator of the kind self.
#include "base/alloc.h"
#include "comm/agreement.h"
#include "comm/comm_ops.h"
#include "comm/comm_thread.h"
#include "comm/operations.h"

typedef struct rank_choice { // which group a rank joins, and where in it
    int64_t colour, key;
} rank_choice;

static zero_status check_parent(const zero_comm *comm, const char *name, zero_error *error)
{
    if (comm->group)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "%s groups are requested of a %s group: only a whole job is split", name,
                       comm->group);
    return ZERO_OK;
}

// Fills choices(N) with the colours and keys of all ranks.
static zero_status exchange_choices(zero_comm *comm, int colour, int key, rank_choice *choices,
                                    zero_error *error)
{
    for (int r = 0; r < comm->size; r++)
        choices[r] =
            r == comm->rank ? (rank_choice){.colour = colour, .key = key} : (rank_choice){0};
    return zr_comm_all_reduce_small(comm, choices, 2 * comm->size, ZERO_I64, ZR_SUM, error);
}

static zero_status check_colours(const zero_comm *comm, const rank_choice *choices,
                                 const char *name, zero_error *error)
{
    for (int r = 0; r < comm->size; r++)
        if (choices[r].colour < 0)
            return zr_fail(error, ZERO_ERR_INTERNAL,
                           "rank %d asks for the %s group of colour %lld: colours begin at 0", r,
                           name, (long long)choices[r].colour);
    return ZERO_OK;
}

// Numbers the groups in the order of their first ranks, and counts their ranks in sizes(count).
static void count_groups(const zero_comm *comm, const rank_choice *choices, zr_comm_group *group,
                         int *sizes)
{
    int index[ZERO_MAX_RANKS];
    group->count = 0;
    for (int r = 0; r < comm->size; r++) {
        int first = 0;
        while (choices[first].colour != choices[r].colour)
            first++;
        index[r] = first == r ? group->count++ : index[first];
        if (first == r)
            sizes[index[r]] = 0;
        sizes[index[r]]++;
    }
    group->index = index[comm->rank];
    group->size = sizes[group->index];
    group->sizes = sizes;
}

// Fills members(size), in the order of (key, rank).
static void list_members(const zero_comm *comm, const rank_choice *choices, zr_comm_group *group,
                         int *members)
{
    int listed = 0;
    for (int r = 0; r < comm->size; r++) {
        if (choices[r].colour != choices[comm->rank].colour)
            continue;
        int place = listed++;
        for (; place > 0 && choices[members[place - 1]].key > choices[r].key; place--)
            members[place] = members[place - 1];
        members[place] = r;
    }
    group->rank = 0;
    while (members[group->rank] != comm->rank)
        group->rank++;
    group->members = members;
}

// This rank's own part: lists its group, and makes a group of one.
static zero_status prepare_group(zero_comm *comm, const rank_choice *choices, zr_comm_group *group,
                                 zero_comm **out, zero_error *error)
{
    int *members = zr_alloc(sizeof *members * (size_t)group->size, error);
    if (!members)
        return ZERO_ERR_MEMORY;
    list_members(comm, choices, group, members);
    return group->size == 1 ? zr_self_split(comm, group, out, error) : ZERO_OK;
}

static bool all_are_alone(const zr_comm_group *group, const zero_comm *comm)
{
    return group->count == comm->size;
}

static zero_status make_group(zero_comm *comm, const rank_choice *choices, zr_comm_group *group,
                              zero_comm **out, zero_error *error)
{
    zero_status status =
        zr_comm_agree(comm, prepare_group(comm, choices, group, out, error), error);
    if (status == ZERO_OK && !all_are_alone(group, comm))
        status = comm->ops->split(comm, group, out, error);
    if (status == ZERO_OK)
        return ZERO_OK;
    if (*out)
        (*out)->ops->destroy(*out);
    *out = NULL;
    zr_free((int *)group->members);
    return status;
}

static zero_status split_job(zero_comm *comm, int colour, int key, const char *name,
                             zero_comm **out, zero_error *error)
{
    rank_choice choices[ZERO_MAX_RANKS];
    int sizes[ZERO_MAX_RANKS];
    zr_comm_group group = {.name = name, .colour = colour, .key = key};
    ZERO_TRY(check_parent(comm, name, error));
    ZERO_TRY(exchange_choices(comm, colour, key, choices, error));
    ZERO_TRY(check_colours(comm, choices, name, error));
    count_groups(comm, choices, &group, sizes);
    if (!comm->ops->split && !all_are_alone(&group, comm))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "a communicator of kind \"%s\" has no groups",
                       comm->ops->name);
    return make_group(comm, choices, &group, out, error);
}

zero_status zr_comm_split(zero_comm *comm, int colour, int key, const char *name, zero_comm **out,
                          zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    assert(name);
    *out = NULL;
    zr_comm_thread_drain(comm);
    return zr_comm_abort_on_failure(comm, split_job(comm, colour, key, name, out, error), error);
}
