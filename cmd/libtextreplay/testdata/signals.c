/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The Go runtime inside of the library leaves the host's signal handlers alone: those that
 * were installed before the library was loaded, and those that are installed afterwards.
 *
 *	signals LIBRARY RECORDING
 *
 * The library is loaded with dlopen, so that there is a before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <textreplay.h>
#include <unistd.h>

static volatile sig_atomic_t seen[65];
static sigjmp_buf back;

static void handler(int sig, siginfo_t *info, void *ctx)
{
	(void)info;
	(void)ctx;
	seen[sig]++;
	if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE)
		siglongjmp(back, 1);
}

static void install(int sig)
{
	struct sigaction sa = { 0 };

	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

static int bad;
static const int sigs[] = { SIGSEGV, SIGBUS, SIGFPE, SIGPROF, SIGINT, SIGTERM, SIGUSR1, SIGPIPE };

static void expect(const char *when)
{
	/* A fault of the host's own. */
	volatile int before = seen[SIGSEGV];
	if (!sigsetjmp(back, 1))
		*(volatile int *)8 = 1;
	if (seen[SIGSEGV] != before + 1) {
		printf("%s: a fault did not reach the host\n", when);
		bad = 1;
	}
	for (unsigned i = 3; i < sizeof(sigs) / sizeof(*sigs); i++) {
		before = seen[sigs[i]];
		raise(sigs[i]);
		if (seen[sigs[i]] <= before) {
			printf("%s: signal %d did not reach the host\n", when, sigs[i]);
			bad = 1;
		}
	}
}

static int (*f_open)(const char *, const textreplay_options *, textreplay **);
static int (*f_new)(textreplay *, textreplay_cursor **);
static int (*f_read)(textreplay_cursor *, uint64_t, void *, size_t, textreplay_answer *);
static int (*f_info)(const textreplay *, textreplay_info *);
static textreplay *tr;

/* Reads for as long as the timer's signals arrive. */
static void *busy(void *arg)
{
	textreplay_cursor *cur;
	textreplay_info info;
	int before = seen[SIGPROF];

	(void)arg;
	if (f_new(tr, &cur) || f_info(tr, &info))
		return "cursor";
	for (uint64_t i = 0; seen[SIGPROF] < before + 50 && i < 50000000; i++) {
		uint8_t b[64];
		if (f_read(cur, info.text_lo + i % (info.text_hi - info.text_lo), b, sizeof(b), NULL))
			return "read";
	}
	return seen[SIGPROF] < before + 50 ? "no profiling signals" : NULL;
}

int main(int argc, char **argv)
{
	struct itimerval it = { { 0, 1000 }, { 0, 1000 } };
	pthread_t t[2];
	void *lib;

	if (argc != 3)
		return 2;
	for (unsigned i = 0; i < sizeof(sigs) / sizeof(*sigs); i++)
		install(sigs[i]);
	expect("before");
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) {
		printf("%s\n", dlerror());
		return 1;
	}
	f_open = dlsym(lib, "textreplay_open");
	f_new = dlsym(lib, "textreplay_cursor_new");
	f_read = dlsym(lib, "textreplay_read");
	f_info = dlsym(lib, "textreplay_get_info");
	if (f_open(argv[2], NULL, &tr)) {
		printf("open failed\n");
		return 1;
	}
	expect("loaded");
	/* A profiler's signals, while threads are inside of the library. */
	setitimer(ITIMER_PROF, &it, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, busy, NULL);
	for (int i = 0; i < 2; i++) {
		void *msg;
		pthread_join(t[i], &msg);
		if (msg) {
			printf("thread: %s\n", (char *)msg);
			bad = 1;
		}
	}
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_PROF, &it, NULL);
	/* Handlers that come later. */
	for (unsigned i = 0; i < sizeof(sigs) / sizeof(*sigs); i++)
		install(sigs[i]);
	expect("installed again");
	/* What the host did not handle keeps its default: the test sees this program end by it. */
	signal(SIGTERM, SIG_DFL);
	fflush(stdout);
	if (bad)
		return 1;
	kill(getpid(), SIGTERM);
	pause();
	return 1;
}
