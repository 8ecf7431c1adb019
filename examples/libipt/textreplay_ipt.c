/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * See textreplay_ipt.h, and docs/decoders.md for the design.
 */
#define _GNU_SOURCE
#include "textreplay_ipt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	insn_max = 15,
	granule = 16,           /* of the map of what is poisoned */
	zone_reach = 1 << 15,   /* bytes around a hot region that are in its zone */
	zone_regions = 32,      /* regions in one zone */
	zone_versions = 8,      /* sections that are kept for one zone */
	zones_max = 32,         /* zones in one epoch */
	heat_span = 1 << 14,    /* bytes of trace in which a region gets hot */
	heat_redirect = 32,     /* a redirection costs as much as so many reads through the callback */
	heat_most = 512,        /* a region that is hotter becomes part of a section */
	contents_max = 64,      /* contents that are kept for one region */
	windows_max = 64,       /* windows that are open over one region */
	traps_max = 16,         /* traps whose handlers have not returned */
	alternatives_max = 16,  /* of one instruction */
	choices_max = 4,        /* alternatives that were taken in one item */
	in_flight = 255,        /* kind of a window in which the time of a change is not known */
	habits_max = 64,        /* choices that are looked at for what was last taken at an address */
	trials_max = 5000,      /* for one contradiction */
	settle = 512,           /* bytes of trace after which a choice without contradiction is right */
	hold_max = 1 << 20,     /* items that wait for it */
	gap_least = 1 << 12,    /* ticks */
	gap_most = 1 << 21,
	sample = 1 << 20,       /* bytes of trace that are looked at for it */
	fill_chunk = 1 << 17,   /* bytes of text that are copied at once */
	gap_max = 2 << 20,      /* ranges of text that are further apart are two sections */
	sections_size = 1 << 28 /* address space for versions of regions */
};

/* A large section: the text of [lo, hi), poisoned where it changes or is not known. */
struct area {
	uint64_t lo, hi, off; /* off: in the epoch's memory */
	int isid;
};

/* A range that changes in an epoch. It begins and ends at functions. */
struct region {
	uint64_t lo, hi;
	/* What happens to it in the epoch: when it changes, in ns, and the windows over it by the
	 * time at which they open. closed[i] is the latest end of all windows up to i. */
	uint64_t *times;
	size_t ntimes;
	textreplay_window *all;
	uint64_t *closed;
	size_t nall;
	/* states has the content before times[0], between times[0] and times[1], and so on, as
	 * an index of contents plus 1; 0: not asked for yet. */
	uint16_t *states;
	struct content {
		uint8_t *bytes; /* [lo, hi) */
		uint32_t given; /* how many of them are given */
	} *contents;
	unsigned ncontents;

	uint64_t since, until; /* of the state below, in TSC */
	unsigned content;
	unsigned nwindows;
	textreplay_window *windows; /* open ones */

	uint64_t heat_from; /* offset in the trace */
	uint32_t heat;
	struct zone *zone; /* that has it, if it is hot */
};

/* A range of text in which regions are hot. It has a section for each content of those
 * regions together; other regions are poisoned in it. */
struct zone {
	uint64_t lo, hi;
	struct region *regions[zone_regions];
	unsigned nregions;
	struct zone_version {
		uint16_t contents[zone_regions]; /* as in region.states; 0: poisoned */
		int isid;
	} versions[zone_versions];
	unsigned nversions, cur, next;
};

/* A time in which the large sections do not change. */
struct epoch {
	uint64_t from, since, until; /* from in ns; since and until in TSC */
	struct area *areas;
	size_t nareas;
	uint8_t *mem;
	size_t size;
	int fd;
	struct pt_image_section_cache *cache;
	struct pt_image *image;
	struct region *regions;
	size_t nregions;
	uint64_t *times; /* what regions have slices of */
	uint16_t *states;
	textreplay_window *windows, *sorted; /* sorted: by region */
	uint64_t *closed;
	struct zone *zones[zones_max];
	unsigned nzones;
};

struct choice {
	uint8_t cur, n, len;
	uint8_t bytes[insn_max]; /* len of them: what is taken at ip */
	uint64_t ip;
	uint64_t offset; /* of the trace */
};

/* What was read in place of the first alternative. */
struct taken {
	uint64_t ip;
	uint8_t trap, n, bytes[insn_max];
};

struct queued {
	struct ipt_item item;
	unsigned ntaken;
	struct taken taken[choices_max];
};

/* A trap whose handler has not returned, or another entry on top of it. */
struct entered {
	int any; /* it may return to everywhere */
	uint64_t probe; /* but not to where another kprobe's handler does; 0: it may */
	uint64_t to[2];
};

enum image_kind { IMAGE_BASE, IMAGE_CALLBACK };

struct ipt {
	textreplay *tr;
	textreplay_cursor *cur;
	enum ipt_mode mode;
	struct ipt_options opts;
	struct ipt_stats stats;
	struct pt_config config;
	struct pt_block_decoder *blk;
	struct pt_insn_decoder *insn;
	int status;
	struct sync {
		uint64_t offset, tsc; /* of a PSB; tsc 0: it has none */
	} *psbs;
	size_t npsbs;

	/* All changes of all areas, by time. */
	textreplay_change *changes;
	size_t nchanges;
	/* Text whose changes are in flight, since clocks differ, by the time from which on. A CPU may
	 * run the old bytes or the new ones then, as in a window. */
	textreplay_window *flights;
	size_t nflights;

	/* Time: what the decoder reads is right in [since, until), in TSC. */
	uint64_t tsc, since, until;
	uint64_t gap; /* how far the times of two packets can be apart, within reason */
	uint64_t gap_ns;
	uint64_t ns_tsc, ns; /* the last conversion */
	int quiet;    /* no choice, no trap, nothing held back */
	int timeless; /* nothing changes before the next PSB: the time need not be looked at */
	uint64_t scanned, scan_psb, scan_last, scan_before; /* see since_packet() */
	struct epoch *epoch, *older;

	/* Images. */
	enum image_kind kind;
	struct region *region; /* of the callback */
	struct pt_image *callback;
	struct pt_image_section_cache *cache; /* of the zones' sections */
	uint64_t zones_since, zones_until;    /* when the zones are right, in TSC */
	int fd;
	uint8_t *mem;
	uint64_t used;
	uint64_t failed_ip; /* of the last redirection */
	int failures;       /* there, without progress */

	/* Choices. They are numbered from the base, a PSB to which decoding can go back. */
	int have_base;
	uint64_t base;
	/* Instructions and events since the base: decoded, and returned to the caller. Blocks
	 * cannot be counted: where they end depends on what libipt has cached. */
	uint64_t seq, delivered, events, delivered_events;
	uint64_t held_ip; /* of the first instruction that is not returned, while holding */
	uint64_t passed; /* instructions that the fast path returned */
	struct ipt_item *decoding;
	struct choice *choices;
	size_t nchoices, at, fixed, room; /* at: the next one; the first fixed ones are not tried again */
	struct choice habits[habits_max]; /* the last ones before the base */
	size_t nhabits;
	struct queued *queue;
	size_t head, tail, qroom;
	int holding;
	unsigned trials;
	uint64_t best; /* offset of the furthest contradiction */
	uint8_t *best_choices;
	size_t nbest;
	uint64_t ignore; /* contradictions up to this offset are not resolved */
	int pending_error;
	int have_result, result; /* of libipt's last call, which the fast path could not handle */

	/* The item that is being decoded. */
	unsigned ntaken;
	struct taken taken[choices_max];

	/* The last one. */
	uint64_t last_ip;
	int last_trap, last_iret, last_valid;
	textreplay_alternative present, trap, trapped; /* what is there; the newest trap; that of last_trap */
	struct entered entered[traps_max];
	unsigned nentered;
	unsigned returned_ntaken;
	struct taken returned[choices_max];
	uint64_t peek_at, peek_tip_mask, peek_tip, peek_tsc;
	int peek_is_tip;
};

static void note(const char *what)
{
	fprintf(stderr, "ipt: %s: %s\n", what, textreplay_errmsg());
}

static uint64_t ns_of(struct ipt *d, uint64_t tsc)
{
	if (tsc != d->ns_tsc) {
		d->ns = 0;
		textreplay_time_of_tsc(d->tr, tsc, &d->ns);
		d->ns_tsc = tsc;
	}
	return d->ns;
}

static uint64_t tsc_of(struct ipt *d, uint64_t ns)
{
	uint64_t t = UINT64_MAX;
	if (ns == 0)
		return 0;
	if (ns != TEXTREPLAY_FOREVER)
		textreplay_tsc_of_time(d->tr, ns, &t);
	return t;
}

/* --- libipt's two decoders --------------------------------------------------------- */

static int dec_event(struct ipt *d, struct pt_event *ev)
{
	return d->blk ? pt_blk_event(d->blk, ev, sizeof(*ev)) : pt_insn_event(d->insn, ev, sizeof(*ev));
}

static uint64_t dec_time(struct ipt *d)
{
	uint64_t t = 0;
	if (d->blk)
		pt_blk_time(d->blk, &t, NULL, NULL);
	else
		pt_insn_time(d->insn, &t, NULL, NULL);
	return t;
}

static uint64_t dec_offset(struct ipt *d)
{
	uint64_t o = 0;
	if (d->blk)
		pt_blk_get_offset(d->blk, &o);
	else
		pt_insn_get_offset(d->insn, &o);
	return o;
}

