// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// The map: time from left to right, positions of addresses from top to bottom. The server
// cuts the plane into tiles (tile.go); this script draws those that are in view.

const canvas = document.getElementById('map')
const where = document.getElementById('where')
const report = document.body.dataset.report === 'true'
let plane, origin, span
const view = { t0: 0, t1: 1, y0: 0, y1: 1 } // times in nanoseconds since origin
const marks = { a: null, b: null }
const tiles = new Map() // by key: 'asked', or a tile; one with many changes has a picture
const names = new Map() // by position on the axis: a name and the time of which it is
const kept = new URL(location.href).searchParams.get('t') // the time that the page keeps
let pointer = null, width = 0, height = 0, scale = 1
const foot = 26
let gutter = 150
const tilePixels = 320

const rel = ns => Number(BigInt(ns) - origin)
const abs = t => origin + BigInt(Math.round(t))
const seconds = t => {
	const ns = abs(t), s = ns / 1000000000n
	return s + '.' + String(ns % 1000000000n).padStart(9, '0')
}
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
let colors

function readColors() {
	colors = { classes: [], text: css('--text'), quiet: css('--quiet'), line: css('--line'), grid: css('--grid'), gap: css('--gap'), accent: css('--accent'), card: css('--card'),
		kinds: { kernel: css('--kernel'), module: css('--module'), bpf: css('--bpf'), 'out-of-line': css('--outofline'), other: css('--kernel') } }
	for (let i = 0; i < 10; i++) colors.classes.push(css('--c' + i))
	const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
	colors.rgb = colors.classes.map(c => {
		probe.fillStyle = c
		probe.fillRect(0, 0, 1, 1)
		return probe.getImageData(0, 0, 1, 1).data
	})
}

function begin(data, keep) {
	const old = keep ? { t0: abs(view.t0), t1: abs(view.t1), y0: view.y0, y1: view.y1 } : null
	plane = data
	origin = BigInt(plane.from)
	span = Number(BigInt(plane.to) - origin)
	tiles.clear()
	names.clear()
	if (old) Object.assign(view, { t0: Number(old.t0 - origin), t1: Number(old.t1 - origin), y0: old.y0, y1: old.y1 })
	else Object.assign(view, { t0: rel(plane.t0), t1: rel(plane.t1), y0: plane.y0, y1: plane.y1 })
	clamp()
	draw()
}

function clamp() {
	const dt = Math.min(Math.max(view.t1 - view.t0, 100), span), dy = Math.min(Math.max(view.y1 - view.y0, 24), plane.height)
	const mt = (view.t0 + view.t1) / 2, my = (view.y0 + view.y1) / 2
	view.t0 = Math.min(Math.max(mt - dt / 2, 0), span - dt)
	view.t1 = view.t0 + dt
	view.y0 = Math.min(Math.max(my - dy / 2, 0), plane.height - dy)
	view.y1 = view.y0 + dy
}

const plotWidth = () => Math.max(width - gutter, 10)
const plotHeight = () => Math.max(height - foot, 10)
const px = t => gutter + (t - view.t0) / (view.t1 - view.t0) * plotWidth()
const py = y => (y - view.y0) / (view.y1 - view.y0) * plotHeight()
const tx = x => view.t0 + (x - gutter) / plotWidth() * (view.t1 - view.t0)
const yx = y => view.y0 + y / plotHeight() * (view.y1 - view.y0)

// Tiles.

const keyOf = (zx, zy, x, y) => `${zx}/${zy}/${x}/${y}`
let asking = 0
const queue = []

function want(zx, zy, x, y) {
	const key = keyOf(zx, zy, x, y)
	if (tiles.has(key)) return
	if (report) {
		const t = plane.tiles[key]
		if (t) tiles.set(key, paint(t))
		return
	}
	tiles.set(key, 'asked')
	queue.push([key, `/map/tile?zx=${zx}&zy=${zy}&x=${x}&y=${y}`, plane])
	next()
}

async function next() {
	while (asking < 6 && queue.length) {
		const [key, url, of] = queue.pop() // the newest first
		asking++
		fetch(url).then(a => a.ok ? a.json() : Promise.reject()).then(t => {
			if (of === plane) tiles.set(key, paint(t))
		}).catch(() => tiles.delete(key)).finally(() => {
			asking--
			schedule()
			next()
		})
	}
}

