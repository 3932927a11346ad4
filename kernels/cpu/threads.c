/* Threads that share a kernel's work, and do not wait for each other where they need not.

   A parallel region of OpenMP ends when *every* thread has come by. On a busy machine a thread that
   the system has put aside keeps the others waiting until its next turn, milliseconds for
   microseconds of work, and they wait by spinning, which costs them turns of their own. Here items
   are claimed one by one, by whichever thread is running. If no helper gets a processor, the caller
   does everything itself; all that it ever waits for is an item that a helper has begun.

       ticket   [ number of the job | first | end ]
                one atomic word: the items from first to end are nobody's yet
       caller   writes the job, then the ticket    claims the first until there is none
                waits for items begun by others
       helper   looks at the ticket for SPIN_NS    claims the last until there is none
                sleeps when nothing came for so long

   From both ends, so that in quiet times a core gets the same rows in job after job, and finds them
   in its own cache.

   A step of the model is hundreds of jobs with some microseconds of Python between them, and waking
   a sleeping thread takes longer than that: so helpers look for a while before they sleep. What an
   item computes must not depend on the thread that does it. */

#include "threads.h"

#ifndef __AVX512F__

/* Here oneDNN multiplies, on OpenMP's threads (linear_backend.py). A second set would stand in
   their way, on the same cores. */
void share(task *run, const void *job, int64_t num_items, int64_t num_threads, int is_long) {
#pragma omp parallel for schedule(dynamic) num_threads(num_threads) \
    if (is_long && num_threads > 1 && num_items > 1)
    for (int64_t item = 0; item < num_items; item++) run(job, item);
}

#else

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MAX_HELPERS 255
#define SPIN_NS 100000
#define LOOKS_A_TIME 16 /* between two looks at the clock */
#define ITEM_BITS 20 /* of the ticket, for `first` and for `end` */
#define MAX_ITEMS ((1 << ITEM_BITS) - 1)

/* Leaves the core's other half, if it has one, more of the core. */
#define RELAX __builtin_ia32_pause()

static struct {
    pthread_mutex_t turn; /* held by the caller whose job this is */
    int64_t num_helpers;
    /* The job. Written only while the ticket is empty, so it cannot change between reading it and
       claiming an item of it. */
    task *_Atomic run;
    const void *_Atomic job;
    _Atomic int64_t num_wanted; /* helpers: the first so many */
    _Atomic uint64_t ticket;
    _Atomic int64_t num_unfinished;
    /* For those who sleep. Each says so before its last look, and the other side looks for sleepers
       after its change. */
    pthread_mutex_t lock;
    pthread_cond_t has_work, is_done;
    _Atomic int64_t num_asleep, caller_sleeps;
} pool = {
    .turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER,
    .has_work = PTHREAD_COND_INITIALIZER, .is_done = PTHREAD_COND_INITIALIZER,
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Wakes whoever waits for it. A sleeper that has not seen the change yet holds the lock until it
   can be woken. */
static void wake(pthread_cond_t *condition) {
    pthread_mutex_lock(&pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_broadcast(condition);
}

static int64_t first_of(uint64_t ticket) { return ticket >> ITEM_BITS & MAX_ITEMS; }
static int64_t end_of(uint64_t ticket) { return ticket & MAX_ITEMS; }

#define CALLER -1

/* Claim items and do them until there are none for this helper, or the caller; how many. */
static int64_t work(int64_t helper) {
    for (int64_t num_done = 0;; num_done++) {
        uint64_t ticket = pool.ticket, rest;
        task *run;
        const void *job;
        int64_t item;
        do {
            if (first_of(ticket) == end_of(ticket) || helper >= pool.num_wanted) return num_done;
            run = pool.run;
            job = pool.job;
            item = helper == CALLER ? first_of(ticket) : end_of(ticket) - 1;
            rest = helper == CALLER ? ticket + (1 << ITEM_BITS) : ticket - 1;
            /* fails, too, if it is another job by now */
        } while (!atomic_compare_exchange_weak(&pool.ticket, &ticket, rest));
        run(job, item);
        if (atomic_fetch_sub(&pool.num_unfinished, 1) == 1 && pool.caller_sleeps)
            wake(&pool.is_done);
    }
}

static int is_wanted(int64_t helper) {
    uint64_t ticket = pool.ticket;
    return first_of(ticket) != end_of(ticket) && helper < pool.num_wanted;
}

static void *help(void *number) {
    const int64_t helper = (int64_t)number;
    for (;;) {
        for (int64_t until = now_ns() + SPIN_NS; now_ns() < until;) {
            for (int look = 0; look < LOOKS_A_TIME && !is_wanted(helper); look++) RELAX;
            if (is_wanted(helper) && work(helper)) until = now_ns() + SPIN_NS;
        }
        pthread_mutex_lock(&pool.lock);
        pool.num_asleep++;
        while (!is_wanted(helper)) pthread_cond_wait(&pool.has_work, &pool.lock);
        pool.num_asleep--;
        pthread_mutex_unlock(&pool.lock);
    }
    return 0;
}

/* A child process has its parent's memory and none of its helpers. */
static void forget_helpers(void) {
    pthread_mutex_init(&pool.turn, 0);
    pthread_mutex_init(&pool.lock, 0);
    pthread_cond_init(&pool.has_work, 0);
    pthread_cond_init(&pool.is_done, 0);
    pool.num_helpers = pool.num_asleep = pool.caller_sleeps = 0;
    pool.ticket = 0;
}

static void watch_forks(void) { pthread_atfork(0, 0, forget_helpers); }

static void start_helpers(int64_t num_wanted) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    for (pthread_t thread; pool.num_helpers < num_wanted; pool.num_helpers++) {
        /* If that fails, with fewer. */
        if (pthread_create(&thread, 0, help, (void *)pool.num_helpers)) return;
        pthread_detach(thread);
    }
}

static void wait_for_helpers(void) {
    for (int64_t until = now_ns() + SPIN_NS; now_ns() < until;)
        for (int look = 0; look < LOOKS_A_TIME; look++) {
            if (!pool.num_unfinished) return;
            RELAX;
        }
    pthread_mutex_lock(&pool.lock);
    pool.caller_sleeps = 1;
    while (pool.num_unfinished) pthread_cond_wait(&pool.is_done, &pool.lock);
    pool.caller_sleeps = 0;
    pthread_mutex_unlock(&pool.lock);
}

void share(task *run, const void *job, int64_t num_items, int64_t num_threads, int is_long) {
    int64_t num_helpers = (num_threads < num_items ? num_threads : num_items) - 1;
    if (num_helpers > MAX_HELPERS) num_helpers = MAX_HELPERS;
    /* Another thread of the process may be at a job of its own; then this one is done without
       help. */
    if (num_helpers < 1 || num_items > MAX_ITEMS || pthread_mutex_trylock(&pool.turn)) {
        for (int64_t item = 0; item < num_items; item++) run(job, item);
        return;
    }
    start_helpers(num_helpers);
    pool.run = run;
    pool.job = job;
    pool.num_unfinished = num_items;
    pool.num_wanted = num_helpers;
    pool.ticket = ((pool.ticket >> 2 * ITEM_BITS) + 1) << 2 * ITEM_BITS | (uint64_t)num_items;
    if (is_long && pool.num_asleep) wake(&pool.has_work);
    work(CALLER);
    wait_for_helpers();
    pthread_mutex_unlock(&pool.turn);
}

#endif
