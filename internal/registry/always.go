package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// A grain that is always on has a second record beside its placement, and one with messages to send has their records.
// Where such a record is there and the placement is not, or is on a dead node, the grain sleeps, and the leader has a
// worker call it:
//
//	release, reaping, a new leader ──▶ sleeps ── a worker that has the kind calls it ──▶ placed ── once more ──▶ awake
//	                                     ▲ └── not placed yet: after 1, 2, 4 .. 60 s ─┘                         │
//	                                     └──── its activation ended within a minute: after 1, 2, 4 .. 60 s ─────┘
//
// The second call is for the death of the first worker between the placement and the call: it is one of a grain that is
// active, and does nothing.
const (
	alwaysPrefix  = "a/"
	alwaysVersion = 1
)

const (
	wakeAgain = time.Second // after which a grain is called again that has no place yet; then it doubles
	// WakeMost is the longest pause after a call without a place, and after an activation that has failed.
	WakeMost = time.Minute
	wakeSoon = 20 * time.Millisecond
)

// sleepers are the grains of one shard that sleep, or were woken a moment ago.
type sleepers struct {
	by    map[string]*sleeper // by namespace, kind and key
	rings int64               // when the next alarm rings, by the node's clock; 0: there is none
}

type sleeper struct {
	at    int64 // when it is looked at, by the node's clock
	woken int64 // when it was found awake; 0: it is not
	fails int   // activations in a row that ended soon
	calls int   // in a row after which it had no place
	last  bool  // it was called once more since it is placed
}

// wakeSleepers is the message that an alarm has rung.
type wakeSleepers int64

// findSleepers looks at all grains that are always on, or have messages: after a death, and as a leader begins.
func findSleepers(l *leader) {
	now := l.reg.cfg.Runner.Now()
	look := func(name string) {
		if _, _, placed := l.current("g/" + name); placed {
			return
		}
		if s := l.sleepers.by[name]; s == nil || s.woken != 0 || s.last {
			putToSleep(l, name, now)
		}
	}
	l.shard.Scan(alwaysPrefix, func(key string, _ shardlog.Record) bool {
		look(strings.TrimPrefix(key, alwaysPrefix))
		return true
	})
	last := ""
	l.shard.Scan(outboxPrefix, func(key string, _ shardlog.Record) bool {
		r := wire.NewReader([]byte(key[len(outboxPrefix):]))
		if name := r.String(); r.Err() == nil && name != last {
			last = name
			look(name)
		}
		return true
	})
}

// outboxPrefix begins the keys of messages; see sidePrefix.
const outboxPrefix = string(graindir.SideOutbox) + "/"

// wantsWaking reports whether a grain that is not active is to be: it is always on, or has messages to send.
func wantsWaking(l *leader, name string) (wants bool) {
	if _, always := l.shard.Get(alwaysPrefix + name); always {
		return true
	}
	l.shard.Scan(outboxPrefix+string(wire.AppendBytes(nil, name)), func(string, shardlog.Record) bool {
		wants = true
		return false
	})
	return wants
}

// placementEnded is when the placement of a grain was removed by its node. Where the grain was woken a moment before,
// its OnActivate has failed, or a panic has ended it: it is left alone for a while. A node that drains has done nothing
// wrong.
func placementEnded(l *leader, name string, by core.NodeKey) {
	if !wantsWaking(l, name) {
		delete(l.sleepers.by, name)
		return
	}
	now := l.reg.cfg.Runner.Now()
	s, n := l.sleepers.by[name], l.view().Find(by.Node)
	if s == nil || n == nil || n.Draining {
		putToSleep(l, name, now)
		return
	}
	pause := min(wakeAgain<<min(s.fails, 6), WakeMost)
	s.fails++
	putToSleep(l, name, core.After(now, pause))
}

// putToSleep has a grain woken at a time.
func putToSleep(l *leader, name string, at int64) {
	if l.sleepers.by == nil {
		l.sleepers.by = map[string]*sleeper{}
	}
	fails := 0
	if s := l.sleepers.by[name]; s != nil {
		fails = s.fails
	}
	l.sleepers.by[name] = &sleeper{at: at, fails: fails}
	ringForSleepers(l, at)
}

// ringForSleepers sets the alarm.
func ringForSleepers(l *leader, at int64) {
	now := l.reg.cfg.Runner.Now()
	if at = max(at, core.After(now, wakeSoon)); l.sleepers.rings != 0 && l.sleepers.rings <= at {
		return
	}
	l.sleepers.rings = at
	l.reg.cfg.Runner.After(time.Duration(at-now), func() {
		if l.shard.Err() == nil { // else the next leader looks at all
			l.post(wakeSleepers(at))
		}
	})
}

// callSleepers has workers call those that are due, up to due.MaxFired together.
func callSleepers(l *leader) {
	l.sleepers.rings = 0
	now := l.reg.cfg.Runner.Now()
	w, lists := dueWorld{l}, map[core.NodeKey][]due.Item{}
	var order []core.NodeKey // which a seed repeats
	workers := map[string]core.NodeKey{}
	var names []string
	for name, s := range l.sleepers.by {
		if s.at > now {
			ringForSleepers(l, s.at)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s := l.sleepers.by[name]
		_, _, placed := l.current("g/" + name)
		switch {
		case s.woken != 0 || !wantsWaking(l, name):
			delete(l.sleepers.by, name) // it has been awake for long
			continue
		case placed && s.last:
			s.woken, s.at = now, core.After(now, WakeMost)
			ringForSleepers(l, s.at)
			continue
		}
		s.last, s.at = placed, core.After(now, min(wakeAgain<<min(s.calls, 6), WakeMost))
		if !w.Ready() {
			s.last, s.at = false, core.After(now, wakeAgain)
			ringForSleepers(l, s.at)
			continue
		}
		item := due.Wake(name)
		of := item.Namespace + "\x00" + item.Kind()
		to, known := workers[of]
		if !known {
			to, _ = w.Worker("grain "+item.Kind(), item.Namespace) // zero: there is none yet
			workers[of] = to
		}
		if to == (core.NodeKey{}) {
			s.last, s.at, s.calls = false, core.After(now, wakeAgain), 0
			ringForSleepers(l, s.at)
			continue
		}
		ringForSleepers(l, s.at)
		s.calls++
		if lists[to] == nil {
			order = append(order, to)
		}
		if lists[to] = append(lists[to], item); len(lists[to]) == due.MaxFired {
			delete(workers, of) // others go to another worker
		}
	}
	for _, to := range order {
		for list := range slices.Chunk(lists[to], due.MaxFired) {
			l.reg.cfg.Fire(to, list, func([]due.Item, error) {}) // what is refused has no place, and is called again
		}
	}
}