// paint makes the picture of a tile with many changes.
function paint(t) {
	if (!t.cells) return t
	const n = plane.cells
	t.picture = document.createElement('canvas')
	t.picture.width = t.picture.height = n
	const c = t.picture.getContext('2d'), image = c.createImageData(n, n)
	const bytes = Uint8Array.from(atob(t.cells), x => x.charCodeAt(0))
	let cell = 0
	for (let i = 0; i < bytes.length;) {
		let skip = 0, shift = 0
		while (bytes[i] & 128) {
			skip |= (bytes[i++] & 127) << shift
			shift += 7
		}
		skip |= bytes[i++] << shift
		cell += skip
		const rgb = colors.rgb[bytes[i++] % 10], level = bytes[i++]
		image.data.set([rgb[0], rgb[1], rgb[2], Math.min(90 + level * 1.3, 255)], cell * 4)
		cell++
	}
	c.putImageData(image, 0, 0)
	return t
}

function drawTiles(c) {
	const zx = Math.min(Math.max(Math.ceil(Math.log2(span / (view.t1 - view.t0) * plotWidth() / tilePixels)), 0), 40)
	const zy = Math.min(Math.max(Math.ceil(Math.log2(plane.height / (view.y1 - view.y0) * plotHeight() / tilePixels)), 0), 40)
	const nx = 2 ** zx, ny = 2 ** zy, wt = span / nx, hy = plane.height / ny
	c.imageSmoothingEnabled = false
	const found = []
	for (let y = Math.max(Math.floor(view.y0 / hy), 0); y < Math.min(Math.ceil(view.y1 / hy), ny); y++) {
		for (let x = Math.max(Math.floor(view.t0 / wt), 0); x < Math.min(Math.ceil(view.t1 / wt), nx); x++) {
			want(zx, zy, x, y)
			let t = tiles.get(keyOf(zx, zy, x, y)), up = 0, box = [x * wt, y * hy, wt, hy]
			// While it is on its way, a part of a larger tile is shown.
			let fx = 0, fy = 0, fw = 1, fh = 1, X = x, Y = y, a = zx, b = zy
			while ((!t || t === 'asked') && (a > 0 || b > 0) && up++ < 40) {
				if (a >= b) { fx = (fx + X % 2) / 2; fw /= 2; X = Math.floor(X / 2); a-- } else { fy = (fy + Y % 2) / 2; fh /= 2; Y = Math.floor(Y / 2); b-- }
				t = tiles.get(keyOf(a, b, X, Y))
				if (report && !t) { want(a, b, X, Y); t = tiles.get(keyOf(a, b, X, Y)) }
			}
			if (!t || t === 'asked') continue
			const [x0, y0, x1, y1] = [px(box[0]), py(box[1]), px(box[0] + box[2]), py(box[1] + box[3])]
			if (t.picture) {
				const n = plane.cells
				c.drawImage(t.picture, fx * n, fy * n, fw * n, fh * n, x0, y0, x1 - x0, y1 - y0)
			} else if (t.marks) {
				for (const m of t.marks) {
					if (m.x === undefined) m.x = rel(m.t)
					if (m.x >= box[0] && m.x <= box[0] + box[2] && m.p >= box[1] && m.p < box[1] + box[3]) found.push(m)
				}
			}
		}
	}
	for (const m of found) drawMark(c, m)
	return found
}

function drawMark(c, m) {
	const x = px(m.x), y = py(m.p), h = Math.max(py(m.p + m.n) - y, 4)
	c.fillStyle = colors.classes[m.c % 10]
	if (m.f) {
		const x0 = px(rel(m.f)), x1 = px(rel(m.u))
		if (x1 - x0 > 2) {
			c.globalAlpha = .28
			c.fillRect(x0, y, x1 - x0, h)
			c.globalAlpha = 1
		}
	}
	c.fillRect(x - 1.5, y, 3, h)
}

// Everything around the changes.

