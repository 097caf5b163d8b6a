package member_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// TestPromisesHold is the law behind every answer from memory (C16, C20): while Promised is true the session lives, and when
// Admit returns nil it lived after Admit was called. It holds over drawn plans: partitions, one-way too, pauses of up to 12 s,
// clocks that run 1 % fast or slow and jump, a store that takes up to 6 s, outcomes that are unknown and changes that land late,
// members that join, drain, die and come again. A failing seed is its subtest's name: -first SEED -rounds 1.
func TestPromisesHold(t *testing.T) {
	rounds := cmp.Or(*rounds, long.Form(40, 10000))
	var all lawCounts
	for seed := *first; seed < *first+rounds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLaw(t, uint64(seed))
				l.play()
				all.add(l.counts)
			})
		})
	}
	t.Logf("%d rounds: %+v", rounds, all)
	if all.fast < rounds/4 || all.promised < all.looks/3 || all.admitted == 0 || all.slow == 0 && rounds > 100 {
		t.Errorf("%d rounds, %+v: this tests too little", rounds, all)
	}
}

// lawCounts say what a plan came to.
type lawCounts struct{ looks, promised, admitted, refused, fast, slow, rewrites int }

func (c *lawCounts) add(o lawCounts) {
	c.looks += o.looks
	c.promised += o.promised
	c.admitted += o.admitted
	c.refused += o.refused
	c.fast += o.fast
	c.slow += o.slow
	c.rewrites += o.rewrites
}

// law is a cluster whose frames are events: each ping and each pong travels, late or never.
type law struct {
	t     *testing.T
	kv    store.KV
	plan  *rand.Rand // of the planner alone
	ended chan struct{}
	work  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	r      *rand.Rand
	ends   map[string]*lawEnd // the current incarnations
	lost   map[way]bool
	coming map[string]bool // names that are joining
	calm   bool            // the store and the links are fast
	away   bool            // no call to the store returns
	story  []string
	counts lawCounts
}

// lawEnd is one life of a node.
type lawEnd struct {
	law   *law
	name  string
	m     *member.Member
	gate  *gate
	clock *testClock
	kv    *lawKV

	mu       sync.Mutex // guards what follows
	dead     bool
	paused   bool
	asking   bool
	heard    map[string]time.Duration // when the last frame of a node came, by the own clock
	answered map[uint64]lawPing
	withheld map[uint64]bool
	brisk    map[uint64]bool
}

// lawPing is when a ping was sent.
type lawPing struct {
	mono time.Duration
	wall time.Time
}

func newLaw(t *testing.T, seed uint64) *law {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Txn(context.Background(), []store.Op{store.Set("config", []byte(fmt.Sprintf(`{"id":%q}`, clusterID)))}); err != nil {
		t.Fatal(err)
	}
	return &law{
		t: t, kv: kv, plan: rand.New(rand.NewPCG(seed, 1)), r: rand.New(rand.NewPCG(seed, 2)), ended: make(chan struct{}),
		ends: map[string]*lawEnd{}, lost: map[way]bool{}, coming: map[string]bool{},
	}
}

// draw is a number below n.
func (l *law) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}

func (l *law) drawUpTo(d time.Duration) time.Duration { return time.Duration(l.draw(int(d) + 1)) }

func (l *law) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.story = append(l.story, fmt.Sprintf("%6.2fs ", time.Since(bubbleBegan).Seconds())+fmt.Sprintf(format, args...))
}

// current are the ends that live.
func (l *law) current() (list []*lawEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ends {
		list = append(list, e)
	}
	return list
}

func (l *law) end(name raysys.NodeID) *lawEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends[string(name)]
}

// carry brings something from one node to another: late, after a pause of the receiver, or never where the way stays cut.
func (l *law) carry(from, to *lawEnd, arrived func()) {
	late := l.drawUpTo(10 * time.Millisecond)
	if !l.calm && l.draw(20) == 0 {
		late = l.drawUpTo(3 * time.Second)
	}
	tries := 0
	var attempt func()
	attempt = func() {
		l.mu.Lock()
		lost := l.lost[way{from.name, to.name}]
		l.mu.Unlock()
		if lost { // it is sent again, as TCP does
			if tries++; tries < 100 {
				time.AfterFunc(300*time.Millisecond, attempt)
			}
			return
		}
		to.gate.pass()
		to.mu.Lock()
		dead := to.dead
		to.mu.Unlock()
		if !dead {
			arrived()
		}
	}
	time.AfterFunc(late, attempt)
}

// pingAll is what all links do.
func (l *law) pingAll() {
	for tick := 0; ; tick++ {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-l.ended:
			return
		}
		ends := l.current()
		for _, a := range ends {
			for _, b := range ends {
				if a != b {
					a.ping(b, tick)
				}
			}
		}
	}
}

