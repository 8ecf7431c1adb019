/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The API of textreplay.h over the functions of main.go.
 */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

struct textreplay {
	uintptr_t go;
	atomic_int refs; /* itself and its cursors */
	textreplay_info info;
	struct trc_clock clock;
};

/* A set of the cache has two pages, the newer one first. */
enum { cache_sets = 64, cache_ways = 2 };

struct textreplay_cursor {
	textreplay *tr;
	uintptr_t go;
	uint64_t time;
	struct trc_page *sets[cache_sets][cache_ways]; /* allocated when first used */
};

/* --- errors --------------------------------------------------------------------- */

static _Thread_local char message[512];

void trc_set_error(const char *msg, size_t len)
{
	if (len >= sizeof(message))
		len = sizeof(message) - 1;
	memcpy(message, msg, len);
	message[len] = 0;
}

static int fail(int error, const char *msg)
{
	trc_set_error(msg, strlen(msg));
	return error;
}

const char *textreplay_errmsg(void)
{
	return message;
}

const char *textreplay_strerror(int error)
{
	if (error >= 0)
		return "no error";
	switch ((enum textreplay_error)error) {
	case TEXTREPLAY_EINVAL:
		return "invalid argument";
	case TEXTREPLAY_EIO:
		return "the file cannot be read";
	case TEXTREPLAY_EFORMAT:
		return "not a recording of perf";
	case TEXTREPLAY_ENOMEM:
		return "out of memory";
	case TEXTREPLAY_ENOTFOUND:
		return "not found";
	case TEXTREPLAY_ECLOCK:
		return "the recording cannot convert this time";
	case TEXTREPLAY_ECHANGED:
		return "a file of the recording has changed";
	case TEXTREPLAY_EARCH:
		return "not for this architecture";
	case TEXTREPLAY_EINTERNAL:
		return "internal error";
	default:
		return "unknown error";
	}
}

uint32_t textreplay_version(void)
{
	return TEXTREPLAY_VERSION;
}

/* The names come from the Go side, so that there is one list of them. */
enum { max_names = 256 };
static const char *standings[max_names], *reasons[max_names];
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static void load_names(void)
{
	for (int i = 0; i < max_names; i++) {
		standings[i] = i <= TEXTREPLAY_KNOWN ? trgo_standing_name(i) : "";
		reasons[i] = trgo_reason(i);
	}
}

static const char *name_of(const char **names, int i)
{
	pthread_once(&names_once, load_names);
	return i >= 0 && i < max_names && names[i] ? names[i] : "";
}

const char *textreplay_standing_name(int standing)
{
	return name_of(standings, standing);
}

const char *textreplay_reason(int reason)
{
	return name_of(reasons, reason);
}

/* --- recordings ------------------------------------------------------------------ */

static void unref(textreplay *tr)
{
	if (atomic_fetch_sub(&tr->refs, 1) > 1)
		return;
	trgo_close(tr->go);
	free((char *)tr->info.kernel);
	free((char *)tr->info.arch);
	free((char *)tr->info.clock);
	free((char *)tr->info.pokes);
	free(tr);
}

int textreplay_open(const char *path, const textreplay_options *options, textreplay **out)
{
	textreplay_options o = TEXTREPLAY_OPTIONS_INIT;
	textreplay *tr;
	int err;

	if (!out)
		return fail(TEXTREPLAY_EINVAL, "textreplay_open: out is NULL");
	*out = NULL;
	if (!path)
		return fail(TEXTREPLAY_EINVAL, "textreplay_open: path is NULL");
	if (options) {
		/* A caller of an older header has a smaller struct. One of a newer header may
		 * have a larger one, with zeros in what this library does not know. */
		size_t n = options->size;
		if (n < offsetof(textreplay_options, kallsyms))
			return fail(TEXTREPLAY_EINVAL, "textreplay_open: size of the options is not set");
		for (size_t i = sizeof(o); i < n; i++)
			if (((const char *)options)[i])
				return fail(TEXTREPLAY_EINVAL, "textreplay_open: an option is newer than the library");
		memcpy(&o, options, n < sizeof(o) ? n : sizeof(o));
		if (o.flags & ~TEXTREPLAY_SAVE_INDEX)
			return fail(TEXTREPLAY_EINVAL, "textreplay_open: unknown flags");
		if (o.flags & TEXTREPLAY_SAVE_INDEX && (!o.index || !*o.index))
			return fail(TEXTREPLAY_EINVAL, "textreplay_open: TEXTREPLAY_SAVE_INDEX without an index");
		if (o.reserved)
			return fail(TEXTREPLAY_EINVAL, "textreplay_open: reserved is not 0");
	}
	tr = calloc(1, sizeof(*tr));
	if (!tr)
		return fail(TEXTREPLAY_ENOMEM, "textreplay_open: out of memory");
	atomic_init(&tr->refs, 1);
	err = trgo_open((char *)path, &o, &tr->go);
	if (err) {
		free(tr);
		return err;
	}
	err = trgo_info(tr->go, &tr->info, &tr->clock);
	if (err) {
		unref(tr);
		return err;
	}
	*out = tr;
	return 0;
}