function drawGround(c) {
	const h = plotHeight(), w = plotWidth()
	for (const a of plane.areas) {
		const y0 = py(a.p), y1 = py(a.p + a.n)
		if (y1 < 0 || y0 > h) continue
		c.fillStyle = colors.kinds[a.k] ?? colors.kinds.other
		c.fillRect(0, Math.max(y0, 0), width, Math.min(y1, h) - Math.max(y0, 0))
	}
	for (const s of plane.spans) {
		const y0 = py(s.p), y1 = py(s.p + s.n)
		if (y1 < 0 || y0 > h || s.k === 'module') continue
		const x0 = Math.max(px(rel(s.f)), gutter), x1 = Math.min(px(rel(s.u)), width)
		if (x1 <= x0) continue
		c.fillStyle = s.k === 'out of line' ? colors.classes[4] : colors.classes[6]
		c.globalAlpha = .16
		c.fillRect(x0, y0, x1 - x0, Math.max(y1 - y0, 1))
		c.globalAlpha = 1
		if (y1 - y0 > 12 && x1 - x0 > 60) {
			c.fillStyle = colors.quiet
			c.save()
			c.beginPath()
			c.rect(x0, y0, x1 - x0, y1 - y0)
			c.clip()
			c.fillText(s.name, x0 + 4, Math.max(y0, 0) + 11)
			c.restore()
		}
	}
	c.fillStyle = colors.gap
	let painted = gutter
	for (const g of plane.gaps) {
		const x0 = Math.max(px(rel(g.f)), painted), x1 = Math.min(px(rel(g.u)), width)
		if (x1 <= painted || x0 >= width) continue
		painted = Math.max(x1, x0 + 1)
		c.fillRect(x0, 0, painted - x0, h)
	}
	c.strokeStyle = colors.line
	c.beginPath()
	for (const a of plane.areas) {
		const y = Math.round(py(a.p)) + .5
		if (y > 0 && y < h) { c.moveTo(0, y); c.lineTo(width, y) }
	}
	c.moveTo(gutter - .5, 0)
	c.lineTo(gutter - .5, h)
	c.moveTo(0, h + .5)
	c.lineTo(width, h + .5)
	c.stroke()
}

function drawTimes(c) {
	const rough = (view.t1 - view.t0) / Math.max(plotWidth() / 130, 1)
	const ten = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(x => x * ten).find(x => x >= rough)
	const digits = Math.min(Math.max(9 - Math.floor(Math.log10(step)), 0), 9)
	const first = Math.ceil((Number(origin % 1000000000000n) + view.t0) / step) * step - Number(origin % 1000000000000n)
	c.textAlign = 'center'
	for (let t = first; t <= view.t1; t += step) {
		const x = Math.round(px(t)) + .5
		c.strokeStyle = colors.grid
		c.beginPath()
		c.moveTo(x, 0)
		c.lineTo(x, plotHeight())
		c.stroke()
		c.fillStyle = colors.quiet
		const text = seconds(t)
		if (x > gutter + 30 && x < width - 30) c.fillText(digits ? text.slice(0, text.length - 9 + digits) : text.slice(0, -10), x, height - 9)
	}
	c.textAlign = 'left'
	c.fillText('seconds', 6, height - 9)
}

const isKernel = p => plane.areas.some(a => a.k === 'kernel' && a.p <= p && p < a.p + a.n)
let naming = 0
function drawNames(c) {
	const h = plotHeight()
	c.save()
	c.beginPath()
	c.rect(0, 0, gutter - 4, h)
	c.clip()
	const bytes = (view.y1 - view.y0) / h // of a pixel
	const taken = []
	for (const a of plane.areas) {
		const y0 = Math.max(py(a.p), 0), y1 = Math.min(py(a.p + a.n), h)
		if (y1 - y0 < 11 || (bytes < 4096 && a.n / bytes > h / 3)) continue
		c.fillStyle = colors.text
		const y = (y0 + y1) / 2 + 4
		c.fillText(a.name, 6, y)
		taken.push(y)
	}
	if (bytes < 4096 * 3) {
		// Names of functions, at fixed positions of the axis, so that they move along.
		const step = 2 ** Math.ceil(Math.log2(Math.max(bytes * 34, 16)))
		const missing = [], t = seconds(view.t0)
		for (let p = Math.ceil(view.y0 / step) * step; p < view.y1; p += step) {
			// Outside of kernel text, other code may be there at another time.
			const known = names.get(p)
			if (!known || known.t !== t && !isKernel(p)) missing.push(p)
			const name = known?.name, y = py(p)
			if (!name || taken.some(z => Math.abs(z - y) < 12)) continue
			c.fillStyle = colors.quiet
			c.fillText(name, 6, y + 4)
			c.fillRect(gutter - 8, y, 4, 1)
		}
		if (missing.length && !naming && !report) {
			naming = 1
			const some = missing.slice(0, 60)
			fetch('/map/names?p=' + some.join(',') + '&t=' + t).then(a => a.json()).then(list => list.forEach((x, i) => names.set(some[i], { name: x.name, t }))).catch(() => some.forEach(p => names.set(p, { name: '', t }))).finally(() => {
				naming = 0
				schedule()
			})
		}
	}
	c.restore()
}