func (e *lawEnd) ping(to *lawEnd, tick int) {
	e.mu.Lock()
	runs, every := !e.dead && !e.paused, 5
	if e.brisk[to.m.Incarnation()] {
		every = 2
	}
	e.mu.Unlock()
	if !runs || tick%every != 0 {
		return
	}
	sent := lawPing{e.clock.Mono(), e.clock.Wall()}
	e.law.carry(e, to, func() {
		to.mu.Lock()
		to.heard[e.name] = to.clock.Mono()
		mute := to.withheld[e.m.Incarnation()]
		to.mu.Unlock()
		if mute {
			return
		}
		to.law.carry(to, e, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.heard[to.name] = e.clock.Mono()
			if e.answered[to.m.Incarnation()].mono < sent.mono {
				e.answered[to.m.Incarnation()] = sent
			}
		})
	})
}

// Silence implements member.Prober, and so do the next ones.
func (e *lawEnd) Silence(id raysys.NodeID) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.heard[string(id)]
	return e.clock.Mono() - at, ok
}

func (e *lawEnd) Answered(_ raysys.NodeID, incarnation uint64) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent, ok := e.answered[incarnation]
	return max(e.clock.Mono()-sent.mono, e.clock.Wall().Sub(sent.wall)), ok
}

func (e *lawEnd) Withhold(_ raysys.NodeID, incarnation uint64, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.withheld[incarnation] = on
}

func (e *lawEnd) PingBriskly(nodes []member.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.brisk = map[uint64]bool{}
	for _, n := range nodes {
		e.brisk[n.Incarnation] = true
	}
}

func (e *lawEnd) Relayed(raysys.NodeID) bool { return false }

func (e *lawEnd) Linked(id raysys.NodeID, incarnation uint64) bool {
	to := e.law.end(id)
	return to != nil && to.m.Incarnation() == incarnation && e.law.open(e, to)
}

func (l *law) open(a, b *lawEnd) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost[way{a.name, b.name}] && !l.lost[way{b.name, a.name}]
}

func (e *lawEnd) Redial(ctx context.Context, n member.Node) error {
	to := e.law.end(n.ID)
	if to == nil || !e.law.open(e, to) {
		<-ctx.Done()
		return ctx.Err()
	}
	to.mu.Lock()
	dead := to.dead
	to.mu.Unlock()
	if dead || to.m.Incarnation() != n.Incarnation {
		return member.ErrNotListening
	}
	return nil
}