static int dec_sync_forward(struct ipt *d)
{
	return d->blk ? pt_blk_sync_forward(d->blk) : pt_insn_sync_forward(d->insn);
}

static int dec_sync_set(struct ipt *d, uint64_t offset)
{
	return d->blk ? pt_blk_sync_set(d->blk, offset) : pt_insn_sync_set(d->insn, offset);
}

static void set_image(struct ipt *d, enum image_kind kind)
{
	struct pt_image *im = kind == IMAGE_BASE ? d->epoch->image : d->callback;

	if (d->blk)
		pt_blk_set_image(d->blk, im);
	else
		pt_insn_set_image(d->insn, im);
	if (d->kind != kind)
		d->stats.switches++;
	d->kind = kind;
}

/* --- the large sections ------------------------------------------------------------ */

/* Poison is what no instruction begins with: the prefix 66, and VEX prefixes (c4) of maps
 * that do not exist. The last byte is c4, so decoding from any byte of it fails, if the byte
 * behind it names no map either. */
static void poison(uint8_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		p[n - 1 - i] = i % 2 ? 0x66 : 0xc4;
}

/* Writes into the epoch's memory. A page that is written by a system call costs half of one
 * that is mapped for writing and touched. */
static int put(struct epoch *e, uint64_t off, const uint8_t *p, uint64_t n)
{
	while (n) {
		ssize_t k = pwrite(e->fd, p, n, (off_t)off);
		if (k <= 0)
			return -1;
		p += k;
		off += (uint64_t)k;
		n -= (uint64_t)k;
	}
	return 0;
}

/* Poisons n bytes of it. */
static int put_poison(struct epoch *e, uint64_t off, uint64_t n)
{
	uint8_t buf[4096];

	for (uint64_t k; n; off += k, n -= k) {
		/* The short piece comes first, so that one byte follows the other as in the whole. */
		k = n % sizeof(buf) ? n % sizeof(buf) : sizeof(buf);
		poison(buf, k);
		if (put(e, off, buf, k))
			return -1;
	}
	return 0;
}

static int ends_poison(uint8_t next)
{
	return (next & 0x1f) >= 5;
}

static struct area *area_of(struct epoch *e, uint64_t ip)
{
	for (size_t i = 0; i < e->nareas; i++)
		if (ip >= e->areas[i].lo && ip < e->areas[i].hi)
			return &e->areas[i];
	return NULL;
}

/* The first region that ends behind ip. */
static struct region *region_from(struct epoch *e, uint64_t ip)
{
	size_t lo = 0, hi = e->nregions;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (e->regions[mid].hi <= ip)
			lo = mid + 1;
		else
			hi = mid;
	}
	return e->regions + lo;
}

static struct region *region_of(struct epoch *e, uint64_t ip)
{
	struct region *r = region_from(e, ip);

	return r < e->regions + e->nregions && r->lo <= ip ? r : NULL;
}

static void free_contents(struct region *r)
{
	for (unsigned i = 0; i < r->ncontents; i++)
		free(r->contents[i].bytes);
	r->ncontents = 0;
}

static void free_regions(struct epoch *e)
{
	for (size_t i = 0; i < e->nregions; i++) {
		free_contents(&e->regions[i]);
		free(e->regions[i].contents);
		free(e->regions[i].windows);
	}
	free(e->regions);
	free(e->times);
	free(e->states);
	free(e->windows);
	free(e->sorted);
	free(e->closed);
	e->regions = NULL;
	e->nregions = 0;
}

static void free_zones(struct epoch *e)
{
	for (unsigned i = 0; i < e->nzones; i++) {
		for (unsigned k = 0; k < e->zones[i]->nregions; k++) {
			e->zones[i]->regions[k]->zone = NULL;
			e->zones[i]->regions[k]->heat = 0;
		}
		free(e->zones[i]);
	}
	e->nzones = 0;
}

static void free_epoch(struct epoch *e)
{
	if (!e)
		return;
	pt_image_free(e->image);
	pt_iscache_free(e->cache);
	free_zones(e);
	free_regions(e);
	if (e->mem)
		munmap(e->mem, e->size);
	if (e->fd >= 0)
		close(e->fd);
	free(e->areas);
	free(e);
}

static int by_lo(const void *a, const void *b)
{
	const struct region *x = a, *y = b;
	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static int by_from(const void *a, const void *b)
{
	const textreplay_window *x = a, *y = b;
	return x->from < y->from ? -1 : x->from > y->from;
}

static int by_time(const void *a, const void *b)
{
	const textreplay_change *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Adds the functions that [lo, hi) is in. owner has for each granule of the area the newest
 * region over it, as its number plus 1. Returns how many granules are new, or -1. */
static int64_t add_region(struct ipt *d, struct epoch *e, struct area *a, uint32_t *owner, uint64_t lo, uint64_t hi,
			  size_t *room)
{
	textreplay_symbol s;
	int64_t fresh = 0;
	uint32_t o;

	if (lo < a->lo)
		lo = a->lo;
	if (hi > a->hi)
		hi = a->hi;
	o = owner[(lo - a->lo) / granule];
	if (o && e->regions[o - 1].lo <= lo && hi <= e->regions[o - 1].hi)
		return 0;
	if (!textreplay_symbol_at(d->cur, lo, &s) && s.addr >= a->lo && s.addr < lo)
		lo = s.addr;
	for (int i = 0; i < 64; i++) {
		uint64_t end = hi;
		if (!textreplay_symbol_at(d->cur, hi - 1, &s) && s.addr + s.size > hi)
			end = s.addr + s.size;
		if (end > a->hi)
			end = a->hi;
		hi = end;
		if (hi == a->hi || ends_poison(e->mem[a->off + (hi - a->lo)]))
			break;
		hi++; /* the next function, too */
	}
	if (e->nregions == *room) {
		size_t n = *room ? 2 * *room : 64;
		void *p = realloc(e->regions, n * sizeof(*e->regions));
		if (!p)
			return -1;
		e->regions = p;
		*room = n;
	}
	e->regions[e->nregions++] = (struct region){ .lo = lo, .hi = hi };
	for (uint64_t g = (lo - a->lo) / granule; g <= (hi - 1 - a->lo) / granule; g++) {
		fresh += !owner[g];
		owner[g] = (uint32_t)e->nregions;
	}
	return fresh;
}

/* Finds the areas: ranges of text with no large gap. */
static int find_areas(struct ipt *d, struct epoch *e)
{
	int64_t n = textreplay_ranges(d->tr, NULL, 0);
	textreplay_range *r;

	if (n <= 0)
		return -1;
	r = calloc((size_t)n, sizeof(*r));
	e->areas = calloc((size_t)n, sizeof(*e->areas));
	if (!r || !e->areas) {
		free(r);
		return -1;
	}
	n = textreplay_ranges(d->tr, r, (size_t)n);
	for (int64_t i = 0; i < n; i++) {
		struct area *a = e->nareas ? &e->areas[e->nareas - 1] : NULL;
		if (a && r[i].lo - a->hi < gap_max)
			a->hi = r[i].hi;
		else
			e->areas[e->nareas++] = (struct area){ .lo = r[i].lo, .hi = r[i].hi };
	}
	free(r);
	for (size_t i = 0; i < e->nareas; i++) {
		e->areas[i].off = e->size;
		e->size += (e->areas[i].hi - e->areas[i].lo + 4095) & ~(uint64_t)4095;
	}
	return e->size ? 0 : -1;
}

/* Copies the text of an area as of the cursor's time. */
static int fill_area(struct ipt *d, struct epoch *e, struct area *a)
{
	uint64_t len = a->hi - a->lo, from, to;
	int64_t n = textreplay_spans(d->cur, a->lo, len, NULL, 0);
	textreplay_span *s = calloc((size_t)(n > 0 ? n : 1), sizeof(*s));
	uint8_t *buf = malloc(fill_chunk);
	int err = 0;

	if (n < 0 || !s || !buf) {
		free(s);
		free(buf);
		return -1;
	}
	n = textreplay_spans(d->cur, a->lo, len, s, (size_t)n);
	for (int64_t i = 0; i < n && !err;) {
		int good = s[i].standing >= d->opts.min_standing;
		from = s[i].addr;
		for (to = from; i < n && (s[i].standing >= d->opts.min_standing) == good; i++)
			to = s[i].addr + s[i].len;
		if (!good)
			err = put_poison(e, a->off + (from - a->lo), to - from);
		for (uint64_t k; good && from < to && !err; from += k) {
			k = to - from < fill_chunk ? to - from : fill_chunk;
			err = textreplay_read(d->cur, from, buf, (size_t)k, NULL);
			if (!err)
				err = put(e, a->off + (from - a->lo), buf, k);
		}
	}
	free(s);
	free(buf);
	return err;
}

/* libipt compares a file's time of modification when it maps a section, and takes the file
 * for another one if it is later. Only what no section has yet was written. */
static void unchanged(int fd)
{
	static const struct timespec never[2];
	futimens(fd, never);
}

/* Makes the image of the large sections anew, without zones. They keep their block caches. */
static int new_image(struct epoch *e)
{
	pt_image_free(e->image);
	e->image = pt_image_alloc("text");
	if (!e->image)
		return -1;
	for (size_t i = 0; i < e->nareas; i++)
		if (pt_image_add_cached(e->image, e->cache, e->areas[i].isid, NULL) < 0)
			return -1;
	return 0;
}

/* Finds all changes, once, by time. */
static int find_changes(struct ipt *d)
{
	int64_t n = 1 << 15, room = 0;

	while (n > room) {
		room = n;
		free(d->changes);
		d->changes = malloc((size_t)room * sizeof(*d->changes));
		if (!d->changes)
			return -1;
		n = textreplay_changes(d->tr, 0, UINT64_MAX, 0, TEXTREPLAY_FOREVER, d->changes, (size_t)room);
		if (n < 0)
			return -1;
	}
	d->nchanges = (size_t)n;
	qsort(d->changes, d->nchanges, sizeof(*d->changes), by_time);
	for (size_t i = 0; i < d->nchanges; i++)
		d->nflights += d->changes[i].standing == TEXTREPLAY_IN_FLIGHT;
	d->flights = malloc((d->nflights + 1) * sizeof(*d->flights));
	if (!d->flights)
		return -1;
	d->nflights = 0;
	for (size_t i = 0; i < d->nchanges; i++) {
		const textreplay_change *c = &d->changes[i];
		if (c->standing == TEXTREPLAY_IN_FLIGHT)
			d->flights[d->nflights++] = (textreplay_window){ .addr = c->addr, .len = c->len, .from = c->time,
									.until = c->until, .change = c->time, .kind = in_flight };
	}
	return 0;
}

/* Whether decoding can depend on a change. Below the least standing text is poisoned. */
static int matters(struct ipt *d, const textreplay_change *c)
{
	return c->bytes || c->standing == TEXTREPLAY_IN_FLIGHT || c->standing < d->opts.min_standing || d->opts.min_standing > TEXTREPLAY_UNCONFIRMED;
}

/* Finds the windows over an area that are open in [from, until), and what is in flight there then.
 * Makes regions of the functions that they are in. */
static int find_windows(struct ipt *d, struct epoch *e, struct area *a, uint32_t *owner, uint64_t from, uint64_t until,
			size_t *nwindows, size_t *room)
{
	int64_t n = 1 << 15, have = 0;

	while (n > have) {
		void *p;
		have = n;
		p = realloc(e->windows, (*nwindows + (size_t)have) * sizeof(*e->windows));
		if (!p)
			return -1;
		e->windows = p;
		n = textreplay_windows(d->tr, a->lo, a->hi, from, until, e->windows + *nwindows, (size_t)have);
		if (n < 0)
			return -1;
	}
	for (int64_t i = 0; i < n; i++, ++*nwindows) {
		textreplay_window *w = &e->windows[*nwindows];
		if (add_region(d, e, a, owner, w->addr, w->addr + w->len, room) < 0)
			return -1;
	}
	for (size_t i = 0; i < d->nflights && d->flights[i].from < until; i++) {
		const textreplay_window *w = &d->flights[i];
		void *p;
		if (w->until <= from || w->addr >= a->hi || w->addr + w->len <= a->lo)
			continue;
		p = realloc(e->windows, (*nwindows + 1) * sizeof(*e->windows));
		if (!p)
			return -1;
		e->windows = p;
		e->windows[(*nwindows)++] = *w;
		if (add_region(d, e, a, owner, w->addr, w->addr + w->len, room) < 0)
			return -1;
	}
	return 0;
}

/* Gives each region its windows, and the times at which it changes. changes are those of the
 * epoch. */
static int fill_regions(struct epoch *e, size_t nwindows, const textreplay_change *changes, size_t nchanges)
{
	struct region *r, *end = e->regions + e->nregions;
	size_t n = 0;

	qsort(e->windows, nwindows, sizeof(*e->windows), by_from);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < nchanges; i++) {
			const textreplay_change *c = &changes[i];
			for (r = region_from(e, c->addr); r < end && r->lo < c->addr + c->len; r++) {
				if (!pass)
					n++, r->ntimes++;
				else if (!r->ntimes || r->times[r->ntimes - 1] != c->time)
					r->times[r->ntimes++] = c->time;
			}
		}
		for (size_t i = 0; i < nwindows; i++) {
			r = region_of(e, e->windows[i].addr);
			if (r && pass)
				r->all[r->nall] = e->windows[i];
			if (r)
				r->nall++;
		}
		if (!pass) {
			uint64_t *times;
			uint16_t *states;
			textreplay_window *windows = malloc((nwindows + 1) * sizeof(*windows));
			uint64_t *closed;

			times = e->times = malloc((n + 1) * sizeof(*times));
			states = e->states = calloc(n + e->nregions + 1, sizeof(*states));
			closed = e->closed = malloc((nwindows + 1) * sizeof(*closed));
			if (!times || !states || !windows || !closed) {
				free(windows);
				return -1;
			}
			for (r = e->regions; r < end; r++) {
				r->times = times;
				r->states = states;
				r->all = windows;
				r->closed = closed;
				times += r->ntimes;
				states += r->ntimes + 1;
				windows += r->nall;
				closed += r->nall;
				r->ntimes = r->nall = 0;
			}
			if (e->nregions)
				e->sorted = e->regions[0].all;
			else
				free(windows);
		}
	}
	for (r = e->regions; r < end; r++)
		for (size_t i = 0; i < r->nall; i++)
			r->closed[i] = i && r->closed[i - 1] > r->all[i].until ? r->closed[i - 1] : r->all[i].until;
	return 0;
}

