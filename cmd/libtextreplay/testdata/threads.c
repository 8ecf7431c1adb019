/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Eight threads, each with its own cursor, read the same places in different orders; all
 * get the same answers, and each its own errors.
 *
 *	threads RECORDING
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <textreplay.h>

enum { threads = 8, places = 4000 };

static textreplay *tr;
static textreplay_info info;
static uint64_t sums[threads];

static uint64_t place(uint64_t i)
{
	return info.text_lo + i * 2654435761u % (info.text_hi - info.text_lo - 16);
}

static void *run(void *arg)
{
	uint64_t id = (uint64_t)(uintptr_t)arg, sum = 0;
	textreplay_cursor *cur;

	if (textreplay_cursor_new(tr, &cur))
		return (void *)textreplay_errmsg();
	for (uint64_t k = 0; k < places; k++) {
		uint64_t i = (k * 7 + id * 501) % places;
		textreplay_answer a;
		uint64_t b[2];

		textreplay_set_time(cur, info.first + (info.last - info.first) / places * i);
		if (textreplay_read(cur, place(i), b, sizeof(b), &a))
			return (void *)textreplay_errmsg();
		sum += b[0] ^ b[1] ^ a.since ^ a.standing;
		if (k % 100 == id) {
			textreplay_symbol s;
			textreplay_options o = { 0 };
			textreplay *none;
			textreplay_symbol_at(cur, place(i), &s);
			sum += textreplay_windows(tr, place(i), place(i) + 4096, 0, TEXTREPLAY_FOREVER, NULL, 0) * 0;
			textreplay_open("x", &o, &none);
			if (!strstr(textreplay_errmsg(), "options"))
				return "the message of another thread";
		}
	}
	textreplay_cursor_free(cur);
	sums[id] = sum;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[threads];
	int bad = 0;

	if (argc != 2 || textreplay_open(argv[1], NULL, &tr) || textreplay_get_info(tr, &info)) {
		fprintf(stderr, "%s\n", textreplay_errmsg());
		return 1;
	}
	for (uintptr_t i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, run, (void *)i);
	for (int i = 0; i < threads; i++) {
		void *msg;
		pthread_join(t[i], &msg);
		if (msg) {
			printf("thread %d: %s\n", i, (char *)msg);
			bad = 1;
		}
		bad |= sums[i] != sums[0];
	}
	textreplay_close(tr);
	return bad;
}