// Ask implements member.Ballots.
func (e *lawEnd) Ask(ctx context.Context, monitor, victim member.Node, guard uint64) (bool, error) {
	to := e.law.end(monitor.ID)
	if to == nil || to.m.Incarnation() != monitor.Incarnation {
		return false, errors.New("it is gone")
	}
	answer := make(chan bool, 1)
	e.law.carry(e, to, func() {
		agrees := to.m.Ballot(victim.ID, victim.Incarnation, guard)
		to.law.carry(to, e, func() { answer <- agrees })
	})
	select {
	case agrees := <-answer:
		return agrees, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// lawKV is a node's way to the store: slow now and then, and then outcomes are unknown and changes land late.
type lawKV struct {
	store.KV
	law *law

	mu  sync.Mutex // guards bad
	bad bool       // every call is slow
}

func (k *lawKV) late() time.Duration {
	k.mu.Lock()
	bad := k.bad
	k.mu.Unlock()
	if !k.law.calm && (bad || k.law.draw(8) == 0) {
		return k.law.drawUpTo(6 * time.Second)
	}
	return 2*time.Millisecond + k.law.drawUpTo(20*time.Millisecond)
}

func (k *lawKV) call(ctx context.Context, writes bool, do func() error) error {
	there, back := k.late(), k.late()
	done := make(chan error, 1)
	k.law.work.Go(func() {
		<-time.After(there)
		if k.law.isAway() {
			return // nobody hears of it
		}
		err := do()
		<-time.After(back)
		done <- err
	})
	lost := error(store.ErrUnavailable)
	if writes {
		lost = store.ErrUnknownOutcome
	}
	var soon <-chan time.Time
	if !k.law.calm && k.law.draw(25) == 0 {
		soon = time.After(k.law.drawUpTo(time.Second))
	}
	select {
	case err := <-done:
		return err
	case <-soon:
		return lost
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
}

func (k *lawKV) Txn(ctx context.Context, ops []store.Op) (pairs []store.Pair, err error) {
	writes := false
	for _, o := range ops {
		writes = writes || o.Verb.Writes()
	}
	got := make(chan []store.Pair, 1)
	err = k.call(ctx, writes, func() error {
		p, err := k.KV.Txn(context.Background(), ops)
		got <- p
		return err
	})
	if err == nil {
		pairs = <-got
	}
	return pairs, err
}

func (k *lawKV) Renew(ctx context.Context, session string) error {
	return k.call(ctx, true, func() error { return k.KV.Renew(context.Background(), session) })
}

func (k *lawKV) Destroy(ctx context.Context, session string) error {
	return k.call(ctx, true, func() error { return k.KV.Destroy(context.Background(), session) })
}

func (k *lawKV) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	return k.KV.NewSession(ctx, name, 2*ttl) // as Consul may
}

// join makes a new life of a node.
func (l *law) join(ctx context.Context, name string, role member.Role) {
	l.mu.Lock()
	busy := l.coming[name]
	l.coming[name] = true
	l.mu.Unlock()
	if busy {
		return
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.coming, name)
	}()
	e := &lawEnd{
		law: l, name: name, kv: &lawKV{KV: l.kv, law: l}, clock: &testClock{rate: 0.99 + 0.02*float64(l.draw(1001))/1000},
		heard: map[string]time.Duration{}, answered: map[uint64]lawPing{}, withheld: map[uint64]bool{}, brisk: map[uint64]bool{},
	}
	e.gate = &gate{KV: e.kv}
	e.clock.gate = e.gate
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m, err := member.Join(ctx, member.Config{
		KV: e.gate, TTL: ttl, Cluster: "law", ClusterID: clusterID, Shards: 1, Clock: e.clock, Prober: e, Ballots: e,
		Self:   member.Info{ID: raysys.NodeID(name), Address: fmt.Sprintf("%s:%d", name, l.draw(60000)+1), Role: role},
		Jitter: func() float64 { return float64(l.draw(1000)) / 1000 },
		OnState: func(s member.State, cause error) {
			l.note("%s is %v", name, s)
		},
		OnEvent: func(ev member.Event) {
			switch ev.Kind {
			case member.Evicted:
				l.note("%s: %s %s (%d): %s", name, ev.Kind, ev.Node, ev.Incarnation, ev.Why)
				l.mu.Lock()
				defer l.mu.Unlock()
				if strings.Contains(ev.Why, "by its electors") {
					l.counts.fast++
				} else {
					l.counts.slow++
				}
			case member.Destroyed, member.DeathProven, member.PromiseOut, member.PromiseBack:
				l.note("%s: %s %s (%d) %s", name, ev.Kind, ev.Node, ev.Incarnation, ev.Why)
			}
		},
	})
	if err != nil {
		l.note("%s does not join: %v", name, err)
		return
	}
	l.note("%s joins as %d", name, m.Incarnation())
	e.m = m
	l.mu.Lock()
	l.ends[name] = e
	l.mu.Unlock()
}

// look checks the law for one node at one moment.
func (l *law) look(e *lawEnd) {
	e.mu.Lock()
	runs, asking := !e.dead && !e.paused, e.asking
	e.mu.Unlock()
	if !runs {
		return
	}
	lives, err := l.kv.Session(context.Background(), e.m.Session())
	if err != nil {
		l.t.Error(err)
	}
	promised := e.m.Promised()
	l.mu.Lock()
	if l.counts.looks++; promised {
		l.counts.promised++
	}
	l.mu.Unlock()
	if promised && !lives {
		l.note("%s answers from memory after its end", e.name)
		l.t.Errorf("%s (%d) may answer from memory, and its session is gone", e.name, e.m.Incarnation())
	}
	if promised || asking || e.m.State() != member.Active {
		return
	}
	e.mu.Lock()
	e.asking = true
	e.mu.Unlock()
	l.work.Go(func() {
		err := e.m.Admit(context.Background())
		e.mu.Lock()
		e.asking = false
		e.mu.Unlock()
		l.mu.Lock()
		if err == nil {
			l.counts.admitted++
		} else {
			l.counts.refused++
		}
		l.mu.Unlock()
		if err == nil && !lives {
			l.note("%s was admitted after its end", e.name)
			l.t.Errorf("%s (%d) was admitted, and its session was gone before it asked", e.name, e.m.Incarnation())
		}
	})
}

func (l *law) lookAll() {
	for {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-l.ended:
			return
		}
		for _, e := range l.current() {
			l.look(e)
		}
	}
}

// pause stops a process for a time.
func (l *law) pause(e *lawEnd, d time.Duration) {
	e.mu.Lock()
	busy := e.paused || e.dead
	e.paused = true
	e.mu.Unlock()
	if busy {
		return
	}
	l.note("%s pauses for %v", e.name, d)
	e.gate.shut()
	l.work.Go(func() {
		<-time.After(d)
		e.mu.Lock()
		e.paused = false
		e.mu.Unlock()
		e.gate.open()
	})
}

