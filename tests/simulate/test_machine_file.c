// Machine files: what is written reads back, every built-in file is right, and every wrong key is
// named with its place.
#include "simulate/catalogue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static zr_sim_text built_in(const char *name)
{
    int i = 0;
    while (strcmp(zr_built_ins[i].name, name))
        assert_non_null(zr_built_ins[++i].name);
    return (zr_sim_text){
        .name = "m.json", .text = zr_built_ins[i].text, .length = strlen(zr_built_ins[i].text)};
}

static void a_machine_survives_its_file(void **state)
{
    zr_sim_text file = built_in("h100-hgx");
    zr_sim_machine machine, again;
    zr_buffer text = {0};
    assert_int_equal(zr_sim_machine_parse(&file, &machine, NULL), ZERO_OK);
    assert_string_equal(machine.device, "H100-80GB");
    assert_int_equal(machine.devices, 8);
    assert_float_equal(machine.memory, 80e9, 1);
    assert_float_equal(machine.peak[ZR_SIM_16_BIT], 989e12, 1e3);
    assert_float_equal(machine.links[ZR_SIM_RAIL].rate, 50e9, 1);
    assert_true(machine.links[ZR_SIM_RAIL].latency > 0 &&
                machine.links[ZR_SIM_RAIL].latency < 1e-3);
    zr_sim_machine_write(&machine, &text);
    assert_false(text.failed);
    file = (zr_sim_text){.name = "again.json", .text = text.data, .length = text.length};
    assert_int_equal(zr_sim_machine_parse(&file, &again, NULL), ZERO_OK);
    assert_memory_equal(&machine, &again, sizeof machine);
    zr_buffer_free(&text);
}

// Parses the file of a machine in which `was` is replaced, and expects a message with `says`.
static void refuses_as(zero_status wanted, const char *was, const char *now, const char *says)
{
    zr_sim_text file = built_in("h100-hgx");
    char changed[4096];
    zr_sim_machine machine;
    zero_error error = {0};
    const char *at = strstr(file.text, was);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - file.text), file.text, now,
             at + strlen(was));
    file.text = changed;
    file.length = strlen(changed);
    assert_int_equal(zr_sim_machine_parse(&file, &machine, &error), wanted);
    if (!strstr(error.message, says) || strncmp(error.message, "m.json", 6))
        fail_msg("\"%s\", not \"%s\"", error.message, says);
}

static void refuses(const char *was, const char *now, const char *says)
{
    refuses_as(ZERO_ERR_CONFIG, was, now, says);
}

static void wrong_keys_are_named(void **state)
{
    refuses("\"devices\": 8", "\"devices\": 8, \"gpus\": 8", "\"gpus\" is no key of a machine");
    refuses("\"devices\": 8", "\"devices\": 8.5", "\"devices\" is not a whole number");
    refuses("\"devices\": 8", "\"devices\": 0", "m.json:3:14: \"devices\" is 0");
    refuses("\"devices\": 8,", "", "\"devices\" is missing");
    refuses("\"memory_GB\": 80", "\"memory_GB\": -1", "\"memory_GB\" is -1");
    refuses("\"memory_GB\": 80", "\"memory_GB\": \"80\"", "\"memory_GB\" is not a number");
    refuses("\"device\": \"H100-80GB\"", "\"device\": 100", "\"device\" is not a text");
    refuses("\"rail\"", "\"rails\"", "\"links.rails\" is no key");
    refuses("\"rail\": {\"GB_s\"", "\"rail\": {\"rate\"", "\"links.rail.rate\" is no key");
    refuses("\"host\": {", "\"host\": 3, \"more\": {", "\"host\" is not an object");
    refuses("\"reached\"", "\"reach\"", "\"constants.reach\" is no constant");
    refuses("\"reached\": ", "\"reached\": -", "\"constants.reached\" is not a number");
    refuses("\"reached\": ", "\"reached\": 0, \"was\": ", "\"constants.reached\" is 0, and has");
    refuses_as(ZERO_ERR_DATA, "\"taper\"", "\"taper\": 1, \"taper\"", "given twice");
    refuses_as(ZERO_ERR_DATA, "{", "[", "m.json");
}

static void every_built_in_file_is_right(void **state)
{
    bool frameworks = false;
    for (int i = 0; zr_built_ins[i].name; i++) {
        zr_sim_text file = built_in(zr_built_ins[i].name);
        zr_sim_machine machine;
        zr_sim_framework *all = NULL;
        int count = 0;
        zero_error error = {0};
        bool names = !strcmp(zr_built_ins[i].name, "frameworks");
        zero_status status = names ? zr_sim_frameworks_parse(&file, &all, &count, &error)
                                   : zr_sim_machine_parse(&file, &machine, &error);
        if (status != ZERO_OK)
            fail_msg("%s: %s", zr_built_ins[i].name, error.message);
        frameworks |= names && count > 1;
        zr_free(all);
    }
    assert_true(frameworks);
}

static void wrong_frameworks_are_named(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"{}", "no framework"},
                 {"{\"a\": 3}", "\"a\" is no framework"},
                 {"{\"a\": {}}", "\"a\" is incomplete"},
                 {"{\"a\": {\"flash\": 1}}", "\"a.flash\" is neither true nor false"},
                 {"{\"a\": {\"constants\": {}}}", "is missing"},
                 {"{\"a\": {\"constants\": {\"hidden\": 1.5}}}", "hidden\" is more than 1"},
                 {"{\"a\": {\"speed\": 1}}", "\"a.speed\" is no key of a framework"}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_sim_text file = {
            .name = "f.json", .text = cases[i].text, .length = strlen(cases[i].text)};
        zr_sim_framework *all = NULL;
        int count;
        zero_error error = {0};
        assert_int_equal(zr_sim_frameworks_parse(&file, &all, &count, &error), ZERO_ERR_CONFIG);
        if (!strstr(error.message, cases[i].says))
            fail_msg("\"%s\", not \"%s\"", error.message, cases[i].says);
        zr_free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_survives_its_file),
        cmocka_unit_test(wrong_keys_are_named),
        cmocka_unit_test(every_built_in_file_is_right),
        cmocka_unit_test(wrong_frameworks_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
