/* Threads that share a kernel's work and rarely wait for each other.

   A parallel region of OpenMP ends when *every* thread has arrived. On a busy machine, the system
   may have suspended one of the threads, and all others wait milliseconds for microseconds of work.
   They wait by spinning, which uses up their own time slices. Here, the threads that are running
   claim items one by one. If no helper gets a processor, the caller does all items itself. The
   caller waits only for items that a helper has started.

       ticket   [ number of the job | first | end ]
                one atomic word; items in [first, end) are not claimed yet
       caller   writes the job, then the ticket;   claims the first item until none is left;
                then waits for the helpers' items
       helper   reads the ticket for SPIN_NS;      claims the last item until none is left;
                sleeps if no job arrives in that time

   Because caller and helper claim from opposite ends, a core gets the same rows in job after job
   (if the machine is not busy) and finds them in its cache.

   A step of the model has hundreds of jobs with some microseconds of Python between them. Waking a
   thread takes longer, so helpers spin for a while before they sleep. An item's result must not
   depend on the thread that computes it. */

#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MAX_HELPERS 255
#define SPIN_NS 100000
#define LOOKS_A_TIME 16 /* reads of the ticket between two reads of the clock */
#define ITEM_BITS 20 /* bits of the ticket for `first`, and as many for `end` */
#define MAX_ITEMS ((1 << ITEM_BITS) - 1)

/* Leave more of the core to its other hardware thread, if there is one. */
#if defined __x86_64__
#define RELAX __builtin_ia32_pause()
#elif defined __aarch64__
#define RELAX __asm__ volatile("isb") /* waits about as long as x86's pause; `yield` does not */
#else
#define RELAX ((void)0)
#endif

static struct {
    pthread_mutex_t turn; /* held by the caller that owns the job */
    int64_t num_helpers;
    /* The job. It is written only while the ticket is empty, so it cannot change while a thread
       reads it and claims an item. */
    task *_Atomic run;
    const void *_Atomic job;
    _Atomic int64_t num_wanted; /* helpers 0 to num_wanted - 1 take part */
    _Atomic uint64_t ticket;
    _Atomic int64_t num_unfinished;
    /* For sleeping. A thread announces its sleep and then checks the state a last time. The other
       side changes the state and then checks for sleepers. So no change is missed. */
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

/* Wake the threads that wait for the condition. A thread that has not seen the change yet holds the
   lock until it really waits, so take the lock once before the broadcast. */
static void wake(pthread_cond_t *condition) {
    pthread_mutex_lock(&pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_broadcast(condition);
}

static int64_t first_of(uint64_t ticket) { return ticket >> ITEM_BITS & MAX_ITEMS; }
static int64_t end_of(uint64_t ticket) { return ticket & MAX_ITEMS; }

#define CALLER -1

/* Claim and do items, as a helper or as CALLER, until no item is left. Returns how many it did. */
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
            /* This also fails if another job has started. */
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

/* After a fork, the child has its parent's memory but no helper threads. */
static void forget_helpers(void) {
    pthread_mutex_init(&pool.turn, 0);
    pthread_mutex_init(&pool.lock, 0);
    pthread_cond_init(&pool.has_work, 0);
    pthread_cond_init(&pool.is_done, 0);
    pool.num_helpers = 0;
    pool.num_asleep = 0;
    pool.caller_sleeps = 0;
    pool.ticket = 0;
}

static void watch_forks(void) { pthread_atfork(0, 0, forget_helpers); }

static void start_helpers(int64_t num_wanted) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    for (pthread_t thread; pool.num_helpers < num_wanted; pool.num_helpers++) {
        /* If this fails, continue with fewer helpers. */
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
    /* If another thread of the process is running a job, do this one without helpers. */
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