let shown = []
function draw() {
	const box = canvas.getBoundingClientRect()
	scale = devicePixelRatio || 1
	width = box.width
	height = box.height
	gutter = width < 600 ? 84 : 170
	if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
		canvas.width = Math.round(width * scale)
		canvas.height = Math.round(height * scale)
	}
	const c = canvas.getContext('2d')
	c.setTransform(scale, 0, 0, scale, 0, 0)
	c.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, monospace'
	c.fillStyle = colors.card
	c.fillRect(0, 0, width, height)
	drawGround(c)
	drawTimes(c)
	c.save()
	c.beginPath()
	c.rect(gutter, 0, width - gutter, plotHeight())
	c.clip()
	shown = drawTiles(c)
	if (plane.kept) drawKept(c)
	for (const [name, t] of Object.entries(marks)) {
		if (t === null) continue
		const x = Math.round(px(t)) + .5
		c.strokeStyle = c.fillStyle = colors.accent
		c.beginPath()
		c.moveTo(x, 0)
		c.lineTo(x, plotHeight())
		c.stroke()
		c.fillText(name.toUpperCase(), x + 3, 11)
	}
	if (pointer) {
		c.strokeStyle = colors.quiet
		c.globalAlpha = .5
		c.beginPath()
		c.moveTo(Math.round(pointer.x) + .5, 0)
		c.lineTo(Math.round(pointer.x) + .5, plotHeight())
		c.moveTo(gutter, Math.round(pointer.y) + .5)
		c.lineTo(width, Math.round(pointer.y) + .5)
		c.stroke()
		c.globalAlpha = 1
	}
	c.restore()
	drawNames(c)
	canvas.dataset.drawn = [...tiles.values()].every(t => t !== 'asked') ? 'all' : 'part'
	canvas.dataset.marks = shown.length
}

// drawKept draws the time that the page keeps: a line, or all of an interval that is wider than one.
function drawKept(c) {
	const x0 = px(rel(plane.kept.f)), x1 = px(rel(plane.kept.u))
	canvas.dataset.kept = x1 < gutter || x0 > width ? '' : [x0, x1].map(x => seconds(tx(x))).join(' ')
	if (!canvas.dataset.kept) return
	c.strokeStyle = c.fillStyle = colors.accent
	if (x1 - x0 > 1) {
		c.globalAlpha = .12
		c.fillRect(x0, 0, x1 - x0, plotHeight())
		c.globalAlpha = 1
	}
	c.setLineDash([4, 4])
	c.beginPath()
	for (const x of [x0, x1]) {
		c.moveTo(Math.round(x) + .5, 0)
		c.lineTo(Math.round(x) + .5, plotHeight())
	}
	c.stroke()
	c.setLineDash([])
	c.fillText(plane.kept.text, Math.max(x1, gutter) + 3, plotHeight() - 5)
}

let scheduled = false
function schedule() {
	if (scheduled) return
	scheduled = true
	requestAnimationFrame(() => {
		scheduled = false
		draw()
	})
}

// Moving.

let saving = 0
function moved() {
	clamp()
	schedule()
	if (report) return
	clearTimeout(saving)
	saving = setTimeout(() => {
		const url = new URL('/map', location.href)
		if (kept) url.searchParams.set('t', kept)
		if (kept || view.t0 > 0 || view.t1 < span) { // without them, t chooses what is shown
			url.searchParams.set('from', seconds(view.t0))
			url.searchParams.set('to', seconds(view.t1))
		}
		if (view.y0 > 0 || view.y1 < plane.height) {
			url.searchParams.set('y0', Math.round(view.y0))
			url.searchParams.set('y1', Math.round(view.y1))
		}
		history.pushState({ ...view }, '', url)
	}, 450)
}

