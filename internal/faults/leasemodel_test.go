package faults_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/long"
)

// A model of how a silent host is replaced (package member), small enough to draw tens of thousands of histories of
// it: promises of electors, the guard that names them, ballots and the verdict. Clocks differ in rate, hosts pause,
// die and are cut off, messages and the store are late. Times are in seconds.
const (
	modelPromise = 3.8  // an elector agrees to no verdict until it heard nothing for so long, by its own clock
	modelAccuse  = 4.2  // silence after which a host accuses
	modelCover   = 0.98 // of a promise, for clocks of different rates
	modelEnd     = 60.0
	modelNever   = 1e18
)

// defects are the rules of the protocol, each with what the model does when it is left out.
var defects = map[string]string{
	"mute":    "an elector that agreed goes on answering pings",
	"forgets": "an elector that agreed answers pings again as soon as it hears one",
	"index":   "a verdict does not check the number of the guard",
	"ring":    "an accuser asks hosts of its own choice, not those that the guard names",
	"fewer":   "the victim needs one promise less",
	"receipt": "a promise runs from when the pong came, not from when the ping was sent",
	"joint":   "while a write of the guard is under way the old set alone counts",
	"ahead":   "while a write of the guard is under way the new set counts already",
}

// modelHost is a host. What it knows is by its own clock.
type modelHost struct {
	rate   float64      // of its clock
	pauses [][2]float64 // from and to
	moves  []float64    // when it changes the side of the partition
	dies   float64
	heard  float64 // when it last heard the victim
	ballot int     // the number of the guard for which it agreed to a verdict and answers no ping; 0: none
}

// modelGuard is the victim's key guards/<incarnation>: whom it named as its electors, and the ModifyIndex.
type modelGuard struct {
	electors []int
	number   int
}

type modelEvent struct {
	at float64
	f  func()
}

// leaseHistory is one drawn history. It looks for the victim answering a read from memory after its session has
// ended.
type leaseHistory struct {
	rng         *rand.Rand
	defect      string
	now         float64
	events      []modelEvent // that will happen, the earliest first
	hosts       []*modelHost // hosts[0] is the victim
	reads, late int

	guard modelGuard // in the store
	ended float64    // when a verdict ended the victim's session

	known   []int           // electors, as the victim knows them
	written [][]int         // sets that a write under way may have made the guard
	writing bool            // a write of the guard is under way
	pinged  map[int]float64 // by elector: when the last ping was sent that it answered, by the victim's clock
}

// playHistory draws hosts and faults and lets them happen.
func playHistory(seed uint64, defect string) *leaseHistory {
	h := &leaseHistory{rng: rand.New(rand.NewPCG(seed, 1)), defect: defect, ended: modelNever, pinged: map[int]float64{}}
	for i := range 2 + h.rng.IntN(5) {
		host := &modelHost{rate: 0.99 + h.draw(0.02), dies: modelNever}
		for to := 5.0; to < modelEnd; {
			from := to + h.draw(20)
			to = from + h.draw([]float64{2, 2, 9}[h.rng.IntN(3)])
			host.pauses = append(host.pauses, [2]float64{from, to})
		}
		for at := h.draw(20); at < modelEnd && h.rng.IntN(3) > 0; at += h.draw(12) {
			host.moves = append(host.moves, at)
		}
		if i > 0 && h.rng.IntN(5) == 0 {
			host.dies = 5 + h.draw(50)
		}
		h.hosts = append(h.hosts, host)
	}
	h.known = h.choose(3)
	h.guard = modelGuard{h.known, 1}
	h.at(0, h.ping)
	h.at(0, h.read)
	h.at(1, h.rewriteGuard)
	for i := range h.hosts[1:] {
		h.at(h.draw(0.2), func() { h.accuse(i + 1) })
		h.at(h.draw(0.3), func() { h.voidBallot(i + 1) })
	}
	for h.events[0].at <= modelEnd {
		e := h.events[0]
		h.events = h.events[1:]
		h.now = e.at
		e.f()
	}
	return h
}