/* Opens a file without a name for text. Pages of a file system are in larger pieces than those
 * of a memfd, if that is not given huge ones: reads over 16 MiB of them are 10 % faster. */
static int nameless_file(void)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : P_tmpdir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("textreplay", MFD_CLOEXEC);
}

static struct epoch *new_epoch(struct ipt *d, uint64_t tsc)
{
	struct epoch *e = calloc(1, sizeof(*e));
	uint64_t ns = ns_of(d, tsc), until = TEXTREPLAY_FOREVER, budget, used = 0;
	size_t room = 0, nwindows = 0, first, last, k, i;
	uint32_t **marks = NULL;
	char path[64];

	if (!e)
		return NULL;
	e->fd = -1;
	e->from = ns;
	if (find_areas(d, e))
		goto fail;
	marks = calloc(e->nareas, sizeof(*marks));
	e->fd = nameless_file();
	if (!marks || e->fd < 0 || ftruncate(e->fd, (off_t)e->size))
		goto fail;
	e->mem = mmap(NULL, e->size, PROT_READ, MAP_SHARED, e->fd, 0);
	if (e->mem == MAP_FAILED) {
		e->mem = NULL;
		goto fail;
	}
	textreplay_set_time(d->cur, ns);
	for (i = 0; i < e->nareas; i++) {
		if (fill_area(d, e, &e->areas[i]))
			goto fail;
		marks[i] = calloc((e->areas[i].hi - e->areas[i].lo) / granule + 2, sizeof(**marks));
		if (!marks[i])
			goto fail;
	}
	if (!d->changes && find_changes(d))
		goto fail;
	/* The epoch ends where too much would be poisoned. */
	budget = e->size / granule / 8;
	for (k = 0, i = d->nchanges; k < i;) {
		size_t mid = (k + i) / 2;
		if (d->changes[mid].time <= ns)
			k = mid + 1;
		else
			i = mid;
	}
	for (first = k; k < d->nchanges; k++) {
		textreplay_change *c = &d->changes[k];
		struct area *a = area_of(e, c->addr);
		int64_t fresh;
		if (!a || !matters(d, c))
			continue;
		if (c->len / granule > budget) {
			until = c->time;
			break;
		}
		fresh = add_region(d, e, a, marks[a - e->areas], c->addr, c->addr + c->len, &room);
		if (fresh < 0)
			goto fail;
		used += (uint64_t)fresh;
		if (used > budget && c->time > ns + 1) {
			until = c->time;
			break;
		}
	}
	/* Windows of changes that are made before it or after it count, too. */
	for (i = 0; i < e->nareas && !d->opts.no_traps; i++)
		if (find_windows(d, e, &e->areas[i], marks[i], ns < d->gap_ns ? 0 : ns - d->gap_ns,
				 until > UINT64_MAX - d->gap_ns ? until : until + d->gap_ns, &nwindows, &room))
			goto fail;
	last = k;
	if (e->nregions)
		qsort(e->regions, e->nregions, sizeof(*e->regions), by_lo);
	for (i = 0, k = 0; i < e->nregions; i++) {
		if (k && e->regions[i].lo < e->regions[k - 1].hi) {
			if (e->regions[i].hi > e->regions[k - 1].hi)
				e->regions[k - 1].hi = e->regions[i].hi;
		} else {
			e->regions[k++] = e->regions[i];
		}
	}
	e->nregions = k;
	if (fill_regions(e, nwindows, d->changes + first, last - first))
		goto fail;
	for (i = 0; i < e->nregions; i++) {
		struct area *a = area_of(e, e->regions[i].lo);
		if (put_poison(e, a->off + (e->regions[i].lo - a->lo), e->regions[i].hi - e->regions[i].lo))
			goto fail;
	}
	e->since = tsc_of(d, ns);
	if (e->since > tsc)
		e->since = tsc;
	e->until = tsc_of(d, until);
	if (e->until <= tsc)
		e->until = tsc + 1;

