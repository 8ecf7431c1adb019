// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// The yardstick of the perfdata benchmarks: the least that a reader of a mapped
// perf.data file can do, which is to hop from one header to the next.

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct header {
	uint32_t type;
	uint16_t misc;
	uint16_t size;
};

enum { AUXTRACE = 71 };

int main(int argc, char **argv)
{
	uint64_t records = 0;
	for (int times = argc > 2 ? atoi(argv[2]) : 1; times > 0; times--) {
		int fd = open(argv[1], O_RDONLY);
		struct stat st;
		if (fd < 0 || fstat(fd, &st) < 0)
			return 1;
		const char *file = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (file == MAP_FAILED)
			return 1;
		const uint64_t *head = (const uint64_t *)file;
		const char *p = file + head[5], *end = p + head[6];
		while (p < end) {
			const struct header *h = (const struct header *)p;
			p += h->size;
			if (h->type == AUXTRACE)
				p += *(const uint64_t *)(h + 1);
			records++;
		}
		munmap((void *)file, st.st_size);
		close(fd);
	}
	printf("%llu records\n", (unsigned long long)records);
	return 0;
}
