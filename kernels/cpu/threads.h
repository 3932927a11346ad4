#ifndef CPU_THREADS_H
#define CPU_THREADS_H

#include <stdint.h>

/* Does item number `item` of what `job` describes. Items may run at once and in any order. */
typedef void task(const void *job, int64_t item);

/* Run `run(job, item)` for each item in [0, num_items), on up to `num_threads` threads, this one
   among them. All are done on return. A thread that sleeps is woken only for a job that `is_long`:
   waking takes some microseconds here, and some tens until it is there. Hidden, so that no other
   library's `share` can take its place. */
__attribute__((visibility("hidden"))) void share(task *run, const void *job, int64_t num_items,
                                                 int64_t num_threads, int is_long);

#endif
