// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// What all pages do: keys, the search box, the slider of a function, live recordings.

const search = document.getElementById('q')

// Keys.
const views = { o: '/', m: '/map', f: '/functions', l: '/log', d: '/diff' }
// Keys belong to a control that takes letters. The slider and boxes to tick take none.
const takesLetters = e => e?.matches('input:not([type=range], [type=checkbox]), select, textarea') === true
document.addEventListener('keydown', e => {
	if (e.ctrlKey || e.metaKey || e.altKey || takesLetters(e.target)) return
	if (e.key === '/' && search) {
		e.preventDefault()
		search.focus()
		search.select()
	} else if (e.key === '[' || e.key === ']') {
		document.querySelector(`#main a[rel=${e.key === '[' ? 'prev' : 'next'}]`)?.click()
	} else if (views[e.key] && !(e.target.id === 'map')) {
		const link = [...document.querySelectorAll('.top nav a')].find(a => new URL(a.href).pathname === views[e.key])
		link?.click()
	}
})

// Completion of names.
if (search) {
	const list = document.getElementById('suggestions')
	let timer = 0
	search.addEventListener('input', () => {
		clearTimeout(timer)
		timer = setTimeout(async () => {
			const text = search.value.trim()
			if (text.length < 2) return
			const answer = await fetch('/suggest?q=' + encodeURIComponent(text)).catch(() => null)
			if (!answer?.ok) return
			const found = await answer.json()
			if (search.value.trim() !== text) return
			list.replaceChildren(...found.map(f => {
				const o = document.createElement('option')
				o.value = f.name
				o.label = f.changes ? `${f.changes} changes` : f.kind
				return o
			}))
		}, 120)
	})
}

// Tables are sorted by a click on the name of a column: numbers the greatest first.
function makeSortable(table) {
	const head = [...table.tHead.rows[0].cells], body = table.tBodies[0]
	const key = (row, i) => {
		const text = row.cells[i].textContent.trim(), number = Number(text.replaceAll(',', ''))
		return text === '' || Number.isNaN(number) ? text : number
	}
	const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === 'number' ? 1 : -1
	head.forEach((th, i) => {
		const button = document.createElement('button')
		button.type = 'button'
		button.className = 'sort'
		button.append(...th.childNodes)
		th.append(button)
		button.addEventListener('click', () => {
			const was = th.getAttribute('aria-sort')
			const down = was ? was === 'ascending' : th.classList.contains('num')
			for (const h of head) h.removeAttribute('aria-sort')
			th.setAttribute('aria-sort', down ? 'descending' : 'ascending')
			const rows = [...body.rows].sort((a, b) => order(key(a, i), key(b, i)) * (down ? -1 : 1))
			body.append(...rows)
		})
	})
}
document.querySelectorAll('table.sortable').forEach(makeSortable)

// The page of the same address with other content in the same places.
async function load(url) {
	const answer = await fetch(url)
	return new DOMParser().parseFromString(await answer.text(), 'text/html')
}

// The slider goes through the changes of a function.
function slide() {
	const slider = document.getElementById('slider')
	if (!slider) return
	const times = JSON.parse(document.getElementById('times').textContent)
	const first = BigInt(slider.dataset.first), last = BigInt(slider.dataset.last)
	const strip = document.getElementById('moments')
	const x = t => Number(BigInt(t) - first) / Math.max(Number(last - first), 1) * 996
	const draw = () => {
		const ticks = times.map(t => {
			const r = document.createElementNS('http://www.w3.org/2000/svg', 'rect')
			r.setAttribute('x', x(t))
			r.setAttribute('width', 2.5)
			r.setAttribute('height', 10)
			r.setAttribute('class', 'tick')
			return r
		})
		strip.replaceChildren(...ticks)
		const on = ticks[Number(slider.value)]
		if (on) {
			on.setAttribute('class', 'tick on')
			strip.append(on) // above those that are close to it
		}
	}
	draw()
	let wanted = null, busy = false
	const show = async () => {
		if (busy) return
		busy = true
		while (wanted !== null) {
			const ns = wanted
			wanted = null
			const at = new URL('/at', location.href)
			at.searchParams.set('addr', slider.dataset.addr)
			const page = await load(at + '&ns=' + ns).catch(() => null)
			const shown = page?.getElementById('shown')
			if (!shown || wanted !== null) continue
			document.getElementById('shown').replaceWith(shown)
			const t = page.getElementById('t').value
			slider.setAttribute('aria-valuetext', t)
			// All that keeps the time, or leads from it to another: the page's head and foot, and the
			// form above the slider.
			for (const part of ['.top nav', '.top .brand', '.search input[name=t]', '.search .kept', '.clock form', 'footer']) {
				const old = document.querySelector(part), now = page.querySelector(part)
				if (old && now) old.replaceWith(now)
				else if (now) document.querySelector('.search button').before(now)
			}
			at.searchParams.set('t', t)
			history.replaceState(null, '', at)
		}
		busy = false
	}
	slider.addEventListener('input', () => {
		const i = Number(slider.value)
		wanted = i < 0 ? first : times[i]
		draw()
		show()
	})
}
slide()

// A recording that is still being read, or that grows.
const body = document.body
const news = document.getElementById('news')
async function look() {
	const state = await fetch('/state').then(a => a.json()).catch(() => null)
	if (!state) {
		news.textContent = 'The server has ended.'
		news.hidden = false
		return
	}
	const problem = document.getElementById('problem')
	problem.textContent = state.problem
	problem.hidden = !state.problem
	const newer = state.number !== Number(body.dataset.number)
	if ((newer || body.dataset.pending === 'true' && state.ready) && document.activeElement?.matches('input:not([type=range]), select') !== true) {
		const page = await load(location.href)
		if (page.getElementById('map') && !document.getElementById('map')) {
			location.reload() // this page is the message that the map has to wait
			return
		}
		document.dispatchEvent(new CustomEvent('newer', { detail: page }))
		if (!document.getElementById('map')) {
			document.getElementById('main').replaceChildren(...page.getElementById('main').childNodes)
			document.querySelectorAll('table.sortable').forEach(makeSortable)
		}
		document.getElementById('missing').replaceWith(page.getElementById('missing'))
		body.dataset.number = page.body.dataset.number
		body.dataset.pending = page.body.dataset.pending
		slide()
		if (newer) {
			news.textContent = 'The recording has grown. This page shows what it has now.'
			news.hidden = false
			setTimeout(() => { news.hidden = true }, 4000)
		}
	}
	if (state.live || body.dataset.pending === 'true') setTimeout(look, body.dataset.pending === 'true' ? 150 : 2000)
}
if (body.dataset.pending === 'true') setTimeout(look, 150)
else if (body.dataset.live === 'true') setTimeout(look, 2000)
