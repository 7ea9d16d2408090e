// The warning of tensor ranks on several machines says who is where, what it costs, and what keeps
// them together.
#include "setup/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char hosts[][ZR_MACHINE_NAME] = {"a", "b", "c"};

// `machines` has a letter for each rank: that of its machine.
static void says(const char *machines, int tensor, const char *where, const char *advice)
{
    int numbers[16], ranks = (int)strlen(machines);
    zr_buffer text = {0}, expected = {0};
    for (int r = 0; r < ranks; r++)
        numbers[r] = machines[r] - 'a';
    const zr_topology topology = {.ranks = ranks,
                                  .tensor = tensor,
                                  .stage_ranks = ranks,
                                  .machines = numbers,
                                  .machine_count = ZR_COUNT(hosts),
                                  .names = hosts,
                                  .most = {.step_bytes = 4500000, .unit_bytes = 1500000},
                                  .unit = "h.0"};
    zr_topology_describe(&topology, &text);
    if (where)
        zr_buffer_printf(&expected,
                         "the tensor ranks of a model are on several machines (%s): in a step up "
                         "to 4.50 MB of its sums come to a rank over the network, 1.50 MB of them "
                         "for h.0; %s",
                         where, advice);
    assert_string_equal(text.data ? text.data : "", where ? expected.data : "");
    zr_buffer_free(&text);
    zr_buffer_free(&expected);
}

static void models_on_one_machine_are_fine(void **state)
{
    says("aaaa", 4, NULL, NULL);
    says("aabb", 2, NULL, NULL);
    says("aabbccaa", 2, NULL, NULL);
}

static void an_order_of_hosts_helps(void **state)
{
    says("abab", 2, "0 on a; 1 on b",
         "ranks in the order of their machines (mpirun --map-by slot, srun --distribution=block) "
         "or --tensor 1 keep them together");
    says("aabbbbaa", 4, "0 and 1 on a; 2 and 3 on b",
         "ranks in the order of their machines (mpirun --map-by slot, srun --distribution=block) "
         "or --tensor 2 keep them together");
}

static void fewer_tensor_ranks_help(void **state)
{
    says("aabb", 4, "0 and 1 on a; 2 and 3 on b", "--tensor 2 keeps them together");
    says("aaab", 4, "0, 1 and 2 on a; 3 on b", "--tensor 1 keeps them together");
    says("aaaabbcc", 4, "4 and 5 on b; 6 and 7 on c", "--tensor 2 keeps them together");
    says("abc", 3, "0 on a; 1 on b; 2 on c", "--tensor 1 keeps them together");
}

static void many_ranks_are_ranges(void **state)
{
    says("aaaaabbb", 8, "0 to 4 on a; 5, 6 and 7 on b", "--tensor 1 keeps them together");
    says("aaaaabaa", 8, "0 to 4, 6 and 7 on a; 5 on b", "--tensor 1 keeps them together");
    says("aabbbbba", 8, "0, 1 and 7 on a; 2 to 6 on b", "--tensor 1 keeps them together");
}

// The most of all ranks is of each kind by itself; the unit is that of a rank which pays most.
static void the_most_is_raised(void **state)
{
    const zr_topology_costs ranks[] = {
        {.step_bytes = 30, .unit_bytes = 10, .unit = 4, .data_bytes = 1, .link_bytes = 9},
        {.step_bytes = 50, .unit_bytes = 8, .unit = 7, .data_bytes = 2},
        {.step_bytes = 20, .unit_bytes = 10, .unit = 2, .link_bytes = 11}};
    zr_topology_costs most = {0};
    for (int r = 0; r < ZR_COUNT(ranks); r++)
        zr_topology_costs_raise(&most, &ranks[r]);
    assert_int_equal(most.step_bytes, 50);
    assert_int_equal(most.unit_bytes, 10);
    assert_int_equal(most.unit, 4);
    assert_int_equal(most.data_bytes, 2);
    assert_int_equal(most.link_bytes, 11);
}

// Two pipeline stages of as many ranks as there are letters for each.
static void says_of_stages(const char *machines, int tensor, const char *words)
{
    int numbers[16], ranks = (int)strlen(machines);
    zr_buffer text = {0};
    for (int r = 0; r < ranks; r++)
        numbers[r] = machines[r] - 'a';
    const zr_topology topology = {.ranks = ranks,
                                  .tensor = tensor,
                                  .stage_ranks = ranks / 2,
                                  .machines = numbers,
                                  .machine_count = ZR_COUNT(hosts),
                                  .names = hosts,
                                  .unit = "h.0",
                                  .most = {.data_bytes = 2500000, .link_bytes = 64000}};
    zr_topology_describe(&topology, &text);
    if (!words)
        assert_null(text.data);
    else if (!text.data || !strstr(text.data, words))
        fail_msg("%s: \"%s\", not \"%s\"", machines, text.data ? text.data : "", words);
    zr_buffer_free(&text);
}

static void stages_belong_on_one_machine(void **state)
{
    says_of_stages("aabb", 1, NULL);
    says_of_stages("aaaabbbb", 2, NULL);
    says_of_stages("abab", 1,
                   "the ranks of pipeline stage 0 are on several machines (0 on a; 1 on b): in a "
                   "step up to 2.50 MB of gradients and parameters come to a rank over the "
                   "network, where it sends at most 64.0 kB to other pipeline stages; ranks in the "
                   "order of their machines (mpirun --map-by slot, srun --distribution=block) keep "
                   "them together");
    says_of_stages("aabbaabb", 2, "pipeline stage 0 are on several machines (0 and 1 on a;");
    says_of_stages("abababab", 2, "the tensor ranks of a model are on several machines");
    says_of_stages("aabbccaa", 2, NULL); // no order does
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_on_one_machine_are_fine),
        cmocka_unit_test(an_order_of_hosts_helps),
        cmocka_unit_test(fewer_tensor_ranks_help),
        cmocka_unit_test(many_ranks_are_ranges),
        cmocka_unit_test(the_most_is_raised),
        cmocka_unit_test(stages_belong_on_one_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