void textreplay_close(textreplay *tr)
{
	if (tr)
		unref(tr);
}

int textreplay_get_info(const textreplay *tr, textreplay_info *info)
{
	if (!tr || !info)
		return fail(TEXTREPLAY_EINVAL, "textreplay_get_info: a pointer is NULL");
	*info = tr->info;
	return 0;
}

int textreplay_check(const textreplay *tr)
{
	if (!tr)
		return fail(TEXTREPLAY_EINVAL, "textreplay_check: tr is NULL");
	return trgo_check(tr->go);
}

/* As perfdata.TimeConv.ToPerf. */
static uint64_t to_perf(const struct trc_clock *c, uint64_t tsc)
{
	uint64_t rest = tsc & ((UINT64_C(1) << c->shift) - 1);

	return c->zero + (tsc >> c->shift) * c->mult + (uint64_t)((unsigned __int128)rest * c->mult >> c->shift);
}

/* Finds the first counter value that has time t or a later one. Returns 0 if it is near an end
 * of the counter's range, where the Go side finds it. */
static int to_tsc(const struct trc_clock *c, uint64_t t, uint64_t *tsc)
{
	uint64_t ns = t - c->zero;
	unsigned __int128 v = ((unsigned __int128)ns << c->shift) / c->mult; /* one too low at most */

	if (t > INT64_MAX || ns > INT64_MAX || v < 2 || v > INT64_MAX)
		return 0;
	*tsc = (uint64_t)v - 1;
	for (int i = 0; i < 4; i++, ++*tsc)
		if (to_perf(c, *tsc) >= t)
			return i > 0;
	return 0;
}

static int time_of_tsc(const textreplay *tr, uint64_t tsc, uint64_t *time)
{
	uint64_t t;

	if (!tr->clock.usable)
		return trgo_time_of_tsc(tr->go, tsc, time);
	t = to_perf(&tr->clock, tsc);
	if (t > INT64_MAX) /* no time of the clock: the Go side says why */
		return trgo_time_of_tsc(tr->go, tsc, time);
	*time = t;
	return 0;
}

int textreplay_time_of_tsc(const textreplay *tr, uint64_t tsc, uint64_t *time)
{
	if (!tr || !time)
		return fail(TEXTREPLAY_EINVAL, "textreplay_time_of_tsc: a pointer is NULL");
	return time_of_tsc(tr, tsc, time);
}

int textreplay_tsc_of_time(const textreplay *tr, uint64_t time, uint64_t *tsc)
{
	if (!tr || !tsc)
		return fail(TEXTREPLAY_EINVAL, "textreplay_tsc_of_time: a pointer is NULL");
	if (tr->clock.usable && to_tsc(&tr->clock, time, tsc))
		return 0;
	return trgo_tsc_of_time(tr->go, time, tsc);
}

/* Checks the arguments of a function that fills an array. */
static int bad_array(const void *handle, const void *out, size_t n)
{
	if (!handle)
		return fail(TEXTREPLAY_EINVAL, "the handle is NULL");
	if (n && !out)
		return fail(TEXTREPLAY_EINVAL, "out is NULL and n is not 0");
	if (n > INT32_MAX)
		return fail(TEXTREPLAY_EINVAL, "n is too large");
	return 0;
}

int64_t textreplay_ranges(const textreplay *tr, textreplay_range *out, size_t n)
{
	int err = bad_array(tr, out, n);
	return err ? err : trgo_ranges(tr->go, out, n);
}

int64_t textreplay_changes(const textreplay *tr, uint64_t lo, uint64_t hi, uint64_t from, uint64_t until,
			   textreplay_change *out, size_t n)
{
	int err = bad_array(tr, out, n);
	return err ? err : trgo_changes(tr->go, lo, hi, from, until, out, n);
}