	e->cache = pt_iscache_alloc("text");
	if (!e->cache)
		goto fail;
	pt_iscache_set_limit(e->cache, UINT64_MAX);
	unchanged(e->fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", e->fd);
	for (i = 0; i < e->nareas; i++) {
		struct area *a = &e->areas[i];
		a->isid = pt_iscache_add_file(e->cache, path, a->off, a->hi - a->lo, a->lo);
		if (a->isid < 0)
			goto fail;
	}
	if (new_image(e))
		goto fail;
	for (i = 0; i < e->nareas; i++)
		free(marks[i]);
	free(marks);
	d->stats.epochs++;
	d->stats.regions = e->nregions;
	return e;

fail:
	note("the sections of text");
	if (marks)
		for (i = 0; i < e->nareas; i++)
			free(marks[i]);
	free(marks);
	free_epoch(e);
	return NULL;
}

/* --- regions ----------------------------------------------------------------------- */

static void peek(struct ipt *d);
static void pass_psb(struct ipt *d);

static uint64_t since_packet(struct ipt *d);

/* The times at which the next instruction may have run, in ns: since the packet before the
 * last one, of which the last one may have the outcomes, and until the next one. They depend
 * on the place in the trace alone, so that choices are the same when it is decoded again. */
static void bounds(struct ipt *d, uint64_t *lo, uint64_t *hi)
{
	peek(d);
	*lo = ns_of(d, since_packet(d));
	*hi = ns_of(d, d->peek_tsc == UINT64_MAX ? d->tsc + d->gap : d->peek_tsc);
	if (*hi < *lo)
		*hi = *lo;
}

/* Asks what a region had in a state, of which t is a time. Returns the content's number, or a
 * negative error. */
static int read_content(struct ipt *d, struct region *r, size_t state, uint64_t t)
{
	uint64_t size = r->hi - r->lo;
	textreplay_answer a;
	struct content *c;
	unsigned i;

	if (r->ncontents == contents_max) { /* begin again */
		memset(r->states, 0, (r->ntimes + 1) * sizeof(*r->states));
		free_contents(r);
		if (r->zone) { /* what its versions have has no name any more */
			r->zone->nversions = r->zone->next = 0;
		}
	}
	if (!r->contents && !(r->contents = calloc(contents_max, sizeof(*r->contents))))
		return -1;
	c = &r->contents[r->ncontents];
	c->bytes = malloc(size);
	if (!c->bytes)
		return -1;
	textreplay_set_time(d->cur, t);
	if (textreplay_read(d->cur, r->lo, c->bytes, size, &a)) {
		free(c->bytes);
		return -1;
	}
	c->given = a.standing >= d->opts.min_standing ? a.given : 0;
	for (i = 0; r->contents[i].given != c->given || memcmp(r->contents[i].bytes, c->bytes, size); i++)
		;
	if (i < r->ncontents)
		free(c->bytes);
	else
		r->ncontents++;
	r->states[state] = (uint16_t)(i + 1);
	return (int)i;
}

/* Returns which of a region's contents it had in a state. Asks for the next states, too: a
 * single call of Go costs the most, since it wakes the runtime's own threads. */
static int content_of(struct ipt *d, struct region *r, size_t state, uint64_t t)
{
	size_t end = r->hi - r->lo > 4096 ? state + 1 : state + 32;

	if (r->states[state])
		return r->states[state] - 1;
	if (r->ncontents > contents_max / 2)
		end = state + 1;
	for (size_t i = state + 1; i < end && i <= r->ntimes; i++)
		if (!r->states[i] && read_content(d, r, i, r->times[i - 1]) < 0)
			return -1;
	return read_content(d, r, state, t);
}

/* Brings a region to the decoder's time. */
static int refresh(struct ipt *d, struct region *r)
{
	uint64_t t, from, to, next = UINT64_MAX;
	size_t lo = 0, hi = r->ntimes, i;
	int content;

	if (d->tsc >= r->since && d->tsc < r->until)
		return 0;
	t = ns_of(d, d->tsc);
	while (lo < hi) { /* how many changes there were */
		size_t mid = (lo + hi) / 2;
		if (r->times[mid] <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	content = content_of(d, r, lo, t);
	if (content < 0)
		return -1;
	r->content = (unsigned)content;
	if (lo < r->ntimes)
		next = r->times[lo];
	/* Windows that are open within gap of t: by so much two packets can be apart. */
	from = t < d->gap_ns ? 0 : t - d->gap_ns;
	to = t + d->gap_ns;
	for (lo = 0, hi = r->nall; lo < hi;) { /* the first that may still be open */
		size_t mid = (lo + hi) / 2;
		if (r->closed[mid] <= from)
			lo = mid + 1;
		else
			hi = mid;
	}
	r->nwindows = 0;
	for (i = lo; i < r->nall && r->all[i].from <= to && r->nwindows < windows_max; i++) {
		if (r->all[i].until <= from)
			continue;
		if (!r->windows && !(r->windows = malloc(windows_max * sizeof(*r->windows))))
			return -1;
		r->windows[r->nwindows++] = r->all[i];
		if (r->all[i].until < next - d->gap_ns)
			next = r->all[i].until + d->gap_ns;
	}
	if (i < r->nall && r->all[i].from - d->gap_ns < next)
		next = r->all[i].from - d->gap_ns;
	r->since = d->tsc;
	r->until = next == UINT64_MAX ? next : tsc_of(d, next);
	if (r->until <= d->tsc)
		r->until = d->tsc + 1;
	return 0;
}

static const struct content *now(const struct region *r)
{
	return &r->contents[r->content];
}

static int complete(const struct region *r)
{
	return now(r)->given == r->hi - r->lo;
}

/* --- zones --------------------------------------------------------------------------- */

/* Forgets all zones. Hot regions come back. */
static int drop_zones(struct ipt *d)
{
	int base = d->kind == IMAGE_BASE;

	d->zones_since = 0;
	d->zones_until = UINT64_MAX;
	if (!d->epoch->nzones && !d->used)
		return 0;
	free_zones(d->epoch);
	if (base)
		set_image(d, IMAGE_CALLBACK);
	if (new_image(d->epoch))
		return -1;
	if (base)
		set_image(d, IMAGE_BASE);
	pt_iscache_free(d->cache);
	d->cache = pt_iscache_alloc("changing");
	d->used = 0;
	return d->cache ? pt_iscache_set_limit(d->cache, UINT64_MAX) : -1;
}

/* Makes the section of a zone with the given contents of its regions. */
static int new_version(struct ipt *d, struct zone *z, const uint16_t *contents)
{
	uint64_t size = z->hi - z->lo;
	struct area *a = area_of(d->epoch, z->lo);
	struct zone_version *v;
	char path[64];
	int isid;

	memcpy(d->mem + d->used, d->epoch->mem + a->off + (z->lo - a->lo), size);
	for (unsigned i = 0; i < z->nregions; i++)
		if (contents[i])
			memcpy(d->mem + d->used + (z->regions[i]->lo - z->lo), z->regions[i]->contents[contents[i] - 1].bytes,
			       z->regions[i]->hi - z->regions[i]->lo);
	unchanged(d->fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", d->fd);
	isid = pt_iscache_add_file(d->cache, path, d->used, size, z->lo);
	if (isid < 0)
		return -1;
	d->used += (size + 4095) & ~(uint64_t)4095;
	d->stats.sections++;
	if (z->nversions < zone_versions) {
		z->cur = z->nversions++;
	} else { /* in turn */
		z->cur = z->next++;
		z->next %= zone_versions;
	}
	v = &z->versions[z->cur];
	memcpy(v->contents, contents, sizeof(v->contents));
	v->isid = isid;
	return 0;
}

/* Brings a zone to the decoder's time. */
static int update_zone(struct ipt *d, struct zone *z)
{
	uint16_t contents[zone_regions] = { 0 };
	unsigned i;

	for (i = 0; i < z->nregions; i++) {
		struct region *r = z->regions[i];
		if (refresh(d, r))
			return -1;
		if (!r->nwindows && complete(r))
			contents[i] = (uint16_t)(r->content + 1);
		if (r->since > d->zones_since)
			d->zones_since = r->since;
		if (r->until < d->zones_until)
			d->zones_until = r->until;
	}
	if (z->nversions && !memcmp(z->versions[z->cur].contents, contents, sizeof(contents)))
		return 0;
	for (i = 0; i < z->nversions && memcmp(z->versions[i].contents, contents, sizeof(contents)); i++)
		;
	if (i < z->nversions)
		z->cur = i;
	else if (z->hi - z->lo + 4096 > sections_size - d->used)
		return drop_zones(d);
	else if (new_version(d, z, contents))
		return -1;
	return pt_image_add_cached(d->epoch->image, d->cache, z->versions[z->cur].isid, NULL) < 0 ? -1 : 0;
}

static int update_zones(struct ipt *d)
{
	struct epoch *e = d->epoch;

	if (d->tsc >= d->zones_since && d->tsc < d->zones_until)
		return 0;
	d->zones_since = 0;
	d->zones_until = UINT64_MAX;
	for (unsigned i = 0; i < e->nzones; i++)
		if (update_zone(d, e->zones[i]))
			return -1;
	return 0;
}

/* Returns the zone that has r, or makes one. NULL if there is no room. */
static struct zone *zone_around(struct ipt *d, struct region *r)
{
	struct epoch *e = d->epoch;
	struct area *a = area_of(e, r->lo);
	struct zone *z;
	struct region *x;
	uint64_t lo, hi;

	for (unsigned i = 0; i < e->nzones; i++)
		if (e->zones[i]->lo <= r->lo && r->hi <= e->zones[i]->hi)
			return e->zones[i];
	if (e->nzones == zones_max)
		return NULL;
	lo = r->lo - a->lo < zone_reach ? a->lo : r->lo - zone_reach;
	hi = a->hi - r->hi < zone_reach ? a->hi : r->hi + zone_reach;
	/* Zones do not overlap, and have the whole of a region or nothing of it. */
	for (unsigned i = 0; i < e->nzones; i++) {
		z = e->zones[i];
		if (z->hi <= r->lo && z->hi > lo)
			lo = z->hi;
		if (z->lo >= r->hi && z->lo < hi)
			hi = z->lo;
	}
	if ((x = region_of(e, lo)) && x != r)
		lo = x->lo < lo ? x->hi : lo;
	if ((x = region_of(e, hi - 1)) && x != r && x->hi > hi)
		hi = x->lo;
	z = calloc(1, sizeof(*z));
	if (!z)
		return NULL;
	z->lo = lo;
	z->hi = hi;
	return e->zones[e->nzones++] = z;
}

/* A region is hot: makes it part of a zone. It returns 0 if the base image has it then. */
static int heat_up(struct ipt *d, struct region *r)
{
	struct zone *z;

	if (r->hi - r->lo > zone_reach)
		return -1;
	z = zone_around(d, r);
	if (!z || z->nregions == zone_regions) {
		if (drop_zones(d))
			return -1;
		z = zone_around(d, r);
		if (!z)
			return -1;
	}
	z->regions[z->nregions++] = r;
	r->zone = z;
	d->zones_until = 0;
	return update_zones(d);
}

/* Forgets all that is of the epoch. */
static void leave_epoch(struct ipt *d)
{
	drop_zones(d);
	d->region = NULL;
}

/* The decoder's time left [since, until). */
static int new_time(struct ipt *d)
{
	struct epoch *e = d->epoch;

	if (!e || d->tsc < e->since || d->tsc >= e->until) {
		struct epoch *o = d->older;
		if (!o || d->tsc < o->since || d->tsc >= o->until) {
			struct epoch *n = new_epoch(d, d->tsc);
			if (!n)
				return -pte_nomem;
			if (e)
				leave_epoch(d);
			d->epoch = n;
			d->older = e;
			set_image(d, IMAGE_BASE);
			free_epoch(o);
		} else {
			leave_epoch(d);
			d->epoch = o;
			d->older = e;
			set_image(d, IMAGE_BASE);
		}
		e = d->epoch;
	}
	d->since = e->since;
	d->until = e->until;
	if (d->kind == IMAGE_BASE) {
		if (update_zones(d))
			return -pte_internal;
		if (d->zones_since > d->since)
			d->since = d->zones_since;
		if (d->zones_until < d->until)
			d->until = d->zones_until;
	} else {
		if (refresh(d, d->region))
			return -pte_internal;
		if (d->region->since > d->since)
			d->since = d->region->since;
		if (d->region->until < d->until)
			d->until = d->region->until;
	}
	return 0;
}

/* libipt cannot read or decode ip. Hands it the image that has ip; returns 0 if there is
 * none. */
static int redirect(struct ipt *d, uint64_t ip)
{
	struct region *r = region_of(d->epoch, ip);
	uint64_t offset = dec_offset(d);

	if (ip == d->failed_ip && d->failures >= 3)
		return 0;
	if (d->timeless) {
		d->timeless = 0;
		d->tsc = dec_time(d);
		if (new_time(d))
			return 0;
	}
	d->failures = ip == d->failed_ip ? d->failures + 1 : 1;
	d->failed_ip = ip;
	if (r) {
		if (refresh(d, r))
			return 0;
		if (offset - r->heat_from > heat_span) {
			r->heat_from = offset;
			r->heat = 0;
		}
		r->heat += heat_redirect;
		if (!r->zone && r->heat > heat_most && !r->nwindows && complete(r))
			heat_up(d, r);
	} else if (!area_of(d->epoch, ip)) {
		return 0;
	}
	if (!r || (r->zone && !r->nwindows && complete(r))) {
		if (d->kind == IMAGE_BASE && !r)
			return 0;
		set_image(d, IMAGE_BASE);
		if (new_time(d))
			return 0;
		pass_psb(d);
		return 1;
	}
	if (d->kind == IMAGE_CALLBACK && d->region == r)
		return 0;
	d->region = r;
	set_image(d, IMAGE_CALLBACK);
	return new_time(d) == 0;
}

/* --- places in the trace ------------------------------------------------------------ */

/* How many PSBs are at or before an offset. */
static size_t psb_index(struct ipt *d, uint64_t offset)
{
	size_t lo = 0, hi = d->npsbs;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (d->psbs[mid].offset <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The last PSB at or before an offset. */
static int psb_before(struct ipt *d, uint64_t offset, uint64_t *psb)
{
	size_t i = psb_index(d, offset);

	if (!i)
		return 0;
	*psb = d->psbs[i - 1].offset;
	return 1;
}

/* Decides, at a PSB, whether the time matters before the next one. */
static void pass_psb(struct ipt *d)
{
	size_t i = psb_index(d, dec_offset(d));

	d->timeless = d->kind == IMAGE_BASE && d->epoch && i && d->psbs[i - 1].tsc >= d->since &&
		      (d->until == UINT64_MAX || (i < d->npsbs && d->psbs[i].tsc && d->psbs[i].tsc < d->until));
}

/* The time of the packet before the last one. */
static uint64_t since_packet(struct ipt *d)
{
	uint64_t offset = dec_offset(d), psb = 0, at;
	struct pt_packet_decoder *p;
	struct pt_packet pkt;

	psb_before(d, offset, &psb);
	if (psb != d->scan_psb || offset < d->scanned || !d->scanned) {
		d->scan_psb = d->scanned = psb;
		d->scan_last = d->scan_before = 0;
	}
	p = pt_pkt_alloc_decoder(&d->config);
	if (!p)
		return 0;
	pt_pkt_sync_set(p, d->scanned);
	while (!pt_pkt_get_offset(p, &at) && at < offset && pt_pkt_next(p, &pkt, sizeof(pkt)) >= 0)
		if (pkt.type == ppt_tsc) {
			d->scan_before = d->scan_last;
			d->scan_last = pkt.payload.tsc.tsc;
		}
	pt_pkt_free_decoder(p);
	d->scanned = offset;
	/* The first packets behind a PSB: as far back as packets can be apart. */
	if (!d->scan_before)
		return d->tsc < d->gap ? 0 : d->tsc - d->gap;
	return d->scan_before;
}

/* --- choices ----------------------------------------------------------------------- */

/* Looks at the trace that is not consumed yet: the next packet that a branch consumes, and
 * the next TSC. */
static void peek(struct ipt *d)
{
	uint64_t offset = dec_offset(d);
	struct pt_packet_decoder *p;
	struct pt_packet pkt;
	int done = 0, in_psb = 0;

	if (offset == d->peek_at)
		return;
	d->peek_at = offset;
	d->peek_is_tip = 0;
	d->peek_tip = d->peek_tip_mask = 0;
	d->peek_tsc = UINT64_MAX;
	p = pt_pkt_alloc_decoder(&d->config);
	if (!p)
		return;
	pt_pkt_sync_set(p, offset);
	for (int i = 0; i < 4096 && (!done || d->peek_tsc == UINT64_MAX); i++) {
		if (pt_pkt_next(p, &pkt, sizeof(pkt)) < 0)
			break;
		switch (pkt.type) {
		case ppt_psb:
			in_psb = 1;
			break;
		case ppt_psbend:
			in_psb = 0;
			break;
		case ppt_tsc:
			/* A TSC before the packet is the packet's time: that of the branch. */
			if (d->peek_tsc == UINT64_MAX || !done)
				d->peek_tsc = pkt.payload.tsc.tsc;
			break;
		case ppt_tip:
			if (!done) {
				d->peek_is_tip = 1;
				switch (pkt.payload.ip.ipc) {
				case pt_ipc_update_16:
					d->peek_tip_mask = 0xffff;
					break;
				case pt_ipc_update_32:
					d->peek_tip_mask = 0xffffffff;
					break;
				case pt_ipc_update_48:
				case pt_ipc_sext_48:
					d->peek_tip_mask = 0xffffffffffff;
					break;
				case pt_ipc_full:
					d->peek_tip_mask = UINT64_MAX;
					break;
				default:
					d->peek_is_tip = 0;
				}
				d->peek_tip = pkt.payload.ip.ip & d->peek_tip_mask;
			}
			done = 1;
			break;
		case ppt_fup:
			if (in_psb)
				break;
			done = 1;
			break;
		case ppt_tnt_8:
		case ppt_tnt_64:
		case ppt_tip_pge:
		case ppt_tip_pgd:
		case ppt_ovf:
		case ppt_stop:
			done = 1;
			break;
		default:
			break;
		}
	}
	pt_pkt_free_decoder(p);
}

/* Whether the trap's handler is where the trace goes next. */
static int trap_fits(struct ipt *d)
{
	peek(d);
	return d->opts.trap_handler && d->peek_is_tip && d->peek_tip == (d->opts.trap_handler & d->peek_tip_mask);
}

/* Whether a window is over the size bytes at ip. Of a change that is in flight, the sides may
 * differ at the end of an instruction only; a trap is where one begins. */
static int is_over(const textreplay_window *w, uint64_t ip, size_t size)
{
	return w->addr < ip + (w->kind == in_flight ? size : 1) && ip < w->addr + w->len;
}

/* What was last taken at ip; NULL: nothing, or too long ago. It depends on earlier choices alone,
 * so it is the same when the trace is decoded again. */
static const struct choice *habit(const struct ipt *d, uint64_t ip)
{
	size_t i, n = 0;

	for (i = d->at; i && n < habits_max; i--, n++)
		if (d->choices[i - 1].ip == ip)
			return &d->choices[i - 1];
	for (i = d->nhabits; i && n < habits_max; i--, n++)
		if (d->habits[i - 1].ip == ip)
			return &d->habits[i - 1];
	return NULL;
}

/* Forgets the choices, but for what was last taken. */
static void forget_choices(struct ipt *d)
{
	size_t n = d->at < habits_max ? d->at : habits_max, old = d->nhabits;

	if (old > habits_max - n)
		old = habits_max - n;
	memmove(d->habits, d->habits + (d->nhabits - old), old * sizeof(*d->habits));
	if (n)
		memcpy(d->habits + old, d->choices + (d->at - n), n * sizeof(*d->habits));
	d->nhabits = old + n;
	d->nchoices = d->at = d->fixed = 0;
}

/* Reads an instruction inside a window. buf has what is there at the decoder's time. */
static int choose(struct ipt *d, struct region *r, uint64_t ip, uint8_t *buf, size_t size)
{
	textreplay_alternative alt[alternatives_max], unusual, *fits[alternatives_max + 3], *a;
	const struct choice *last;
	struct choice *c;
	uint64_t lo, hi, ns = ns_of(d, d->tsc);
	unsigned flight = 0; /* bit i: alt[i] is a side of a change that is in flight */
	int n = 0, m = 0, pick = 0;

	bounds(d, &lo, &hi);
	for (unsigned i = 0; i < r->nwindows && n < alternatives_max; i++) {
		const textreplay_window *w = &r->windows[i];
		int k;
		if (!is_over(w, ip, size))
			continue;
		/* At a time at which the window is open. */
		textreplay_set_time(d->cur, w->from <= ns && ns < w->until ? ns : w->change);
		k = textreplay_alternatives(d->cur, ip, alt + n, (size_t)(alternatives_max - n));
		if (k <= 0)
			continue;
		if (k > alternatives_max - n)
			k = alternatives_max - n;
		if (w->kind == in_flight)
			flight |= ((1u << k) - 1) << n;
		n += k;
	}
	/* A trap first: it is the next thing in the trace. Then what is there at this time, then
	 * what was there before, or is there later, as far as the packets around allow. Of a change
	 * in flight, any side may be there all the time. */
	for (int i = 0; i < n && !m; i++)
		if (alt[i].choice == TEXTREPLAY_TRAP && buf[0] != alt[i].bytes[0] && alt[i].from <= hi &&
		    alt[i].until > lo && trap_fits(d))
			fits[m++] = &alt[i];
	a = &d->present;
	memset(a, 0, sizeof(*a));
	a->len = (uint8_t)size;
	memcpy(a->bytes, buf, size);
	fits[m++] = a;
	for (int i = 0; i < n; i++) {
		int twice = 0;
		if (alt[i].choice == TEXTREPLAY_TRAP || alt[i].from > hi || alt[i].until <= lo)
			continue;
		if (!(flight >> i & 1) &&
		    ((alt[i].choice == TEXTREPLAY_BEFORE && (alt[i].change <= lo || alt[i].change > ns)) ||
		     (alt[i].choice == TEXTREPLAY_AFTER && (alt[i].change <= ns || alt[i].change > hi))))
			continue;
		for (int k = 0; k < m && !twice; k++)
			twice = fits[k]->choice != TEXTREPLAY_TRAP &&
				!memcmp(alt[i].bytes, fits[k]->bytes, alt[i].len < size ? alt[i].len : size);
		if (!twice)
			fits[m++] = &alt[i];
	}
	if (fits[0]->choice == TEXTREPLAY_TRAP && fits[0]->effect == TEXTREPLAY_EFFECT_PROBE) {
		/* At last, a probe whose handler returns to an unusual place. */
		unusual = *fits[0];
		unusual.effect = TEXTREPLAY_EFFECT_UNKNOWN;
		fits[m++] = &unusual;
	}
	if (m < 2)
		return 0;
	/* A change can be in flight for long. A CPU runs its old side many times, then the new one:
	 * what was taken last comes first, but behind a trap. */
	last = flight ? habit(d, ip) : NULL;
	for (int first = fits[0]->choice == TEXTREPLAY_TRAP, i = first; last && i < m; i++) {
		a = fits[i];
		if (a->choice == TEXTREPLAY_TRAP || memcmp(a->bytes, last->bytes, a->len < last->len ? a->len : last->len))
			continue;
		memmove(fits + first + 1, fits + first, (size_t)(i - first) * sizeof(*fits));
		fits[first] = a;
		break;
	}
	d->stats.visits++;
	if (d->at < d->nchoices) {
		pick = d->choices[d->at].cur;
	} else {
		if (d->nchoices == d->room) {
			size_t room = d->room ? 2 * d->room : 64;
			void *p = realloc(d->choices, room * sizeof(*d->choices));
			if (!p)
				return -pte_nomem;
			d->choices = p;
			d->room = room;
		}
		d->choices[d->nchoices].cur = 0;
		d->choices[d->nchoices].n = (uint8_t)m;
		d->nchoices++;
		if (d->have_base && !d->holding && dec_offset(d) > d->ignore) {
			/* libipt has set where the item begins. */
			d->holding = 1;
			d->held_ip = d->blk ? d->decoding->u.block.ip : d->decoding->u.insn.ip;
		}
	}
	if (pick >= m)
		pick = 0;
	a = fits[pick];
	if (a->len < size)
		size = a->len;
	memcpy(buf, a->bytes, size);
	c = &d->choices[d->at++];
	c->offset = dec_offset(d);
	c->ip = a->choice == TEXTREPLAY_TRAP ? 0 : ip;
	c->len = (uint8_t)size;
	memcpy(c->bytes, buf, size);
	if (a == &d->present)
		return (int)size;
	if (a->choice == TEXTREPLAY_TRAP) {
		size = 1;
		d->trap = *a;
	}
	if (d->ntaken < choices_max) {
		struct taken *t = &d->taken[d->ntaken++];
		t->ip = ip;
		t->trap = a->choice == TEXTREPLAY_TRAP;
		t->n = (uint8_t)size;
		memcpy(t->bytes, buf, size);
	}
	return (int)size;
}

static int image_callback(uint8_t *buf, size_t size, const struct pt_asid *asid, uint64_t ip, void *ctx)
{
	struct ipt *d = ctx;
	struct region *r = d->region;
	size_t n;

	(void)asid;
	d->stats.callbacks++;
	if (!r || ip < r->lo || ip >= r->hi)
		return -pte_nomap;
	if (++r->heat >= 2 * heat_most && !r->nwindows && !r->zone && complete(r) && r->hi - r->lo <= zone_reach) {
		d->region = NULL; /* hot: let it become part of a section */
		return -pte_nomap;
	}
	if (size > insn_max)
		size = insn_max;
	if (complete(r) && r->hi - ip >= size) {
		memcpy(buf, now(r)->bytes + (ip - r->lo), size);
	} else {
		textreplay_answer a;
		textreplay_set_time(d->cur, ns_of(d, d->tsc));
		for (n = size; n; n--) { /* as much as can be trusted */
			if (textreplay_read(d->cur, ip, buf, n, &a))
				return -pte_internal;
			if (a.standing >= d->opts.min_standing && a.given == n)
				break;
		}
		if (!n)
			return -pte_nomap;
		size = n;
	}
	for (unsigned i = 0; i < r->nwindows; i++) {
		if (is_over(&r->windows[i], ip, size)) {
			int s = choose(d, r, ip, buf, size);
			return s ? s : (int)size;
		}
	}
	return (int)size;
}

/* --- decoding ---------------------------------------------------------------------- */

/* Decodes one item. Returns 1, 0 at the end, or libipt's error. */
static int step(struct ipt *d, struct ipt_item *it)
{
	int s;

	d->ntaken = 0;
	d->decoding = it;
	if (d->pending_error) {
		s = d->pending_error;
		d->pending_error = 0;
		return s;
	}
	for (;;) {
		uint64_t tsc;

		if (d->status & pts_event_pending) {
			it->tsc = d->tsc;
			s = dec_event(d, &it->u.event);
			if (s < 0)
				return s;
			d->status = s;
			it->kind = IPT_EVENT;
			if (it->u.event.status_update)
				pass_psb(d);
			return 1;
		}
		if (d->status & pts_eos)
			return 0;
		if (d->have_result) {
			/* What the fast path got. */
			d->have_result = 0;
			s = d->result;
			goto decoded;
		}
		tsc = dec_time(d);
		d->tsc = tsc;
		if (tsc < d->since || tsc >= d->until) {
			s = new_time(d);
			if (s < 0)
				return s;
			if (d->kind == IMAGE_BASE)
				pass_psb(d);
		}
		it->tsc = tsc;
		if (d->blk) {
			s = pt_blk_next(d->blk, &it->u.block, sizeof(it->u.block));
		} else {
			it->u.insn.iclass = ptic_error;
			s = pt_insn_next(d->insn, &it->u.insn, sizeof(it->u.insn));
		}
	decoded:
		if (d->blk) {
			it->kind = IPT_BLOCK;
			if (s >= 0) {
				d->status = s;
				if (!it->u.block.ninsn)
					continue;
				d->failures = 0;
				return 1;
			}
			if (it->u.block.ninsn) {
				/* Decoding goes on where it stumbled; other errors come after the block. */
				if (s != -pte_bad_insn && s != -pte_nomap)
					d->pending_error = s;
				d->status = 0;
				d->failures = 0;
				return 1;
			}
		} else {
			it->kind = IPT_INSN;
			if (s >= 0) {
				d->status = s;
				d->failures = 0;
				return 1;
			}
			if (it->u.insn.iclass != ptic_error) {
				d->pending_error = s;
				d->status = 0;
				d->failures = 0;
				return 1;
			}
		}
		if (s == -pte_eos)
			return 0;
		if (s != -pte_bad_insn && s != -pte_nomap)
			return s;
		d->ntaken = 0;
		if (!redirect(d, d->blk ? it->u.block.ip : it->u.insn.ip))
			return s;
	}
}

static int read_at(struct ipt *d, uint64_t tsc, uint64_t addr, uint8_t *buf)
{
	struct epoch *e = d->epoch;
	struct area *a;
	textreplay_answer ans;
	size_t n;

	if (tsc >= e->since && tsc < e->until && (a = area_of(e, addr)) && a->hi - addr >= insn_max &&
	    !region_of(e, addr) && !region_of(e, addr + insn_max - 1)) {
		memcpy(buf, e->mem + a->off + (addr - a->lo), insn_max);
		return insn_max;
	}
	textreplay_set_time(d->cur, ns_of(d, tsc));
	for (n = insn_max; n; n--)
		if (!textreplay_read(d->cur, addr, buf, n, &ans) && ans.given == n)
			break;
	return (int)n;
}

static int read_taken(const struct taken *t, unsigned n, uint64_t addr, uint8_t *buf)
{
	for (unsigned i = 0; i < n; i++)
		if (t[i].ip == addr) {
			memcpy(buf, t[i].bytes, t[i].n);
			return t[i].n;
		}
	return 0;
}

int ipt_read(struct ipt *d, const struct ipt_item *item, uint64_t addr, uint8_t *buf)
{
	int n = read_taken(d->returned, d->returned_ntaken, addr, buf);
	return n ? n : read_at(d, item->tsc, addr, buf);
}

/* Notes that a handler was entered, which will return to e. What is nested deeper than can be
 * followed is not followed at all. */
static void enter(struct ipt *d, struct entered e)
{
	if (d->nentered < traps_max)
		d->entered[d->nentered++] = e;
	else
		d->nentered = 0;
}

/* Execution arrives at ip after the last item. Returns 0 if that cannot be. */
static int arrive(struct ipt *d, uint64_t ip, uint64_t tsc)
{
	uint64_t handler = d->opts.trap_handler;
	uint8_t b[16];

	if (d->last_trap) {
		struct entered e = { 0 };
		if (ip != handler)
			return 0;
		switch (d->trapped.effect) {
		case TEXTREPLAY_EFFECT_NOP:
			e.to[0] = e.to[1] = d->trapped.next;
			break;
		case TEXTREPLAY_EFFECT_JUMP:
		case TEXTREPLAY_EFFECT_CALL:
			e.to[0] = e.to[1] = d->trapped.target;
			break;
		case TEXTREPLAY_EFFECT_BRANCH:
			e.to[0] = d->trapped.target;
			e.to[1] = d->trapped.next;
			break;
		case TEXTREPLAY_EFFECT_PROBE:
			e.probe = d->last_ip;
			/* fall through */
		default:
			e.any = 1;
		}
		enter(d, e);
	} else if (ip == handler && handler) {
		/* Only a trap leads here. */
		if (!read_at(d, tsc, d->last_ip, b) || b[0] != 0xcc)
			return 0;
		if (d->nentered)
			enter(d, (struct entered){ .any = 1 });
	} else if (d->last_iret && d->nentered) {
		struct entered *e = &d->entered[--d->nentered];
		if (e->probe) {
			textreplay_set_time(d->cur, ns_of(d, tsc));
			if (!textreplay_probe_may_resume(d->cur, e->probe, ip))
				return 0;
		}
		return e->any || ip == e->to[0] || ip == e->to[1];
	}
	return 1;
}

/* Follows an item that step() decoded. Returns 0 if it cannot have happened: a choice was
 * wrong. */
static int follow(struct ipt *d, const struct ipt_item *it)
{
	uint64_t start, end;
	int ok = 1;
	uint8_t b[16];

	if (it->kind == IPT_EVENT) {
		const struct pt_event *ev = &it->u.event;
		switch (ev->type) {
		case ptev_async_branch:
			/* Between the last instruction and the one at from. */
			if (d->last_valid && !ev->ip_suppressed)
				ok = arrive(d, ev->variant.async_branch.from, it->tsc);
			d->last_valid = 0;
			if (d->nentered)
				enter(d, (struct entered){ .any = 1 });
			break;
		case ptev_enabled:
		case ptev_disabled:
		case ptev_async_disabled:
		case ptev_overflow:
			d->last_valid = 0;
			d->nentered = 0;
			break;
		default:
			break;
		}
		return ok;
	}
	start = it->kind == IPT_BLOCK ? it->u.block.ip : it->u.insn.ip;
	end = it->kind == IPT_BLOCK ? it->u.block.end_ip : start;
	if (d->last_valid)
		ok = arrive(d, start, it->tsc);
	d->last_valid = 1;
	d->last_ip = end;
	d->last_trap = 0;
	for (unsigned i = 0; i < d->ntaken; i++)
		if (d->taken[i].trap && d->taken[i].ip == end) {
			d->last_trap = 1;
			d->trapped = d->trap;
		}
	d->last_iret = 0;
	if (d->nentered && !d->last_trap) {
		if (it->kind == IPT_INSN)
			d->last_iret = it->u.insn.iclass == ptic_far_return;
		else if (read_at(d, it->tsc, end, b) >= 2)
			d->last_iret = b[0] == 0xcf || (b[0] == 0x48 && b[1] == 0xcf);
	}
	return ok;
}

static int is_marker(const struct ipt_item *it)
{
	return it->kind == IPT_EVENT && it->u.event.type == ptev_exec_mode && it->u.event.status_update;
}

/* Goes back to the base, to decode with the choices as they are now. */
static int go_back(struct ipt *d)
{
	struct ipt_item it;
	int s = dec_sync_set(d, d->base);

	d->stats.replays++;
	d->status = s;
	d->pending_error = 0;
	d->seq = d->events = 0;
	d->at = 0;
	d->head = d->tail = 0;
	d->nentered = 0;
	d->last_valid = d->last_trap = d->last_iret = 0;
	d->since = d->until = 0;
	d->timeless = d->quiet = d->have_result = 0;
	while (s >= 0) { /* up to the marker */
		s = step(d, &it);
		if (s <= 0 || it.kind != IPT_EVENT)
			return -1;
		if (is_marker(&it)) {
			return 0;
		}
	}
	return -1;
}

/* Something cannot have happened. Makes the next choice, and goes back. Returns 0 if there
 * is no choice left. */
static int resolve(struct ipt *d)
{
	uint64_t offset = dec_offset(d);

	if (!d->have_base || !d->holding || offset <= d->ignore)
		return 0;
	if (offset > d->best || !d->nbest) {
		uint8_t *p = realloc(d->best_choices, d->nchoices + 1);
		if (p) {
			d->best_choices = p;
			d->best = offset;
			d->nbest = d->nchoices;
			for (size_t i = 0; i < d->nchoices; i++)
				p[i] = d->choices[i].cur;
		}
	}
	d->nchoices = d->at;
	while (d->nchoices > d->fixed && d->choices[d->nchoices - 1].cur + 1 >= d->choices[d->nchoices - 1].n)
		d->nchoices--;
	if (d->nchoices > d->fixed && ++d->trials <= trials_max) {
		d->choices[d->nchoices - 1].cur++;
	} else {
		/* None fits. Decode as far as it went, and pass on what is wrong there. */
		d->stats.unresolved++;
		d->ignore = d->best;
		for (size_t i = 0; i < d->nbest && i < d->room; i++)
			d->choices[i].cur = d->best_choices[i];
		d->nchoices = d->nbest;
	}
	if (go_back(d)) {
		d->have_base = 0;
		return 0;
	}
	return 1;
}

static void settled(struct ipt *d)
{
	d->holding = 0;
	d->fixed = d->nchoices;
	d->trials = 0;
	d->nbest = 0;
	d->best = 0;
}

static int push(struct ipt *d, const struct ipt_item *it)
{
	struct queued *q;

	if (d->tail == d->qroom) {
		size_t room = d->qroom ? 2 * d->qroom : 1024;
		void *p = realloc(d->queue, room * sizeof(*d->queue));
		if (!p)
			return -pte_nomem;
		d->queue = p;
		d->qroom = room;
	}
	q = &d->queue[d->tail++];
	q->item = *it;
	q->ntaken = d->ntaken;
	memcpy(q->taken, d->taken, d->ntaken * sizeof(*d->taken));
	return 0;
}

static int give(struct ipt *d, const struct ipt_item *it, unsigned ntaken, const struct taken *taken)
{
	if (it->kind == IPT_EVENT)
		d->delivered_events++;
	else
		d->delivered += it->kind == IPT_BLOCK ? it->u.block.ninsn : 1;
	d->returned_ntaken = ntaken;
	for (unsigned i = 0; i < ntaken; i++) {
		d->returned[i] = taken[i];
		d->stats.traps += taken[i].trap;
	}
	/* What the fast path need not look at. */
	d->quiet = !ntaken && !d->holding && d->head == d->tail && !d->nentered && !d->pending_error &&
		   d->last_valid && !d->last_trap && !d->last_iret && d->seq == d->delivered && !d->status;
	return 1;
}

static int fail(struct ipt *d, struct ipt_item *it, int error)
{
	it->error = error;
	it->tsc = d->tsc;
	d->status = dec_sync_forward(d);
	d->timeless = d->quiet = d->have_result = 0;
	d->have_base = 0;
	forget_choices(d);
	d->last_valid = 0;
	d->nentered = 0;
	settled(d);
	return -1;
}

/* Decodes an item, whatever is in the way. */
static __attribute__((noinline)) int slow(struct ipt *d, struct ipt_item *it)
{
	int s;

	d->seq += d->passed;
	d->delivered += d->passed;
	d->passed = 0;
	d->quiet = 0;
	for (;;) {
		if (!d->holding && d->head < d->tail) {
			struct queued *q = &d->queue[d->head++];
			if (d->head == d->tail)
				d->head = d->tail = 0;
			*it = q->item;
			return give(d, it, q->ntaken, q->taken);
		}
		if (d->status < 0) {
			if (d->status == -pte_eos)
				return 0;
			return fail(d, it, d->status);
		}
		s = step(d, it);
		if (s == 0) {
			if (!d->holding)
				return 0;
			settled(d);
			continue;
		}
		if (s < 0) {
			if (resolve(d))
				continue;
			if (d->holding) { /* first what was decoded */
				settled(d);
				d->pending_error = s;
				if (d->head < d->tail)
					continue;
				d->pending_error = 0;
			}
			return fail(d, it, s);
		}
		if (!follow(d, it)) {
			if (resolve(d))
				continue;
		}
		if (it->kind == IPT_EVENT) {
			if (++d->events <= d->delivered_events)
				continue; /* the caller has it */
		} else {
			uint64_t begin = d->seq;
			d->seq += it->kind == IPT_BLOCK ? it->u.block.ninsn : 1;
			if (d->seq <= d->delivered)
				continue;
			if (begin < d->delivered) { /* the caller has the first part of the block */
				it->u.block.ninsn -= (uint16_t)(d->delivered - begin);
				it->u.block.ip = d->held_ip;
			}
		}
		if (is_marker(it) && !d->holding) {
			d->have_base = psb_before(d, dec_offset(d), &d->base);
			d->seq = d->delivered = 0;
			d->events = d->delivered_events = 0;
			forget_choices(d);
			it->error = 0;
			d->returned_ntaken = 0;
			return 1;
		}
		if (!d->holding)
			return give(d, it, d->ntaken, d->taken);
		s = push(d, it);
		if (s < 0)
			return fail(d, it, s);
		if ((!d->nentered && !d->last_trap && d->at == d->nchoices && d->at &&
		     dec_offset(d) > d->choices[d->at - 1].offset + settle) ||
		    d->tail >= hold_max || dec_offset(d) <= d->ignore)
			settled(d);
	}
}

int ipt_next(struct ipt *d, struct ipt_item *it)
{
	uint64_t start, end;
	int s, n;

	/* Mostly nothing is in the way: the image is right, mostly up to the next PSB, no event
	 * is pending, nothing is held back. This has to be little more than libipt's own
	 * function. */
	if (!d->quiet)
		return slow(d, it);
	if (!d->timeless) {
		if (d->kind != IMAGE_BASE) /* choices are made there */
			return slow(d, it);
		d->tsc = dec_time(d);
		if (d->tsc < d->since || d->tsc >= d->until)
			return slow(d, it);
	}
	it->tsc = d->tsc;
	if (d->blk) {
		s = pt_blk_next(d->blk, &it->u.block, sizeof(it->u.block));
		it->kind = IPT_BLOCK;
		n = it->u.block.ninsn;
		start = it->u.block.ip;
		end = it->u.block.end_ip;
	} else {
		it->u.insn.iclass = ptic_error;
		s = pt_insn_next(d->insn, &it->u.insn, sizeof(it->u.insn));
		it->kind = IPT_INSN;
		n = 1;
		start = end = it->u.insn.ip;
	}
	if (s < 0 || !n || start == d->opts.trap_handler) {
		d->have_result = 1;
		d->result = s;
		return slow(d, it);
	}
	d->last_ip = end;
	d->passed += (unsigned)n;
	if (s) {
		d->status = s;
		d->quiet = 0;
	}
	return 1;
}

/* --- life -------------------------------------------------------------------------- */

/* Finds the PSBs with their times, and how far packets are apart in the first of them. */
static int find_psbs(struct ipt *d)
{
	struct pt_packet_decoder *pkts;
	struct pt_packet pkt;
	uint64_t last = 0, at;
	static const uint8_t psb[16] = { 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
					 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82 };
	const uint8_t *p = d->config.begin;
	size_t room = 0;

	while (p && (p = memmem(p, (size_t)(d->config.end - p), psb, sizeof(psb)))) {
		if (d->npsbs == room) {
			void *n;
			room = room ? 2 * room : 256;
			n = realloc(d->psbs, room * sizeof(*d->psbs));
			if (!n)
				return -1;
			d->psbs = n;
		}
		d->psbs[d->npsbs++] = (struct sync){ .offset = (uint64_t)(p - d->config.begin) };
		p += sizeof(psb);
	}
	pkts = pt_pkt_alloc_decoder(&d->config);
	if (!pkts)
		return -1;
	for (size_t i = 0; i < d->npsbs; i++) {
		pt_pkt_sync_set(pkts, d->psbs[i].offset);
		while (pt_pkt_next(pkts, &pkt, sizeof(pkt)) >= 0 && pkt.type != ppt_psbend)
			if (pkt.type == ppt_tsc)
				d->psbs[i].tsc = pkt.payload.tsc.tsc;
	}
	if (d->npsbs) {
		pt_pkt_sync_set(pkts, d->psbs[0].offset);
		while (!pt_pkt_get_offset(pkts, &at) && at < sample && pt_pkt_next(pkts, &pkt, sizeof(pkt)) >= 0) {
			if (pkt.type != ppt_tsc)
				continue;
			if (last && pkt.payload.tsc.tsc > last && pkt.payload.tsc.tsc - last > d->gap)
				d->gap = pkt.payload.tsc.tsc - last;
			last = pkt.payload.tsc.tsc;
		}
		if (d->gap > gap_most)
			d->gap = gap_most;
	}
	pt_pkt_free_decoder(pkts);
	return 0;
}

struct ipt *ipt_new(textreplay *tr, const struct pt_config *config, enum ipt_mode mode, const struct ipt_options *options)
{
	struct ipt *d = calloc(1, sizeof(*d));
	textreplay_symbol s;

	if (!d)
		return NULL;
	d->tr = tr;
	d->mode = mode;
	d->config = *config;
	d->fd = -1;
	d->mem = MAP_FAILED;
	d->peek_at = UINT64_MAX;
	d->gap = gap_least;
	if (options)
		d->opts = *options;
	if (!d->opts.min_standing)
		d->opts.min_standing = TEXTREPLAY_UNCONFIRMED;
	if (textreplay_cursor_new(tr, &d->cur)) {
		note("a cursor");
		goto fail;
	}
	if (!d->opts.trap_handler &&
	    (textreplay_lookup(d->cur, "asm_exc_int3", &s, 1) > 0 || textreplay_lookup(d->cur, "int3", &s, 1) > 0))
		d->opts.trap_handler = s.addr;
	if (mode == IPT_BLOCKS)
		d->blk = pt_blk_alloc_decoder(&d->config);
	else
		d->insn = pt_insn_alloc_decoder(&d->config);
	d->cache = pt_iscache_alloc("changing");
	d->callback = pt_image_alloc("callback");
	d->fd = memfd_create("textreplay-versions", MFD_CLOEXEC);
	if ((!d->blk && !d->insn) || !d->cache || !d->callback || d->fd < 0 ||
	    ftruncate(d->fd, sections_size) || find_psbs(d)) {
		fprintf(stderr, "ipt: out of memory\n");
		goto fail;
	}
	d->mem = mmap(NULL, sections_size, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	if (d->mem == MAP_FAILED) {
		perror("ipt: mmap");
		goto fail;
	}
	pt_iscache_set_limit(d->cache, UINT64_MAX);
	pt_image_set_callback(d->callback, image_callback, d);
	d->zones_until = UINT64_MAX;
	d->ns_tsc = UINT64_MAX;
	d->gap_ns = ns_of(d, d->gap + (1 << 20)) - ns_of(d, 1 << 20) + 2;
	d->status = dec_sync_forward(d);
	return d;
fail:
	ipt_free(d);
	return NULL;
}

void ipt_free(struct ipt *d)
{
	if (!d)
		return;
	pt_blk_free_decoder(d->blk);
	pt_insn_free_decoder(d->insn);
	pt_image_free(d->callback);
	free_epoch(d->epoch);
	free_epoch(d->older);
	pt_iscache_free(d->cache);
	if (d->mem != MAP_FAILED)
		munmap(d->mem, sections_size);
	if (d->fd >= 0)
		close(d->fd);
	textreplay_cursor_free(d->cur);
	free(d->changes);
	free(d->flights);
	free(d->psbs);
	free(d->choices);
	free(d->best_choices);
	free(d->queue);
	free(d);
}

uint64_t ipt_time(struct ipt *d)
{
	return dec_time(d);
}

void ipt_get_stats(const struct ipt *d, struct ipt_stats *stats)
{
	*stats = d->stats;
}