func (h *leaseHistory) draw(below float64) float64 { return below * h.rng.Float64() }

// choose draws up to n hosts besides the victim.
func (h *leaseHistory) choose(n int) []int {
	drawn := h.rng.Perm(len(h.hosts))
	drawn = slices.DeleteFunc(drawn, func(i int) bool { return i == 0 })
	return drawn[:min(n, len(drawn))]
}

func (h *leaseHistory) at(t float64, f func()) {
	i, _ := slices.BinarySearchFunc(h.events, t, func(e modelEvent, t float64) int { return cmp.Compare(e.at, t) })
	h.events = slices.Insert(h.events, i, modelEvent{t, f})
}

// on has host i do f at t, or once it does not pause, if it lives then.
func (h *leaseHistory) on(i int, t float64, f func()) {
	for _, p := range h.hosts[i].pauses {
		if t >= p[0] && t < p[1] {
			t = p[1]
		}
	}
	if t < h.hosts[i].dies {
		h.at(t, f)
	}
}

func (h *leaseHistory) clock(i int) float64 { return h.now * h.hosts[i].rate }

// send brings f to host j: late at times, and not before they are on one side of the partition, as TCP does.
func (h *leaseHistory) send(i, j int, f func()) {
	t := h.now + h.draw(0.01)
	if h.rng.IntN(20) == 0 {
		t = h.now + h.draw(3)
	}
	moves := func(k int) int { n, _ := slices.BinarySearch(h.hosts[k].moves, t); return n }
	for ; moves(i)%2 != moves(j)%2; t += 0.3 {
		if t > modelEnd {
			return
		}
	}
	h.on(j, t, f)
}

// ask has the store do something for host i, which then learns of it; either may be very late.
func (h *leaseHistory) ask(i int, do, learn func()) {
	late := func() float64 {
		if h.rng.IntN(6) == 0 {
			return h.draw(6)
		}
		return 0.002 + h.draw(0.02)
	}
	h.at(h.now+late(), func() {
		do()
		h.on(i, h.now+late(), learn)
	})
}

// modelQuorum is how many of n electors can end the victim.
func modelQuorum(n int) int {
	if n < 3 {
		return n
	}
	return n/2 + 1
}

// promised reports whether the promises of a set hold, of so many that the others cannot end the victim.
func (h *leaseHistory) promised(electors []int) bool {
	need := len(electors) - modelQuorum(len(electors)) + 1
	if h.defect == "fewer" {
		need--
	}
	for _, j := range electors {
		if sent, ok := h.pinged[j]; ok && h.clock(0) < sent+modelPromise*modelCover {
			need--
		}
	}
	return need <= 0
}

// read is one that the victim answers from memory if it may.
func (h *leaseHistory) read() {
	h.on(0, h.now+0.02, h.read)
	if !h.promised(h.known) || h.defect != "joint" && slices.ContainsFunc(h.written, func(set []int) bool { return !h.promised(set) }) {
		return
	}
	h.reads++
	if h.now > h.ended {
		h.late++
	}
}

// ping is the victim's, to all others. Its electors promise by the pong.
func (h *leaseHistory) ping() {
	h.on(0, h.now+0.2, h.ping)
	sent := h.clock(0)
	for j := 1; j < len(h.hosts); j++ {
		h.send(0, j, func() {
			elector := h.hosts[j]
			elector.heard = h.clock(j)
			if elector.ballot > 0 && h.defect != "mute" && h.defect != "forgets" {
				return
			}
			if h.defect == "forgets" {
				elector.ballot = 0
			}
			h.send(j, 0, func() {
				from := sent
				if h.defect == "receipt" {
					from = h.clock(0)
				}
				h.pinged[j] = max(h.pinged[j], from)
			})
		})
	}
}