function zoom(fx, fy, x, y) {
	const t = tx(x), p = yx(y)
	view.t0 = t - (t - view.t0) * fx
	view.t1 = t + (view.t1 - t) * fx
	view.y0 = p - (p - view.y0) * fy
	view.y1 = p + (view.y1 - p) * fy
	moved()
}
const middle = () => [gutter + plotWidth() / 2, plotHeight() / 2]

function pan(dx, dy) {
	const t = dx / plotWidth() * (view.t1 - view.t0), p = dy / plotHeight() * (view.y1 - view.y0)
	// Against an edge, the view stays as wide as it is.
	const dt = Math.min(Math.max(t, -view.t0), span - view.t1), dp = Math.min(Math.max(p, -view.y0), plane.height - view.y1)
	view.t0 += dt
	view.t1 += dt
	view.y0 += dp
	view.y1 += dp
	moved()
}

canvas.addEventListener('wheel', e => {
	e.preventDefault()
	const f = Math.exp(Math.max(Math.min(e.deltaY || e.deltaX, 120), -120) / 260)
	const inGutter = e.offsetX < gutter
	zoom(e.altKey || inGutter ? 1 : f, e.shiftKey ? 1 : f, Math.max(e.offsetX, gutter), e.offsetY)
}, { passive: false })

const fingers = new Map()
let dragged = 0
canvas.addEventListener('pointerdown', e => {
	canvas.setPointerCapture(e.pointerId)
	fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY })
	dragged = 0
})
canvas.addEventListener('pointermove', e => {
	pointer = { x: e.offsetX, y: e.offsetY }
	const f = fingers.get(e.pointerId)
	if (f && fingers.size === 1) {
		dragged += Math.abs(e.offsetX - f.x) + Math.abs(e.offsetY - f.y)
		if (dragged > 4) pan(f.x - e.offsetX, f.y - e.offsetY)
	} else if (f && fingers.size === 2) {
		const [p, q] = [...fingers.values()], before = Math.hypot(p.x - q.x, p.y - q.y)
		const other = p === f ? q : p, after = Math.hypot(other.x - e.offsetX, other.y - e.offsetY)
		dragged = 99
		if (before > 0 && after > 0) zoom(before / after, before / after, (p.x + q.x) / 2, (p.y + q.y) / 2)
	} else hover()
	if (f) fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY })
	schedule()
})
for (const type of ['pointerup', 'pointercancel']) {
	canvas.addEventListener(type, e => {
		const f = fingers.get(e.pointerId)
		fingers.delete(e.pointerId)
		if (f && type === 'pointerup' && dragged <= 4) open(e.offsetX, e.offsetY)
	})
}
canvas.addEventListener('pointerleave', () => {
	pointer = null
	schedule()
})

canvas.addEventListener('keydown', e => {
	if (e.ctrlKey || e.metaKey) return
	const step = e.shiftKey ? .5 : .15, [w, h] = [plotWidth() * step, plotHeight() * step]
	const keys = {
		ArrowLeft: () => pan(-w, 0), ArrowRight: () => pan(w, 0), ArrowUp: () => pan(0, -h), ArrowDown: () => pan(0, h),
		'+': () => zoom(.6, e.shiftKey && e.code === 'Equal' ? 1 : .6, ...middle()), '=': () => zoom(.6, .6, ...middle()), '-': () => zoom(1.6, 1.6, ...middle()), _: () => zoom(1, 1.6, ...middle()),
		'0': everything, Enter: () => open(...(pointer ? [pointer.x, pointer.y] : middle())), a: () => mark('a'), b: () => mark('b'),
	}
	if (keys[e.key]) {
		e.preventDefault()
		e.stopPropagation()
		keys[e.key]()
	}
})

function everything() {
	Object.assign(view, { t0: 0, t1: span, y0: 0, y1: plane.height })
	moved()
}

