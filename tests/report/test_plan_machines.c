// --machines of `zero plan`: what it says is read or refused with its numbers, and ranks are told
// by ranges of places, each rank once.
#include "report/plan_machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void reads(const char *text, int ranks, int machines, const int *first)
{
    zr_plan_machines *read;
    assert_int_equal(zr_plan_machines_read(text, ranks, &read, NULL), ZERO_OK);
    assert_int_equal(read->job.count, machines);
    for (int m = 0; m <= machines; m++)
        assert_int_equal(read->job.first[m], first[m]);
    for (int r = 0; r < ranks; r++)
        assert_true(read->job.first[read->job.of[r]] <= r &&
                    r < read->job.first[read->job.of[r] + 1]);
    zr_plan_machines_free(read);
}

static void machines_are_a_number_or_a_list(void **state)
{
    reads("1", 8, 1, (int[]){0, 8});
    reads("2", 8, 2, (int[]){0, 4, 8});
    reads("8", 8, 8, (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
    reads("4,2,2", 8, 3, (int[]){0, 4, 6, 8});
    reads("1,7", 8, 2, (int[]){0, 1, 8});
}

static void refuses(const char *text, int ranks, const char *words)
{
    zero_error error;
    zr_plan_machines *read;
    assert_int_equal(zr_plan_machines_read(text, ranks, &read, &error), ZERO_ERR_USAGE);
    assert_null(read);
    assert_non_null(strstr(error.message, words));
}

static void what_does_not_add_up_is_refused(void **state)
{
    static const char *const no_lists[] = {"",   "0",   "-2",   "x",     "2x",         "4,",
                                           ",4", "4,0", "4,,4", "4, 4",  "2.0",        "+2",
                                           " 2", "4;4", "4,-1", "0,4,4", "9999999999", "4,4,x"};
    for (int i = 0; i < ZR_COUNT(no_lists); i++)
        refuses(no_lists[i], 8, "expected a number of machines, or the ranks of each, as 4,2,2");
    refuses("3", 8, "--machines 3: 8 ranks cannot be divided equally among 3 machines");
    refuses("16", 8, "--machines 16: 8 ranks cannot");
    refuses("4,2", 8, "--machines 4,2 has 6 ranks on 2 machines, where the job has 8");
    refuses("2147483647,2147483647", 8, "has 4294967294 ranks on 2 machines");
}

static zr_mesh mesh_of(int world, int tensor, int stages)
{
    zr_mesh mesh;
    assert_int_equal(zr_mesh_create(world, 0, tensor, stages, &mesh, NULL), ZERO_OK);
    return mesh;
}

static void says(const char *machines, const zr_mesh *mesh, const char *json)
{
    zr_buffer out = {0};
    zr_plan_machines *read;
    assert_int_equal(zr_plan_machines_read(machines, mesh->world, &read, NULL), ZERO_OK);
    zr_json_writer w = zr_json_writer_on(&out, ZR_JSON_COMPACT);
    zr_plan_machines_json(read, mesh, &w, NULL);
    assert_string_equal(out.data, json);
    zr_buffer_free(&out);
    zr_plan_machines_free(read);
}

// 2 pipeline stages x 3 data x 2 tensor ranks.
static void places_are_ranges(void **state)
{
    const zr_mesh mesh = mesh_of(12, 2, 2);
    says("1", &mesh,
         "[\n  [{\"ranks\":[0,11],\"pipeline\":[0,1],\"data\":[0,2],\"tensor\":[0,1]}]]");
    says("6,6", &mesh,
         "[\n  [{\"ranks\":[0,5],\"pipeline\":[0,0],\"data\":[0,2],\"tensor\":[0,1]}],"
         "\n  [{\"ranks\":[6,11],\"pipeline\":[1,1],\"data\":[0,2],\"tensor\":[0,1]}]]");
    says("1,11", &mesh,
         "[\n  [{\"ranks\":[0,0],\"pipeline\":[0,0],\"data\":[0,0],\"tensor\":[0,0]}],"
         "\n  [{\"ranks\":[1,1],\"pipeline\":[0,0],\"data\":[0,0],\"tensor\":[1,1]},"
         "{\"ranks\":[2,5],\"pipeline\":[0,0],\"data\":[1,2],\"tensor\":[0,1]},"
         "{\"ranks\":[6,11],\"pipeline\":[1,1],\"data\":[0,2],\"tensor\":[0,1]}]]");
}

static void long_tables_end(void **state)
{
    const zr_mesh mesh = mesh_of(1024, 1, 1);
    zr_buffer out = {0};
    zr_plan_machines *read;
    assert_int_equal(zr_plan_machines_read("512", 1024, &read, NULL), ZERO_OK);
    zr_plan_machines_text(read, &mesh, &out);
    assert_non_null(strstr(out.data, "\n    255      510 to 511 "));
    assert_non_null(strstr(out.data, "\nand so on, on 256 more machines\n"));
    assert_null(strstr(out.data, "512 to 513"));
    zr_buffer_free(&out);
    zr_plan_machines_free(read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_a_number_or_a_list),
        cmocka_unit_test(what_does_not_add_up_is_refused),
        cmocka_unit_test(places_are_ranges),
        cmocka_unit_test(long_tables_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