// kill ends a process: its links are reset.
func (l *law) kill(e *lawEnd) {
	e.mu.Lock()
	dead := e.dead
	e.dead = true
	e.mu.Unlock()
	if dead {
		return
	}
	l.note("%s dies", e.name)
	e.gate.open()
	e.m.Abandon()
	for _, o := range l.current() {
		if o != e && o.m != nil {
			o.m.LinkReset(raysys.NodeID(e.name), e.m.Incarnation())
		}
	}
}

// play runs one plan.
func (l *law) play() {
	ctx, cancel := context.WithCancel(context.Background())
	names := strings.Split("abcdefghi", "")[:2+l.plan.IntN(8)]
	for _, name := range names {
		l.join(ctx, name, member.Worker)
	}
	l.work.Go(l.pingAll)
	l.work.Go(l.lookAll)
	<-time.After(3 * time.Second)
	upTo := func(d time.Duration) time.Duration { return time.Duration(l.plan.Int64N(int64(d))) }
	for until := time.Now().Add(60 * time.Second); time.Now().Before(until); <-time.After(upTo(2 * time.Second)) {
		name := names[l.plan.IntN(len(names))]
		e := l.end(raysys.NodeID(name))
		if e == nil {
			l.work.Go(func() { l.join(ctx, name, member.Worker) })
			continue
		}
		switch k := l.plan.IntN(20); {
		case e.m.State() == member.Fenced, k == 0:
			l.kill(e)
			role := member.Worker
			if l.plan.IntN(8) == 0 {
				role = member.Driver
			}
			l.work.Go(func() { l.join(ctx, name, role) })
		case k < 7:
			d := upTo(2 * time.Second)
			if l.plan.IntN(2) == 0 {
				d = upTo(12 * time.Second)
			}
			l.pause(e, d)
		case k < 11:
			l.mu.Lock()
			for _, o := range names {
				if l.plan.IntN(2) == 0 && o != name {
					l.lost[way{name, o}] = true
					if l.plan.IntN(3) > 0 {
						l.lost[way{o, name}] = true
					}
				}
			}
			l.mu.Unlock()
			l.note("%s is cut off: %v", name, l.lost)
		case k < 14:
			l.mu.Lock()
			clear(l.lost)
			l.mu.Unlock()
			l.note("heal")
		case k < 15:
			by := upTo(time.Minute) - 30*time.Second
			l.note("the wall clock of %s jumps by %v", name, by)
			e.clock.jump(by)
		case k < 17:
			e.kv.mu.Lock()
			e.kv.bad = !e.kv.bad
			e.kv.mu.Unlock()
		default:
			draining := l.plan.IntN(2) == 0
			l.note("%s drains: %v", name, draining)
			l.work.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				_ = e.m.Update(ctx, func(i *member.Info) { i.Draining = draining })
			})
		}
	}
	cancel()
	l.close()
}

// close ends the plan.
func (l *law) close() {
	close(l.ended)
	for range 2 { // the second time those who were joining
		for _, e := range l.current() {
			e.gate.open()
			e.m.Abandon()
		}
		l.work.Wait()
	}
	if err := l.kv.Close(); err != nil {
		l.t.Error(err)
	}
	if l.t.Failed() {
		l.t.Logf("%s", strings.Join(l.story, "\n"))
	}
}

// TestAnHourOfPauses: five nodes, each of which stops for a second every ten, while five times no call to the store returns for
// five seconds, as in an election of Consul's servers: nobody is evicted or suspended, and nothing that asks to be admitted is
// refused.
func TestAnHourOfPauses(t *testing.T) {
	lasts := long.Form(5*time.Minute, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		l := newLaw(t, 1)
		l.calm = true
		names := strings.Split("abcde", "")
		for _, name := range names {
			l.join(context.Background(), name, member.Worker)
		}
		l.work.Go(l.pingAll)
		l.work.Go(l.lookAll)
		<-time.After(5 * time.Second)
		for tick, until := 0, time.Now().Add(lasts); time.Now().Before(until); tick++ {
			l.pause(l.end(raysys.NodeID(names[tick%5])), time.Second)
			if tick%int(lasts/(2*time.Second)/5) == 3 {
				l.setAway(true)
				time.AfterFunc(5*time.Second, func() { l.setAway(false) })
			}
			<-time.After(2 * time.Second)
		}
		for _, e := range l.current() {
			if s := e.m.State(); s != member.Active {
				t.Errorf("%s is %v", e.name, s)
			}
		}
		l.close()
		if l.counts.fast+l.counts.slow+l.counts.refused > 0 {
			t.Errorf("%+v", l.counts)
		}
		for _, line := range l.story {
			if strings.Contains(line, "suspended") {
				t.Error(line)
			}
		}
		t.Logf("%+v", l.counts)
	})
}

func (l *law) isAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// setAway has no call to the store return.
func (l *law) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}
