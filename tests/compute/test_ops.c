// What is declared of each kind of operation: its name, operands, bytes and flops; and that a
// kernel of ref touches of an operand exactly what is declared, which is tried in child processes,
// on pages that cannot be touched.
#include "compute/compute.h"
#include "op_cases.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_ref(void **state)
{
    *state = check_queue("ref", NULL, 1);
    return 0;
}

static int close_ref(void **state)
{
    check_queue_close(*state);
    return 0;
}

static void every_kind_has_a_case(void **state) { check_every_kind_has_a_case(); }

static void kinds_have_their_names(void **state)
{
#define CHECK_NAME(kind, ...) assert_string_equal(zr_op_kind_name(ZR_OP_##kind), #kind);
    ZR_OPS(CHECK_NAME)
}

// Writes operands as op_case.operands has them.
static void write_operands(const zr_op *op, char *out, size_t size)
{
    zr_operand operands[ZR_MOST_OPERANDS];
    int count = zr_op_operands(op, operands);
    *out = 0;
    for (int i = 0; i < count; i++) {
        size_t used = strlen(out);
        unsigned access = operands[i].access;
        bool scratch = access == ZR_SCRATCH;
        snprintf(out + used, size - used, "%s%s%s%s%s%s", i ? ", " : "",
                 access & ZR_READ && !scratch ? "r" : "",
                 access & ZR_WRITTEN && !scratch ? "w" : "", access & ZR_AUX && !scratch ? "a" : "",
                 scratch ? "" : " ", operands[i].name);
        assert_ptr_equal(operands[i].at, op->at.each[i]);
    }
}

static void cases_are_as_declared(void **state)
{
    operands *o = operands_new();
    for (const op_case *c = op_case_next(NULL); c; c = op_case_next(c)) {
        const zr_op op = c->make(o);
        char text[512];
        write_operands(&op, text, sizeof text);
        if (strcmp(text, c->operands) != 0)
            fail_msg("%s: operands %s, not %s", c->name, text, c->operands);
        if (zr_op_bytes(&op) != c->bytes || zr_op_flops(&op) != c->flops ||
            zr_op_activity(op.kind) != c->what)
            fail_msg("%s: %s, %lld bytes and %lld flops, not %s, %lld and %lld", c->name,
                     zr_activity_name(zr_op_activity(op.kind)), (long long)zr_op_bytes(&op),
                     (long long)zr_op_flops(&op), zr_activity_name(c->what), (long long)c->bytes,
                     (long long)c->flops);
    }
    free(o);
}

// ---- what a kernel touches ----

// One operand of a case, of which the other operands lie in `all`.
typedef struct moved {
    operands *all;
    zr_op op;
    zr_operand operand;
    int index;    // of the operand
    size_t bytes; // its extent
} moved;

// Returns false if the case does not have the operand.
static bool moved_begin(zr_queue *ref, const op_case *c, int index, moved *out)
{
    zr_operand operands[ZR_MOST_OPERANDS];
    *out = (moved){.all = operands_new(), .index = index};
    out->op = c->make(out->all);
    int count = zr_op_operands(&out->op, operands);
    out->operand = operands[index < count ? index : 0];
    out->bytes = out->operand.access == ZR_SCRATCH
                     ? zr_op_scratch(ref, out->op)
                     : (size_t)out->operand.elements * zero_dtype_bytes(out->operand.storage);
    if (index < count && out->operand.at)
        return true;
    free(out->all);
    return false;
}

enum { FAULTED = 99 };

static void on_fault(int signal) { _exit(FAULTED); }

// Returns whether the operation, in a child, touches what it must not.
static bool faults(zr_queue *ref, const op_case *c, const zr_op *op)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, on_fault);
        signal(SIGBUS, on_fault);
        ref->backend->run(ref, op);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != FAULTED))
        fail_msg("%s: the child ended with status %d", c->name, status);
    return WEXITSTATUS(status) == FAULTED;
}

// Returns whether the case faults if the last `missing` bytes of an operand cannot be touched, and
// the others only in the ways of `protection`.
static bool faults_with(zr_queue *ref, const op_case *c, const moved *m, size_t missing,
                        int protection)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = ZR_ROUND_UP(m->bytes, page) + page;
    char *pages =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = pages + room - (m->bytes - missing);
    zr_op op = m->op;
    assert_true(pages != MAP_FAILED);
    memcpy(at, m->operand.at, m->bytes - missing);
    op.at.each[m->index] = at;
    assert_int_equal(mprotect(pages, room, protection), 0);
    assert_int_equal(mprotect(pages + room, page, PROT_NONE), 0);
    bool result = faults(ref, c, &op);
    munmap(pages, room + page);
    return result;
}

typedef void operand_check(zr_queue *ref, const op_case *c, const moved *m);

