// The least that pushing to many sockets can cost: a loop of send() over N connected sockets, in one process; another process reads.
// Usage: bare-send SOCKETS ROUNDS BYTES. Prints the CPU seconds that the sender took for one send.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void reader(int port, int count) {
  pin(1);
  int poll = epoll_create1(0);
  char buffer[65536];
  for (int i = 0; i < count; i++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = inet_addr("127.0.0.1");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  }
  struct epoll_event events[512];
  for (;;) {
    int ready = epoll_wait(poll, events, 512, -1);
    for (int i = 0; i < ready; i++)
      if (recv(events[i].data.fd, buffer, sizeof buffer, 0) <= 0) exit(0);
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: bare-send SOCKETS ROUNDS BYTES\n"), 64;
  int count = atoi(argv[1]), rounds = atoi(argv[2]), bytes = atoi(argv[3]);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = inet_addr("127.0.0.1");
  socklen_t length = sizeof address;
  if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 4096) != 0) fail("listen");
  getsockname(listener, (struct sockaddr *)&address, &length);
  if (fork() == 0) reader(ntohs(address.sin_port), count);
  pin(0);
  int *fds = malloc(sizeof(int) * count);
  for (int i = 0; i < count; i++) {
    fds[i] = accept(listener, NULL, NULL);
    int on = 1;
    setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  char *payload = calloc(1, bytes);
  double start = cpu_seconds();
  struct timespec pause = {.tv_nsec = 100000000};
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < count; i++)
      if (send(fds[i], payload, bytes, 0) != bytes) fail("send");
    nanosleep(&pause, NULL);
  }
  printf("%.9f\n", (cpu_seconds() - start) / ((double)count * rounds));
  return 0;
}
