// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"container/heap"
	"hash/fnv"
	"iter"
	"math/rand/v2"
)

// A Scheduler runs processes one at a time, in the order of simulated time. Equal
// seeds give equal runs.
type Scheduler struct {
	Now     uint64 // true time, in nanoseconds since boot
	seed    uint64
	queue   procQueue
	started uint64
	procs   []*Proc
}

// A Proc is a simulated flow of control. It runs until it sleeps or waits. Each
// has its own random numbers, so that one never changes another's.
type Proc struct {
	*rand.Rand
	s     *Scheduler
	at    uint64 // when it runs next
	order uint64
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
}

// stopped unwinds a process that is ended before it returned.
type stopped struct{}

// Go starts a process. Its name, with the seed, gives its random numbers.
func (s *Scheduler) Go(name string, f func(*Proc)) {
	h := fnv.New64a()
	h.Write([]byte(name))
	p := &Proc{Rand: rand.New(rand.NewPCG(s.seed, h.Sum64())), s: s}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if e := recover(); e != nil && e != any(stopped{}) {
				panic(e)
			}
		}()
		p.yield = yield
		f(p)
	})
	s.procs = append(s.procs, p)
	s.wake(p, s.Now)
}

func (s *Scheduler) wake(p *Proc, at uint64) {
	s.started++
	p.at, p.order = at, s.started
	heap.Push(&s.queue, p)
}

// Run runs all processes until the given time, or until none is left to run.
func (s *Scheduler) Run(until uint64) {
	for len(s.queue) > 0 && s.queue[0].at < until {
		p := heap.Pop(&s.queue).(*Proc)
		s.Now = p.at
		p.next()
	}
	s.Now = max(s.Now, until)
}

// Stop ends all processes.
func (s *Scheduler) Stop() {
	for _, p := range s.procs {
		p.stop()
	}
}

// Sleep lets d nanoseconds pass.
func (p *Proc) Sleep(d uint64) {
	p.s.wake(p, p.s.Now+d)
	p.wait()
}

// wait suspends the process until something wakes it.
func (p *Proc) wait() {
	if !p.yield(struct{}{}) {
		panic(stopped{})
	}
}

// Between returns a random number of [lo, hi].
func (p *Proc) Between(lo, hi uint64) uint64 { return lo + p.Uint64N(hi-lo+1) }

// Chance reports true n times in of.
func (p *Proc) Chance(n, of int) bool { return p.IntN(of) < n }

// Pause sleeps for a random time of [lo, hi].
func (p *Proc) Pause(lo, hi uint64) { p.Sleep(p.Between(lo, hi)) }

// A Mutex is a lock that processes get in the order in which they asked for it.
type Mutex struct {
	held    bool
	waiting []*Proc
}

// Lock waits until the mutex is free, and takes it.
func (m *Mutex) Lock(p *Proc) {
	if m.held {
		m.waiting = append(m.waiting, p)
		p.wait()
		return
	}
	m.held = true
}

// Unlock hands the mutex to the next process that waits for it.
func (m *Mutex) Unlock() {
	if len(m.waiting) == 0 {
		m.held = false
		return
	}
	p := m.waiting[0]
	m.waiting = m.waiting[1:]
	p.s.wake(p, p.s.Now)
}

// procQueue is a heap of the processes that wait for a time.
type procQueue []*Proc

func (q procQueue) Len() int { return len(q) }
func (q procQueue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].order < q[j].order
}
func (q procQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *procQueue) Push(x any)   { *q = append(*q, x.(*Proc)) }
func (q *procQueue) Pop() any {
	old := *q
	p := old[len(old)-1]
	*q = old[:len(old)-1]
	return p
}
