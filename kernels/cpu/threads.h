#ifndef CPU_THREADS_H
#define CPU_THREADS_H

#include <stdint.h>

/* Do item number `item` of `job`. Items can run at the same time and in any order. */
typedef void task(const void *job, int64_t item);

/* Run `run(job, item)` for each item in [0, num_items), on up to `num_threads` threads, including
   this one. All items are done on return. A sleeping thread is woken only if the job `is_long`:
   waking it takes this thread some microseconds, and the woken thread starts only after some tens
   of microseconds. The symbol is hidden, so that another library's `share` cannot replace it. */
__attribute__((visibility("hidden"))) void share(task *run, const void *job, int64_t num_items,
                                                 int64_t num_threads, int is_long);

#endif
