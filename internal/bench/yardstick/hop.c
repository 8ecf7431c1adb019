// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// The yardstick of the perfdata benchmarks: the least that a reader of a mapped
// perf.data file can do, which is to hop from one header to the next.
//
//	hop FILE fresh|mapped TIMES
//
// fresh maps the file anew for every pass, mapped makes one pass first that is
// not counted. Prints records and CPU seconds of all passes that count.

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct header {
	uint32_t type;
	uint16_t misc;
	uint16_t size;
};

enum { AUXTRACE = 71 };

static double cpu(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static uint64_t walk(const char *file)
{
	const uint64_t *head = (const uint64_t *)file;
	const char *p = file + head[5], *end = p + head[6];
	uint64_t records = 0;
	while (p < end) {
		const struct header *h = (const struct header *)p;
		p += h->size;
		if (h->type == AUXTRACE)
			p += *(const uint64_t *)(h + 1);
		records++;
	}
	return records;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	int mapped = !strcmp(argv[2], "mapped");
	struct stat st;
	int fd = open(argv[1], O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return 1;
	const char *file = NULL;
	uint64_t records = 0;
	if (mapped) {
		file = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (file == MAP_FAILED || !walk(file))
			return 1;
	}
	double start = cpu();
	for (int times = atoi(argv[3]); times > 0; times--) {
		if (!mapped) {
			file = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
			if (file == MAP_FAILED)
				return 1;
		}
		records += walk(file);
		if (!mapped)
			munmap((void *)file, st.st_size);
	}
	printf("%llu %.6f 0\n", (unsigned long long)records, cpu() - start);
	return 0;
}
