/* Shifts the system clock of one process by the milliseconds in the file CLOCK_SHIM_FILE. The file may change at any time.

   LD_PRELOAD loads the shim. The monotonic clocks stay as they are, so a change of the file looks like a jump of the system clock. Waits
   until a time of the system clock end earlier or later when it jumps, as the kernel's do. The functions call nothing that may allocate,
   because an allocator reads the clock while the process starts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { BILLION = 1000000000, MILLION = 1000000, SLICE_NANOSECONDS = 20 * MILLION };

static const int64_t *offset_milliseconds;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("CLOCK_SHIM_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    close(file);
    offset_milliseconds = page;
}

static int64_t offset(void) {
    return offset_milliseconds ? __atomic_load_n(offset_milliseconds, __ATOMIC_RELAXED) * MILLION : 0;
}

static int64_t nanoseconds(const struct timespec *time) { return (int64_t)time->tv_sec * BILLION + time->tv_nsec; }

static struct timespec timespec_of(int64_t nanoseconds) {
    int64_t seconds = nanoseconds / BILLION - (nanoseconds % BILLION < 0);
    return (struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds - seconds * BILLION};
}

static int64_t kernel_time(void) {
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &time);
    return nanoseconds(&time);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        *time = timespec_of(nanoseconds(time) + offset());
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now = timespec_of(kernel_time() + offset());
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *result) {
    time_t seconds = timespec_of(kernel_time() + offset()).tv_sec;
    if (result) *result = seconds;
    return seconds;
}

/* The kernel's time at which a part of a wait until `deadline` ends. The wait goes on in parts, because the clock may jump meanwhile. */
static struct timespec end_of_part(const struct timespec *deadline) {
    int64_t now = kernel_time(), end = nanoseconds(deadline) - offset();
    return timespec_of(end < now + SLICE_NANOSECONDS ? end : now + SLICE_NANOSECONDS);
}

static int is_over(const struct timespec *deadline) { return kernel_time() + offset() >= nanoseconds(deadline); }

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
    /* A condition of the monotonic clock: its deadlines are some days at most. */
    if (deadline->tv_sec < BILLION) return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, deadline);
    struct timespec end = end_of_part(deadline);
    int result = pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &end);
    /* The end of a part looks like a spurious wakeup, so the caller looks at its predicate again. */
    return result == ETIMEDOUT && !is_over(deadline) ? 0 : result;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    for (;;) {
        struct timespec end = end_of_part(deadline);
        if (sem_clockwait(semaphore, CLOCK_REALTIME, &end) == 0) return 0;
        if (errno != ETIMEDOUT || is_over(deadline)) return -1;
    }
}
