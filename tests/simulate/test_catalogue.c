// Machines by name, by file and by device; frameworks by what a text has.
#include "simulate/catalogue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// Opens the catalogue in a new and empty working directory.
static int open_empty(void **state)
{
    char place[] = "/tmp/zero-catalogue-XXXXXX";
    zr_sim_catalogue *catalogue = calloc(1, sizeof *catalogue);
    *state = catalogue;
    return !mkdtemp(place) || chdir(place) || zr_sim_catalogue_open(catalogue, NULL) != ZERO_OK;
}

static int close_it(void **state)
{
    zr_sim_catalogue_close(*state);
    free(*state);
    unlink("machines/h100-hgx.json");
    unlink("machines/mine.json");
    rmdir("machines");
    char place[64];
    return !getcwd(place, sizeof place) || chdir("/") || rmdir(place);
}

static void write_machine(const char *path, zr_sim_machine machine, int devices)
{
    zr_buffer text = {0};
    machine.devices = devices;
    zr_sim_machine_write(&machine, &text);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text.data, file) >= 0);
    fclose(file);
    zr_buffer_free(&text);
}

static void unknown_machines_get_the_list(void **state)
{
    zr_sim_machine machine;
    zero_error error;
    assert_int_equal(zr_sim_machine_find(*state, "H100-pcie", &machine, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "no machine \"H100-pcie\"; did you mean "));
    assert_int_equal(zr_sim_machine_find(*state, "v100", &machine, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, " or v100-"));
    assert_non_null(strstr(error.message, "h100-hgx"));
    assert_null(strstr(error.message, "frameworks"));
    assert_int_equal(zr_sim_machine_find(*state, "./h100.json", &machine, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "no file \"./h100.json\""));
}

static void obvious_names_are_machines(void **state)
{
    static const struct {
        const char *name, *machine;
    } cases[] = {
        {"h100", "h100-hgx"},       {"H100", "h100-hgx"},       {"a100-80gb", "a100-dgx"},
        {"a100", "a100"},           {"A100-40GB", "a100-40gb"}, {"h100-sxm5-80gb", "h100-hgx"},
        {"H100-96GB", "h100-96gb"}, {"dgx-h100", "h100-hgx"},   {"b200", "b200-hgx"},
        {"h200", "h200-hgx"},       {"GB200", "gb200-nvl72"},   {"dgx h100", "h100-hgx"}};
    static const char *const none[] = {"v100", "h100-nvl", "h100-40gb", "tpu", "100", "", "-"};
    zr_sim_machine machine;
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        assert_int_equal(zr_sim_machine_find(*state, cases[i].name, &machine, NULL), ZERO_OK);
        assert_string_equal(machine.name, cases[i].machine);
    }
    for (int i = 0; i < ZR_COUNT(none); i++)
        assert_int_equal(zr_sim_machine_find(*state, none[i], &machine, NULL), ZERO_ERR_USAGE);
}

static void files_win(void **state)
{
    zr_sim_machine machine;
    zr_sim_catalogue again;
    assert_int_equal(zr_sim_machine_find(*state, "h100-hgx", &machine, NULL), ZERO_OK);
    assert_string_equal(machine.name, "h100-hgx");
    assert_int_equal(mkdir("machines", 0700), 0);
    write_machine("machines/h100-hgx.json", machine, 3);
    write_machine("machines/mine.json", machine, 5);
    assert_int_equal(zr_sim_catalogue_open(&again, NULL), ZERO_OK);
    assert_int_equal(zr_sim_machine_find(&again, "h100-hgx", &machine, NULL), ZERO_OK);
    assert_int_equal(machine.devices, 3);
    assert_int_equal(zr_sim_machine_find(&again, "mine", &machine, NULL), ZERO_OK);
    assert_int_equal(machine.devices, 5);
    assert_string_equal(machine.name, "mine");
    assert_int_equal(zr_sim_machine_find(&again, "machines/mine.json", &machine, NULL), ZERO_OK);
    assert_string_equal(machine.name, "mine");
    zr_sim_catalogue_close(&again);
}

static void wrong_files_are_refused(void **state)
{
    zr_sim_catalogue again;
    zero_error error;
    FILE *file = fopen("machines/h100-hgx.json", "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(zr_sim_catalogue_open(&again, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "machines/h100-hgx.json"));
    zr_sim_catalogue_close(&again);
}

static void frameworks_are_found_in_texts(void **state)
{
    zr_sim_framework framework, standard;
    assert_false(zr_sim_framework_find(*state, NULL, &standard));
    assert_string_equal(standard.name, "standard");
    assert_false(zr_sim_framework_find(*state, "abacus", &framework));
    assert_string_equal(framework.name, "standard");
    assert_true(zr_sim_framework_find(*state, "Megatron-DeepSpeed, ours", &framework));
    assert_string_equal(framework.name, "megatron-deepspeed");
    assert_true(zr_sim_framework_find(*state, "NVIDIA Megatron-LM", &framework));
    assert_string_equal(framework.name, "megatron");
}

static void the_list_has_a_line_for_each(void **state)
{
    const zr_sim_catalogue *catalogue = *state;
    zr_buffer text = {0};
    int lines = 0;
    zr_sim_machine_list(catalogue, false, &text);
    for (const char *at = text.data; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, catalogue->machine_count + 2);
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_machines_get_the_list),
        cmocka_unit_test(obvious_names_are_machines),
        cmocka_unit_test(files_win),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(frameworks_are_found_in_texts),
        cmocka_unit_test(the_list_has_a_line_for_each),
    };
    return cmocka_run_group_tests(tests, open_empty, close_it);
}
