// The monitors of a run on rank 0: tensorboard and csv_monitor of the configuration. Their files begin with the first step that there is
// something of, so that they know whether the run goes on from a checkpoint. Monitoring never ends a run: what cannot be written is warned
// of once, tried again at every step, and missing.
#ifndef ZR_OBSERVE_MONITORS_H
#define ZR_OBSERVE_MONITORS_H

#include "config/config.h"
#include "monitor/csv_files.h"
#include "monitor/event_file.h"

typedef struct zr_monitors {
    const zr_config *config; // not owned
    const zero_logger *logger;
    zr_event_file *events;   // NULL: not open
    zr_csv_files *tables;
    int64_t done;            // samples before the first of this run
    bool begun;
    bool owes;               // the evaluation after `done` samples is made again
    bool events_fail, tables_fail; // what was tried last
} zr_monitors;

bool zr_monitors_asked(const zr_config *config);
// Makes the directories. ZERO_ERR_IO where that cannot be done, or nothing can be written there: before the first step it is refused.
zero_status zr_monitors_prepare(const zr_config *config, zero_error *error);
// samples: trained on so far; fresh: of them, those of the step that ends here (0: an evaluation).
void zr_monitors_write(zr_monitors *monitors, int64_t samples, int64_t fresh, const zr_scalar *scalars, int count);
void zr_monitors_close(zr_monitors *monitors); // zeroed is fine

#endif