function mark(name) {
	marks[name] = tx(pointer ? Math.max(pointer.x, gutter) : middle()[0])
	const link = document.getElementById('compare')
	if (link && marks.a !== null && marks.b !== null && !report) {
		const [a, b] = [marks.a, marks.b].sort((x, y) => x - y)
		link.href = '/diff?from=' + seconds(a) + '&to=' + seconds(b) + (kept ? '&t=' + encodeURIComponent(kept) : '')
		link.textContent = 'compare A and B (' + (Math.abs(b - a) / 1e9).toPrecision(3) + ' s apart)'
		link.hidden = false
	}
	schedule()
}

document.querySelector('.map .bar').addEventListener('click', e => {
	const what = { in: () => zoom(.6, .6, ...middle()), out: () => zoom(1.6, 1.6, ...middle()), taller: () => zoom(1, .6, ...middle()), flatter: () => zoom(1, 1.6, ...middle()), all: everything, a: () => mark('a'), b: () => mark('b') }
	what[e.target.dataset?.do]?.()
})

// What is under the pointer.

function question(x, y) {
	const d = 7, t = Math.max(Math.min(tx(x), span), 0), p = Math.max(Math.min(yx(y), plane.height - 1), 0)
	const lo = Math.max(tx(x - d), 0), top = Math.max(yx(y - d), 0)
	return '/map/pick?' + new URLSearchParams({ t: abs(t), y: Math.floor(p), t0: abs(lo), t1: abs(Math.max(tx(x + d), lo + 1)) + 1n, y0: Math.floor(top), y1: Math.ceil(Math.max(yx(y + d), top + 1)) })
}

let hovering = 0
function hover() {
	clearTimeout(hovering)
	hovering = setTimeout(async () => {
		if (!pointer || pointer.x < gutter) return
		if (report) return describe(nearMark(pointer.x, pointer.y))
		const { x, y } = pointer
		const found = await fetch(question(x, y)).then(a => a.ok ? a.json() : null).catch(() => null)
		if (found && pointer && pointer.x === x && pointer.y === y) describe(found)
	}, 60)
}

function describe(found) {
	if (!found) return
	const b = text => Object.assign(document.createElement('b'), { textContent: text })
	const gap = plane.gaps.find(g => pointer && rel(g.f) <= tx(pointer.x) && tx(pointer.x) < rel(g.u))
	const about = gap ? ` · ${gap.text}` : ''
	const c = found.change
	if (c) where.replaceChildren(b(c.place), ` at ${c.time}: ${c.kind} by ${c.writer}: `, b(`${c.old || '–'} → ${c.new || '–'}`), (c.window ? `, trap for about ${c.window}` : '') + about)
	else where.replaceChildren(b(found.name), ` at ${found.time}` + about)
}

function nearMark(x, y) {
	const best = shown.map(m => [Math.hypot(px(m.x) - x, py(m.p) - y), m]).sort((p, q) => p[0] - q[0])[0]
	const area = plane.areas.find(a => a.p <= yx(y) && yx(y) < a.p + a.n)
	const found = { name: area ? area.name : '', time: seconds(tx(x)) }
	if (best && best[0] < 9) return { ...found, name: `${best[1].a} (${plane.classes[best[1].c]})`, time: seconds(best[1].x) }
	return found
}

async function open(x, y) {
	if (x < gutter || y > plotHeight()) return
	if (report) {
		const p = yx(y), part = [...document.querySelectorAll('.function')].find(f => Number(f.dataset.p0) <= p && p < Number(f.dataset.p1))
		if (part) location.hash = part.id
		return
	}
	const found = await fetch(question(x, y)).then(a => a.ok ? a.json() : null).catch(() => null)
	if (found) location.href = found.change ? found.change.href : found.href
}

addEventListener('popstate', e => {
	if (e.state?.t1) {
		Object.assign(view, e.state)
		schedule()
	} else location.reload()
})
document.addEventListener('newer', e => begin(JSON.parse(e.detail.getElementById('plane').textContent), true))
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
	readColors()
	tiles.clear()
	schedule()
})
new ResizeObserver(schedule).observe(canvas)
readColors()
begin(JSON.parse(document.getElementById('plane').textContent))
if (!report) history.replaceState({ ...view }, '')