int64_t textreplay_changing_pages(const textreplay *tr, uint64_t lo, uint64_t hi, uint64_t from, uint64_t until,
				  uint64_t *out, size_t n)
{
	int err = bad_array(tr, out, n);
	return err ? err : trgo_changing_pages(tr->go, lo, hi, from, until, out, n);
}

int64_t textreplay_windows(const textreplay *tr, uint64_t lo, uint64_t hi, uint64_t from, uint64_t until,
			   textreplay_window *out, size_t n)
{
	int err = bad_array(tr, out, n);
	return err ? err : trgo_windows(tr->go, lo, hi, from, until, out, n);
}

int textreplay_versions(const textreplay *tr, uint64_t addr, size_t len, uint64_t from, uint64_t until,
			textreplay_visit *visit, void *ctx)
{
	textreplay_answer a;
	uint8_t *buf;
	int err = 0;

	if (!tr || !visit)
		return fail(TEXTREPLAY_EINVAL, "textreplay_versions: a pointer is NULL");
	if (len == 0 || len > 16u << 20)
		return fail(TEXTREPLAY_EINVAL, "textreplay_versions: len is not from 1 to 16 MiB");
	buf = malloc(len);
	if (!buf)
		return fail(TEXTREPLAY_ENOMEM, "textreplay_versions: out of memory");
	for (uint64_t t = from; t < until; t = a.until) {
		err = trgo_version(tr->go, addr, t, buf, len, &a);
		if (err)
			break;
		err = visit(ctx, buf, &a);
		if (err || a.until <= t)
			break;
	}
	free(buf);
	return err;
}

/* --- cursors --------------------------------------------------------------------- */

int textreplay_cursor_new(textreplay *tr, textreplay_cursor **out)
{
	textreplay_cursor *cur;
	int err;

	if (!out)
		return fail(TEXTREPLAY_EINVAL, "textreplay_cursor_new: out is NULL");
	*out = NULL;
	if (!tr)
		return fail(TEXTREPLAY_EINVAL, "textreplay_cursor_new: tr is NULL");
	cur = calloc(1, sizeof(*cur));
	if (!cur)
		return fail(TEXTREPLAY_ENOMEM, "textreplay_cursor_new: out of memory");
	err = trgo_cursor_new(tr->go, &cur->go);
	if (err) {
		free(cur);
		return err;
	}
	atomic_fetch_add(&tr->refs, 1);
	cur->tr = tr;
	cur->time = tr->info.first;
	*out = cur;
	return 0;
}

void textreplay_cursor_free(textreplay_cursor *cur)
{
	if (!cur)
		return;
	trgo_cursor_free(cur->go);
	for (int i = 0; i < cache_sets; i++)
		for (int k = 0; k < cache_ways; k++)
			free(cur->sets[i][k]);
	unref(cur->tr);
	free(cur);
}

void textreplay_set_time(textreplay_cursor *cur, uint64_t time)
{
	cur->time = time < TEXTREPLAY_FOREVER ? time : TEXTREPLAY_FOREVER - 1;
}

int textreplay_set_tsc(textreplay_cursor *cur, uint64_t tsc)
{
	uint64_t time;
	int err;

	if (!cur)
		return fail(TEXTREPLAY_EINVAL, "textreplay_set_tsc: cur is NULL");
	err = time_of_tsc(cur->tr, tsc, &time);
	if (!err)
		textreplay_set_time(cur, time);
	return err;
}

uint64_t textreplay_get_time(const textreplay_cursor *cur)
{
	return cur->time;
}

static int fresh(const struct trc_page *p, uint64_t addr, uint64_t time)
{
	return p && p->addr == addr && time - p->answer.since < p->answer.until - p->answer.since &&
	       time - p->wsince < p->wuntil - p->wsince;
}

/* Returns the page at addr at the cursor's time; NULL with *err set if there is none. */
static struct trc_page *lookup(textreplay_cursor *cur, uint64_t addr, int *err)
{
	struct trc_page **set = cur->sets[(addr / TEXTREPLAY_PAGE_SIZE) % cache_sets], *p;