// rewriteGuard writes the victim's guard anew, with the same electors or others. Until the outcome is known, either
// set may be in force.
func (h *leaseHistory) rewriteGuard() {
	h.on(0, h.now+0.3+h.draw(6), h.rewriteGuard)
	if h.writing {
		return
	}
	set := h.known
	if h.rng.IntN(2) == 0 {
		set = h.choose(1 + h.rng.IntN(3))
	}
	h.writing = true
	h.written = append(h.written, set)
	if h.defect == "ahead" {
		h.known = set
	}
	done := false
	h.ask(0, func() {
		if done = h.now < h.ended; done {
			h.guard = modelGuard{set, h.guard.number + 1}
		}
	}, func() {
		h.writing = false
		if done {
			h.known, h.written = set, nil
		}
	})
}

// voidBallot has an elector that agreed answer pings again, once it has read a later guard than it agreed for.
func (h *leaseHistory) voidBallot(j int) {
	h.on(j, h.now+0.3, func() { h.voidBallot(j) })
	elector, number := h.hosts[j], 0
	if elector.ballot == 0 {
		return
	}
	h.ask(j, func() { number = h.guard.number }, func() {
		if number > elector.ballot {
			elector.ballot = 0
		}
	})
}

// agrees is an elector's answer to an accuser: it withholds its pongs first, and looks for silence then.
func (h *leaseHistory) agrees(j, number int) bool {
	elector := h.hosts[j]
	before := elector.ballot
	elector.ballot = max(before, number)
	if h.clock(j)-elector.heard < modelPromise {
		elector.ballot = before
		return false
	}
	return true
}

// accuse has host i, while it does not hear the victim, ask the electors that the guard names and write the verdict
// when enough agree.
func (h *leaseHistory) accuse(i int) {
	again := func() { h.on(i, h.now+0.2, func() { h.accuse(i) }) }
	if h.clock(i)-h.hosts[i].heard < modelAccuse || h.ended < modelNever {
		again()
		return
	}
	var guard modelGuard
	h.ask(i, func() { guard = h.guard }, func() {
		again()
		if h.defect == "ring" {
			guard.electors = h.choose(3)
		}
		agreed := 0
		agrees := func() {
			if agreed++; agreed == modelQuorum(len(guard.electors)) {
				h.ask(i, func() {
					if h.guard.number == guard.number || h.defect == "index" {
						h.ended = min(h.ended, h.now)
					}
				}, func() {})
			}
		}
		for _, j := range guard.electors {
			if j == i && h.agrees(j, guard.number) {
				agrees()
			} else if j != i {
				h.send(i, j, func() {
					if h.agrees(j, guard.number) {
						h.send(j, i, agrees)
					}
				})
			}
		}
	})
}

// TestLeaseModel: in no history does the victim answer from memory after its session has ended, and each rule of the
// protocol is needed for that.
func TestLeaseModel(t *testing.T) {
	histories := long.Form(2000, 20_000)
	t.Run("all rules", func(t *testing.T) {
		ended, reads := 0, 0
		for seed := range histories {
			h := playHistory(uint64(seed), "")
			if h.late > 0 {
				t.Errorf("history %d: %d of %d reads came after the end of the session", seed, h.late, h.reads)
			}
			if reads += h.reads; h.ended < modelNever {
				ended++
			}
		}
		figure(t, "%d drawn histories of one host, its electors and verdicts: it was evicted in %d; %d reads from memory, 0 after its session had ended", histories, ended, reads)
		if ended < histories/2 || reads < 100*histories {
			t.Error("too few evictions or reads: this shows nothing")
		}
	})
	for name, what := range defects {
		t.Run(name, func(t *testing.T) {
			bad, drawn := 0, 0
			for ; drawn < histories && (bad == 0 || long.Form(false, true)); drawn++ {
				if playHistory(uint64(drawn), name).late > 0 {
					bad++
				}
			}
			t.Logf("%s: %d of %d histories have a read after the end of the session", what, bad, drawn)
			if bad == 0 {
				t.Error("no history shows it")
			}
		})
	}
}
