// A fiber: a stack of its own, and a switch to it and back. x86-64 switches by 15 instructions,
// other processors (and SIMT_UCONTEXT) by ucontext. AddressSanitizer and ThreadSanitizer are told
// of each switch.
#ifndef ZR_SIMT_FIBER_H
#define ZR_SIMT_FIBER_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#endif
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#define SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIMT_TSAN 1
#endif
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace simt {

constexpr size_t guard_bytes = 4096, stack_bytes = 124 << 10;

struct context {
#ifdef SIMT_SWITCH
    void *stack_pointer;
#else
    ucontext_t registers;
#endif
    const void *bottom; // of its stack
    size_t bytes;
    void *fake_stack; // AddressSanitizer's
    void *fiber;      // ThreadSanitizer's
};

inline void context_forget([[maybe_unused]] context &of) // which has ended
{
#ifdef SIMT_TSAN
    if (of.fiber)
        __tsan_destroy_fiber(of.fiber);
#endif
}

// Stacks of all threads of a block, each above a page that nobody may touch.
class stacks {
  public:
    char *at(unsigned number) const { return memory + number * (guard_bytes + stack_bytes); }

    void grow(unsigned wanted)
    {
        if (wanted <= count)
            return;
        clear();
        void *got = mmap(nullptr, wanted * (guard_bytes + stack_bytes), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED) {
            fprintf(stderr, "simt: no memory for the stacks of %u threads\n", wanted);
            abort();
        }
        memory = (char *)got;
        count = wanted;
        for (unsigned i = 0; i < count; i++)
            mprotect(at(i), guard_bytes, PROT_NONE);
    }

    void clear()
    {
        if (memory)
            munmap(memory, count * (guard_bytes + stack_bytes));
        memory = nullptr;
        count = 0;
    }

    ~stacks() { clear(); }

  private:
    char *memory = nullptr;
    unsigned count = 0;
};

#ifdef SIMT_SWITCH
// Leaves the registers that a call keeps on this stack, and takes those of another.
__attribute__((naked, noinline)) inline void switch_stacks(void **, void *)
{
    asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
}
#endif

// Makes `of` begin with entry() on that stack when it is switched to.
inline void context_prepare(context &of, char *stack, void (*entry)())
{
    char *bottom = stack + guard_bytes;
    of.bottom = bottom;
    of.bytes = stack_bytes;
    of.fake_stack = nullptr;
#ifdef SIMT_ASAN
    __asan_unpoison_memory_region(bottom, stack_bytes);
#endif
#ifdef SIMT_TSAN
    context_forget(of);
    of.fiber = __tsan_create_fiber(0);
#endif
#ifdef SIMT_SWITCH
    void **top = (void **)(bottom + stack_bytes);
    *--top = nullptr; // where entry would return to
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++)
        *--top = nullptr; // the registers
    of.stack_pointer = top;
#else
    getcontext(&of.registers);
    of.registers.uc_stack.ss_sp = bottom;
    of.registers.uc_stack.ss_size = stack_bytes;
    of.registers.uc_link = nullptr;
    makecontext(&of.registers, entry, 0);
#endif
}

// To be called first wherever a switch arrives; `from` is who switched, if its stack is not known.
inline void context_arrive([[maybe_unused]] context &here, [[maybe_unused]] context *from)
{
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(here.fake_stack, from ? &from->bottom : nullptr,
                                    from ? &from->bytes : nullptr);
#endif
}

// Goes on in `to` until something switches back; never comes back from a fiber that has ended.
inline void context_switch(context &from, context &to, [[maybe_unused]] bool ended)
{
#ifdef SIMT_ASAN
    __sanitizer_start_switch_fiber(ended ? nullptr : &from.fake_stack, to.bottom, to.bytes);
#endif
#ifdef SIMT_TSAN
    if (!from.fiber) // a thread's own
        from.fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.fiber, 0);
#endif
#ifdef SIMT_SWITCH
    switch_stacks(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.registers, &to.registers);
#endif
    context_arrive(from, nullptr);
}

} // namespace simt

#endif