	if (fresh(set[0], addr, cur->time))
		return set[0];
	p = set[1];
	if (!fresh(p, addr, cur->time)) {
		/* A stale version of the page is replaced, else the older page of the set. */
		if (set[0] && set[0]->addr == addr) {
			p = set[0];
			set[0] = set[1];
		}
		if (!p && !(p = malloc(sizeof(*p)))) {
			*err = fail(TEXTREPLAY_ENOMEM, "out of memory");
			return NULL;
		}
		p->addr = addr;
		*err = trgo_page(cur->go, cur->time, p);
		if (*err) {
			p->addr = 1;
			set[1] = p;
			return NULL;
		}
	}
	set[1] = set[0];
	set[0] = p;
	return p;
}

/* Reads from the cache. Returns 0 if the cache cannot answer. */
static int read_cached(textreplay_cursor *cur, uint64_t addr, void *buf, size_t len, textreplay_answer *answer,
		       int *err)
{
	uint64_t off = addr % TEXTREPLAY_PAGE_SIZE, until;
	struct trc_page *p;

	if (len > TEXTREPLAY_PAGE_SIZE - off)
		return 0;
	p = lookup(cur, addr - off, err);
	if (!p)
		return 0;
	if (!p->uniform || p->crowded)
		return 0;
	memcpy(buf, p->bytes + off, len);
	if (!answer)
		return 1;
	*answer = p->answer;
	answer->given = (uint32_t)len;
	until = p->wuntil;
	for (unsigned i = 0; i < p->nwindows; i++) {
		const textreplay_window *w = &p->windows[i];
		if (addr - w->addr < w->len || w->addr - addr < len) /* no sum, which may wrap */
			until = 0;
	}
	answer->window_free_until = until;
	return 1;
}

int textreplay_read(textreplay_cursor *cur, uint64_t addr, void *buf, size_t len, textreplay_answer *answer)
{
	int err = 0;

	if (!cur || (!buf && len))
		return fail(TEXTREPLAY_EINVAL, "textreplay_read: a pointer is NULL");
	if (len > 0 && len <= 16 && read_cached(cur, addr, buf, len, answer, &err))
		return 0;
	return err ? err : trgo_read(cur->go, addr, cur->time, buf, len, answer);
}

int textreplay_read_page(textreplay_cursor *cur, uint64_t addr, textreplay_page *page)
{
	struct trc_page *p;
	int err = 0;

	if (!cur || !page)
		return fail(TEXTREPLAY_EINVAL, "textreplay_read_page: a pointer is NULL");
	addr -= addr % TEXTREPLAY_PAGE_SIZE;
	p = lookup(cur, addr, &err);
	if (!p)
		return err;
	page->addr = addr;
	page->bytes = p->bytes;
	page->answer = p->answer;
	return 0;
}

int64_t textreplay_spans(textreplay_cursor *cur, uint64_t addr, uint64_t len, textreplay_span *out, size_t n)
{
	int err = bad_array(cur, out, n);
	return err ? err : trgo_spans(cur->go, cur->time, addr, len, out, n);
}

int textreplay_alternatives(textreplay_cursor *cur, uint64_t addr, textreplay_alternative *out, size_t n)
{
	int err = bad_array(cur, out, n);
	return err ? err : trgo_alternatives(cur->go, cur->time, addr, out, n);
}

int textreplay_probe_may_resume(textreplay_cursor *cur, uint64_t probe, uint64_t addr)
{
	if (!cur)
		return fail(TEXTREPLAY_EINVAL, "textreplay_probe_may_resume: cur is NULL");
	return trgo_probe_may_resume(cur->go, cur->time, probe, addr);
}

int textreplay_symbol_at(textreplay_cursor *cur, uint64_t addr, textreplay_symbol *symbol)
{
	if (!cur || !symbol)
		return fail(TEXTREPLAY_EINVAL, "textreplay_symbol_at: a pointer is NULL");
	return trgo_symbol_at(cur->go, cur->time, addr, symbol);
}

int64_t textreplay_lookup(textreplay_cursor *cur, const char *name, textreplay_symbol *out, size_t n)
{
	int err = bad_array(cur, out, n);
	if (!err && !name)
		err = fail(TEXTREPLAY_EINVAL, "textreplay_lookup: name is NULL");
	return err ? err : trgo_lookup(cur->go, cur->time, (char *)name, out, n);
}

int textreplay_disassemble(textreplay_cursor *cur, uint64_t addr, char *text, size_t size)
{
	if (!cur || (!text && size))
		return fail(TEXTREPLAY_EINVAL, "textreplay_disassemble: a pointer is NULL");
	return trgo_disassemble(cur->go, cur->time, addr, text, size);
}
