// Where ranks stand on the axes, and who forms a group with whom.
#include "plan/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static zr_mesh mesh_of(int world, int rank, int tensor)
{
    zr_mesh mesh;
    assert_int_equal(zr_mesh_create(world, rank, tensor, 1, &mesh, NULL), ZERO_OK);
    return mesh;
}

static void tensor_ranks_are_neighbours(void **state)
{
    for (int rank = 0; rank < 8; rank++) {
        const zr_mesh mesh = mesh_of(8, rank, 2);
        assert_int_equal(mesh.place[ZERO_AXIS_tensor], rank % 2);
        assert_int_equal(mesh.place[ZERO_AXIS_data], rank / 2);
        assert_int_equal(mesh.place[ZERO_AXIS_pipeline], 0);
        assert_int_equal(mesh.size[ZERO_AXIS_tensor], 2);
        assert_int_equal(mesh.size[ZERO_AXIS_data], 4);
        assert_int_equal(mesh.size[ZERO_AXIS_pipeline], 1);
    }
}

static void groups_have_their_ranks_in_order(void **state)
{
    int members[8];
    const zr_mesh mesh = mesh_of(6, 4, 2);
    static const int tensor[] = {4, 5}, data[] = {0, 2, 4};
    assert_int_equal(zr_mesh_group(&mesh, ZERO_AXIS_tensor, members), 2);
    assert_memory_equal(members, tensor, sizeof tensor);
    assert_int_equal(zr_mesh_group(&mesh, ZERO_AXIS_data, members), 3);
    assert_memory_equal(members, data, sizeof data);
    assert_int_equal(zr_mesh_group(&mesh, ZERO_AXIS_pipeline, members), 1);
    assert_int_equal(members[0], 4);
    assert_int_equal(zr_mesh_group(&mesh, ZERO_AXIS_data, NULL), 3);
}

// Each rank is a member of its own group, at its place; and a colour names one group of an axis.
static void groups_part_the_job(void **state)
{
    enum { WORLD = 12 };
    for (int tensor = 1; tensor <= WORLD; tensor++)
        for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT && WORLD % tensor == 0; axis++)
            for (int rank = 0; rank < WORLD; rank++) {
                int members[WORLD];
                const zr_mesh mesh = mesh_of(WORLD, rank, tensor);
                int count = zr_mesh_group(&mesh, axis, members);
                assert_int_equal(members[mesh.place[axis]], rank);
                assert_int_equal(zr_mesh_rank(&mesh, mesh.place), rank);
                for (int i = 0; i < count; i++) {
                    const zr_mesh other = mesh_of(WORLD, members[i], tensor);
                    assert_int_equal(zr_mesh_colour(&other, axis), zr_mesh_colour(&mesh, axis));
                    assert_int_equal(other.place[axis], i);
                }
            }
}

static void what_does_not_divide_is_refused(void **state)
{
    zr_mesh mesh;
    zero_error error = {0};
    assert_int_equal(zr_mesh_create(3, 0, 2, 1, &mesh, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "3 ranks of a job are no multiple of 2 tensor ranks"));
    assert_int_equal(zr_mesh_create(2, 0, 0, 1, &mesh, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_mesh_create(2, 0, -2, 1, &mesh, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_mesh_create(2, 0, 4, 1, &mesh, &error), ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_ranks_are_neighbours),
        cmocka_unit_test(groups_have_their_ranks_in_order),
        cmocka_unit_test(groups_part_the_job),
        cmocka_unit_test(what_does_not_divide_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
