// Updates: what travels to NVMe and back, and what is made beside the next step.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "forecast_desk.h"

#include <math.h>

static const zr_tiering on_nvme = {.optimizer = ZERO_TIER_nvme,
                                   .parameters = ZERO_TIER_nvme,
                                   .sub_group = 4096,
                                   .read_ahead = true,
                                   .write_behind = true,
                                   .visits_ahead = 2,
                                   .block = 1 << 20};

// The disk is waited for where it is slower, and not where computing takes longer.
static void the_disk_hides_behind_computing(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 2, &on_nvme);
    const zr_moved *update = &plan->moves.update[0];
    double moved = (double)(update->nvme_read + update->nvme_written);
    d.book.read = d.book.write = d.book.mix = 1e15;
    zr_forecast quick = ask_of(&d, plan);
    assert_true(quick.parts[ZR_TIME_DISK] < 1e-6);
    d.book.mix = 1e5; // the walk's computing is nothing next to it
    zr_forecast slow = ask(&d);
    assert_true(slow.parts[ZR_TIME_DISK] > 0.9 * (moved / 1e5 - quick.parts[ZR_TIME_UPDATE]));
    assert_true(slow.parts[ZR_TIME_DISK] <= moved / 1e5);
    near(slow.parts[ZR_TIME_UPDATE], quick.parts[ZR_TIME_UPDATE]);
    assert_string_equal(slow.bound, "disk");
    d.question.kv_replicas = 2;
    assert_true(ask(&d).parts[ZR_TIME_DISK] > 1.9 * slow.parts[ZR_TIME_DISK]);
    // What micro-batches move: nothing is waited for while they compute long enough.
    d.question.kv_replicas = 1, d.book.mix = 1e15;
    d.book.read = d.book.write = 1e5;
    zr_forecast waits = ask(&d);
    d.book.read = d.book.write = 1e8;
    zr_forecast hidden = ask(&d);
    assert_true(hidden.parts[ZR_TIME_DISK] < 0.5e-3 * waits.parts[ZR_TIME_DISK]);
    d.question.cores = 2;
    zr_forecast unsummed = ask(&d);
    d.book.checksum = 1e8; // by the ranks' cores, as there are no others
    double bytes =
        moved +
        2 * (double)(plan->moves.micro_batch.nvme_read + plan->moves.micro_batch.nvme_written) +
        (double)(plan->moves.earlier_sum.nvme_read + plan->moves.earlier_sum.nvme_written +
                 plan->moves.kept.nvme_read);
    assert_true(ask(&d).parts[ZR_TIME_DISK] - unsummed.parts[ZR_TIME_DISK] > 0.9 * bytes / 1e8);
    d.book.read = d.book.write = d.book.mix = d.book.checksum = 0; // unknown
    d.question.cores = 0;
    assert_true(ask(&d).unknown > hidden.unknown);
    zr_plan_destroy(plan);
    close_desk(&d);
}

// One group after another is read, updated and written, where nothing is read ahead or written
// behind; else the disk and the rank work at once.
static void staging_buffers_travel_while_others_are_updated(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    zr_forecast at[2][2];
    double moved = 0;
    for (int ahead = 0; ahead < 2; ahead++)
        for (int behind = 0; behind < 2; behind++) {
            zr_tiering tiering = on_nvme;
            tiering.read_ahead = ahead, tiering.write_behind = behind;
            zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
            const zr_moved *update = &plan->moves.update[0];
            moved = (double)(update->nvme_read + update->nvme_written);
            d.book.read = d.book.write = 1e18;
            d.book.mix = moved / (elements_of(plan, false) * 28 * OPTIMIZER); // as fast as the rank
            at[ahead][behind] = ask_of(&d, plan);
            if (!ahead && !behind) {
                near(at[0][0].parts[ZR_TIME_DISK] * d.book.mix / moved, 1);
                assert_true(plan->group_count > 4);
            }
            zr_plan_destroy(plan);
        }
    double all = at[0][0].parts[ZR_TIME_DISK];
    assert_true(at[1][0].parts[ZR_TIME_DISK] < 0.9 * all);
    // A group's write and the next one's read share the disk.
    assert_true(at[0][1].parts[ZR_TIME_DISK] < 1.001 * all);
    assert_true(at[1][1].parts[ZR_TIME_DISK] < 0.9 * at[1][0].parts[ZR_TIME_DISK]);
    assert_true(at[1][1].parts[ZR_TIME_DISK] < 0.5 * all);
    close_desk(&d);
}