static void each_operand(zr_queue *ref, operand_check *check)
{
    moved m;
    for (const op_case *c = op_case_next(NULL); c; c = op_case_next(c))
        for (int i = 0; i < ZR_MOST_OPERANDS; i++)
            if (moved_begin(ref, c, i, &m)) {
                check(ref, c, &m);
                free(m.all);
            }
}

// Structures of values end with what not every operation reads, scratch may be that of another
// direction, and ref computes the log-sum-exp of the scores again.
static bool has_exact_end(const moved *m)
{
    bool again = m->op.kind == ZR_OP_attention_backward && strcmp(m->operand.name, "lse") == 0;
    return strcmp(m->operand.name, "values") != 0 && m->operand.access != ZR_SCRATCH && !again;
}

static bool last_is_touched[ZR_OP_KINDS][ZR_MOST_OPERANDS]; // by some case

static void check_extent(zr_queue *ref, const op_case *c, const moved *m)
{
    if (faults_with(ref, c, m, 0, PROT_READ | PROT_WRITE))
        fail_msg("%s touches more of %s than its %zu bytes", c->name, m->operand.name, m->bytes);
    size_t last = strcmp(m->operand.name, "parts") == 0 ? sizeof(zr_loss_part) // four elements
                                                        : zero_dtype_bytes(m->operand.storage);
    if (has_exact_end(m) && faults_with(ref, c, m, last, PROT_READ | PROT_WRITE))
        last_is_touched[m->op.kind][m->index] = true;
}

static void check_last(zr_queue *ref, const op_case *c, const moved *m)
{
    if (has_exact_end(m) && !last_is_touched[m->op.kind][m->index])
        fail_msg("no case of %s touches the last element of %s", zr_op_kind_name(m->op.kind),
                 m->operand.name);
}

static void extents_are_exact(void **state)
{
    each_operand(*state, check_extent);
    each_operand(*state, check_last);
}

static void check_written(zr_queue *ref, const op_case *c, const moved *m)
{
    bool written = m->operand.access & ZR_WRITTEN;
    if (m->operand.access != ZR_SCRATCH && faults_with(ref, c, m, 0, PROT_READ) != written)
        fail_msg("%s: %s is %swritten", c->name, m->operand.name, written ? "not " : "");
}

static void what_is_written_is_declared(void **state) { each_operand(*state, check_written); }

// Runs the case with the operand in a place of its own, filled with other values if `other`.
static unsigned char *run_moved(zr_queue *ref, const op_case *c, int index, bool other, moved *m)
{
    assert_true(moved_begin(ref, c, index, m));
    unsigned char *own = malloc(ZR_MAX(m->bytes, 1));
    assert_non_null(own);
    memcpy(own, m->operand.at, m->bytes);
    for (size_t i = 0; i < m->bytes && other; i++)
        own[i] = (unsigned char)(i * 37 + 11) & 0x3f;
    m->op.at.each[index] = own;
    ref->backend->run(ref, &m->op);
    return own;
}

// Returns whether the operation leaves elements of what it writes as they are.
static bool leaves_some(const zr_op *op)
{
    const zr_rotary *rotary = &op->shape.rotary;
    const zr_strided *rows = &op->shape.strided;
    return (op->kind == ZR_OP_attention_backward && op->at.attention_backward.d_shared) ||
           (op->kind == ZR_OP_rotate &&
            rotary->y_step > rotary->heads * (rotary->rotated + rotary->rest)) ||
           (op->kind == ZR_OP_copy_rows && rows->to_stride > rows->bytes);
}

// What is written only leaves no trace of what was there before; what is counted as read and
// written does.
static void check_read(zr_queue *ref, const op_case *c, const moved *of)
{
    moved first, second;
    unsigned access = of->operand.access;
    if ((access != ZR_BOTH && (access & ZR_BOTH) != ZR_WRITTEN) || leaves_some(&of->op))
        return;
    unsigned char *a = run_moved(ref, c, of->index, false, &first),
                  *b = run_moved(ref, c, of->index, true, &second);
    bool same = memcmp(a, b, of->bytes) == 0 &&
                memcmp(first.all, second.all, offsetof(operands, scratch)) == 0;
    if (same != ((access & ZR_BOTH) == ZR_WRITTEN))
        fail_msg("%s: %s is %sread", c->name, of->operand.name, same ? "not " : "");
    free(a);
    free(b);
    free(first.all);
    free(second.all);
}

static void what_is_read_is_declared(void **state) { each_operand(*state, check_read); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_case),       cmocka_unit_test(kinds_have_their_names),
        cmocka_unit_test(cases_are_as_declared),       cmocka_unit_test(extents_are_exact),
        cmocka_unit_test(what_is_written_is_declared), cmocka_unit_test(what_is_read_is_declared),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
