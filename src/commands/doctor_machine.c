// This machine as a file for zero_simulate. A core is a device, because a rank of one thread is
// what the simulation's devices are; what cores share is divided among them.
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/file.h"
#include "predict/meter.h"
#include "predict/rates.h"
#include "simulate/machine.h"
#include "commands/bench_shared.h"
#include "commands/doctor_report.h"

#include <stdio.h>

// What is assumed, because one machine cannot measure it.
#define NETWORK 1.25e9        // bytes a second of a machine: Ethernet with 10 Gbit/s
#define NETWORK_LATENCY 50e-6 // seconds of a message between machines
#define COPY_LATENCY 5e-6     // seconds in which a rank sees what another has written
#define LAUNCH 2e-6           // seconds that a kernel takes at least

typedef struct rates { // of all cores together
    double peak;       // FLOP/s in registers
    double fp32, bf16; // FLOP/s of a large product
    double copy;       // bytes a second that a copy reads and writes
} rates;

static zero_status measure_products(int cores, rates *out, zero_error *error)
{
    zr_queue *queue = NULL;
    ZERO_TRY(zr_queue_open("cpu", NULL, cores, &queue, error));
    out->peak = zr_bench_peak(queue) * cores;
    zero_status status = zr_doctor_product_rate(queue, ZERO_F32, &out->fp32, error);
    if (status == ZERO_OK)
        status = zr_doctor_product_rate(queue, ZERO_BF16, &out->bf16, error);
    zr_queue_close(queue);
    return status;
}

static zero_status measure_doctor_machine(int cores, rates *out, zero_error *error)
{
    zr_meter meter = {.threads = cores, .seconds = 0.3};
    ZERO_TRY(measure_products(cores, out, error));
    ZERO_TRY(zero_comm_self(&meter.comm, error));
    zero_status status = zr_memory_rate_of_copy(&meter, &out->copy, error);
    zero_comm_destroy(meter.comm);
    return status;
}

static void set_links(const rates *rates, int cores, zr_sim_machine *machine)
{
    // A copy reads and writes, and all ranks copy at once.
    double copied = rates->copy / 2 / cores;
    zr_sim_link network = {.rate = NETWORK, .latency = NETWORK_LATENCY, .sharers = cores};
    machine->links[ZR_SIM_IN_NODE] =
        (zr_sim_link){.rate = copied, .latency = COPY_LATENCY, .sharers = 1};
    machine->links[ZR_SIM_RAIL] = machine->links[ZR_SIM_SPINE] = network;
    machine->taper = 1;
    machine->host_link = copied;
    machine->host_rate = rates->copy;
}

static zr_sim_machine machine_of(const rates *rates, int cores, int64_t memory,
                                 const zr_storage_rates *disk)
{
    double reached = rates->fp32 / rates->peak;
    zr_sim_machine machine = {
        .devices = cores,
        .processors = 1,
        .memory = (double)memory / cores,
        // A product in bf16 that is as far from its peak as one in fp32.
        .peak =
            {[ZR_SIM_FP32] = rates->peak / cores, [ZR_SIM_16_BIT] = rates->bf16 / reached / cores},
        .memory_rate = rates->copy / cores,
        .host_memory = (double)memory,
        .nvme_read = disk ? disk->read : 0,
        .nvme_write = disk ? disk->write : 0,
        .constants = {[ZR_SIM_REACHED] = reached,
                      [ZR_SIM_HALF] = 16,
                      [ZR_SIM_STREAMED] = 1,
                      [ZR_SIM_ATTENDED] = reached / 2,
                      [ZR_SIM_LAUNCH] = LAUNCH,
                      [ZR_SIM_NARROW] = reached},
        .fit = "reached and streamed were measured; the others are estimates",
    };
    char model[128];
    zr_cpu_model(model, sizeof model);
    snprintf(machine.device, sizeof machine.device, "CPU core (%.34s)", model);
    set_links(rates, cores, &machine);
    return machine;
}

static void report_machine(zr_report *r, const char *file, const rates *rates,
                           const zr_sim_machine *machine)
{
    zr_report_begin(r, "machine_file");
    ZR_SENTENCE(r, "machine file",
                "{path}: {devices} devices, one a core; zero simulate --machine {}", zr_text(file),
                zr_integer(machine->devices), zr_text(file));
    ZR_SENTENCE(r, "  measured",
                "of all cores: {peak_flops_per_second:G} GF/s in registers, products "
                "{fp32_flops_per_second:G} GF/s in fp32, {bf16_flops_per_second:G} GF/s in bf16; "
                "copies {copy_bytes_per_second:.1G} GB/s",
                zr_real(rates->peak), zr_real(rates->fp32), zr_real(rates->bf16),
                zr_real(rates->copy));
    zr_report_line(r, "  assumed", "a network of 10 Gbit/s; latencies, and how small kernels do");
    zr_report_json_only(r, "network_bytes_per_second", zr_real(NETWORK));
    zr_report_json_only(r, "disk_is_known", zr_flag(machine->nvme_read > 0));
    if (!machine->nvme_read)
        zr_report_line(r, "  disk", "not known: zero bench io --path DIR measures and keeps it");
    zr_report_end(r);
}

zero_status zr_doctor_machine(zr_doctor *doctor, const char *directory, const char *file,
                              zero_error *error)
{
    char reason[128];
    rates rates;
    zr_rate_book book;
    zr_buffer text = {0};
    int cores = zr_cpu_budget_get().allowed;
    int64_t memory = zr_memory_available(reason, sizeof reason);
    ZERO_TRY(measure_doctor_machine(cores, &rates, error));
    zr_rate_book_read(NULL, &book);
    zr_sim_machine machine =
        machine_of(&rates, cores, memory, zr_rate_book_storage(&book, directory));
    zr_rate_book_free(&book);
    zr_sim_machine_write(&machine, &text);
    ZERO_TRY(zr_file_write_text(file, &text, error));
    report_machine(doctor->report, file, &rates, &machine);
    return ZERO_OK;
}
