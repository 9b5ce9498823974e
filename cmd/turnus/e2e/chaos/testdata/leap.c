/* Shifts the wall clock of the process that it is loaded into by the seconds in the file
   CHAOS_LEAP, and leaves the monotonic clock alone. (libfaketime does not start with jemalloc.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *leap;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("CHAOS_LEAP");
  int fd = name ? open(name, O_RDONLY) : -1;
  void *p = fd < 0 ? MAP_FAILED : mmap(0, sizeof *leap, PROT_READ, MAP_SHARED, fd, 0);
  if (p != MAP_FAILED) leap = p;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int r = syscall(SYS_clock_gettime, id, t);
  if (r == 0 && leap && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *leap;
  return r;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
  struct timespec t;
  (void)zone;
  int r = clock_gettime(CLOCK_REALTIME, &t);
  if (r == 0) v->tv_sec = t.tv_sec, v->tv_usec = t.tv_nsec / 1000;
  return r;
}

time_t time(time_t *to) {
  struct timespec t;
  if (clock_gettime(CLOCK_REALTIME, &t) != 0) return -1;
  if (to) *to = t.tv_sec;
  return t.tv_sec;
}