static void what_is_delayed_hides_behind_the_next_step(void **state)
{
    desk d;
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    open_desk(&d);
    static const zr_tiering on_host = {.optimizer = ZERO_TIER_host};
    zr_settings settings = fixture_settings(ZERO_BF16, 2, 1);
    settings.tiering = on_host;
    zr_plan *now = fixture_plan_of(&f, &settings, 2, true);
    settings.delayed = true;
    zr_plan *later = fixture_plan_of(&f, &settings, 2, true);
    zr_forecast at_once = ask_of(&d, now), beside = ask_of(&d, later);
    double squares = elements_of(now, false) * 2 * SQUARES, copied = 0;
    for (int i = 0; i < later->shard_slice_count; i++) // gaps and padding are copied, too
        copied += (double)later->shard_slices[i].count * 6 * ELEMENT;
    near(beside.parts[ZR_TIME_UPDATE], squares + copied);
    near(beside.parts[ZR_TIME_COMPUTE], at_once.parts[ZR_TIME_COMPUTE]);
    double walk = at_once.parts[ZR_TIME_UPDATE] - squares;
    // Without a core to spare it is computed in the ranks' time all the same.
    d.question.cores = 2;
    near(ask(&d).seconds, beside.seconds + elements_of(now, false) * 26 * OPTIMIZER);
    d.question.cores = 3;
    near(ask(&d).seconds, beside.seconds);
    assert_true(walk > 0);
    // Where there is little to hide behind, the rest of it is waited for.
    make_nothing(&d, 0);
    zr_forecast idle = ask(&d);
    assert_true(idle.seconds < beside.seconds && idle.seconds > walk);
    zr_plan_destroy(now);
    zr_plan_destroy(later);
    close_desk(&d);
}

static double iteration_flops(const zr_plan *plan)
{
    const zr_orthogonal of =
        zr_plan_orthogonal(plan, plan->matrices[0].rows, plan->matrices[0].cols);
    return zr_orthogonal_flops(&of);
}

// Four equal matrices take a rank alone four times one's products, and two ranks twice.
static void matrices_are_divided_among_ranks(void **state)
{
    enum { LARGE = 1 << 30, FLOPS_OF_BYTE = 1 << 10 };
    const double flop = 1e-11; // seconds
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    for (int ranks = 1; ranks <= 2; ranks++) {
        zr_settings settings = fixture_settings(ZERO_BF16, 2, 1);
        settings.orthogonal = true;
        zr_plan *plan = fixture_plan_of(&f, &settings, ranks, true);
        double update[2];
        for (int times = 1; times <= 2; times++) {
            desk d;
            open_desk(&d);
            zr_rates *rates = zr_rate_book_take(&d.book, &d.question.setting, NULL);
            zr_rates_add(rates, ZR_ACTIVITY_product, LARGE, (int64_t)LARGE * FLOPS_OF_BYTE,
                         (double)LARGE * FLOPS_OF_BYTE * flop * times, 1);
            update[times - 1] = ask_of(&d, plan).parts[ZR_TIME_UPDATE];
            close_desk(&d);
        }
        double wanted = 4.0 / ranks * iteration_flops(plan) * flop;
        assert_true(fabs(update[1] - update[0] - wanted) < 1e-6 * wanted);
        zr_plan_destroy(plan);
    }
}

// Of each matrix half of a direction comes to its owner, and half of the result to the other rank:
// over a network that is half a matrix in bf16 for each of both.
static void directions_are_messages(void **state)
{
    fixture f;
    desk d;
    fixture_build(&f, 4, 1000, 96);
    zr_settings settings = fixture_settings(ZERO_BF16, 2, 1);
    open_desk(&d);
    d.question.data = link_of(&d, 1e6, 1e-3);
    zr_plan *plain = fixture_plan_of(&f, &settings, 2, true);
    settings.orthogonal = true;
    zr_plan *muon = fixture_plan_of(&f, &settings, 2, true);
    double without = ask_of(&d, plain).parts[ZR_TIME_EXCHANGE],
           with = ask_of(&d, muon).parts[ZR_TIME_EXCHANGE];
    near(with - without, 4 * (1e-3 + 96 * 4 * 96 / 1e6));
    zr_plan_destroy(plain);
    zr_plan_destroy(muon);
    close_desk(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_hides_behind_computing),
        cmocka_unit_test(staging_buffers_travel_while_others_are_updated),
        cmocka_unit_test(what_is_delayed_hides_behind_the_next_step),
        cmocka_unit_test(matrices_are_divided_among_ranks),
        cmocka_unit_test(directions_are_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
