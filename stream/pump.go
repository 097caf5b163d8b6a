package stream

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/stream/internal/bus"
)

// pump reads one part of a subscription and has its events delivered: for each grain one after the other, for all of them at the same time.
//
//	bus ── reader ──┬── target alice ── event in flight, events that wait
//	                ├── target bob: is slow ── some events; later ones are left in the bus, and read again
//	                └── target carol: fails ── the number of an event; it and later ones are left in the bus
type pump struct {
	id        uint64
	n         *node
	s         *subscription
	partition int
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	checked   atomic.Uint64 // the connection over which the stream was last found to be the same

	mu      sync.Mutex // guards the rest
	room    sync.Cond  // held or busy has fallen
	targets map[string]*target
	busy    int       // targets with events that were not taken
	ready   []*target // they have no goroutine, and wait for room to read what they left in the bus
	starved bool      // there is none for the first of them
	held    load      // in memory
	again   load      // part of it: of events that were left in the bus before
	from    position  // where it began. Its Made is 0 until the stream was found.
	read    uint64    // all events up to it were read: they were taken, or a target has them, or will read them
	seen    bus.Mark  // the event that was read last
	stats   stats
}

// stats are what `raysys list streams` shows.
type stats struct {
	taken   uint64
	parked  uint64
	dropped uint64
	pending uint64 // events behind the one that was read last
	rate    float64
	copies  copies // of the stream, by the agent of part 0
}

// maxIdle bounds the idle targets whose last event is remembered.
const maxIdle = 10_000

// newPump starts to deliver the events after a position.
func newPump(n *node, s *subscription, partition int, at position) *pump {
	p := &pump{id: rand.Uint64(), n: n, s: s, partition: partition, targets: map[string]*target{}, from: at, read: at.Floor}
	p.seen = bus.Mark{Seq: max(at.Last, at.Floor), Time: at.Time} // positions that older versions have stored have no Last
	p.room.L = &p.mu
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	n.mu.Lock()
	n.pumps[p] = true
	n.mu.Unlock()
	p.wg.Go(p.run)
	p.wg.Go(p.keep)
	if partition == 0 {
		p.wg.Go(p.replicate)
	}
	context.AfterFunc(p.ctx, p.wakeReader)
	return p
}

// stop ends the pump, and returns how far it is.
func (p *pump) stop() position {
	p.mu.Lock()
	p.cancel() // under mu: no alarm of a target begins anything from here on
	for _, t := range p.targets {
		if t.alarm != nil {
			t.alarm.Stop()
		}
	}
	p.mu.Unlock()
	p.wg.Wait()
	p.n.mu.Lock()
	delete(p.n.pumps, p)
	p.n.mu.Unlock()
	return p.at()
}

// at is the stream, and the number up to which all events were taken.
func (p *pump) at() position {
	p.mu.Lock()
	defer p.mu.Unlock()
	low := p.read + 1
	for _, t := range p.targets {
		if t.busy {
			low = min(low, t.low())
		}
	}
	at := p.from
	at.Floor, at.Last, at.Time = low-1, p.seen.Seq, p.seen.Time
	return at
}

// generationOf is the generation of the event with that number.
func (p *pump) generationOf(seq uint64) int {
	if n := p.from.Generation; seq > p.from.Since || n == 0 {
		return n
	}
	return p.from.Generation - 1
}

// run reads the part, until the pump ends, or has to begin anew.
func (p *pump) run() {
	p.insist("the events of a stream cannot be read: it is tried again", func() error {
		b, anew, err := p.check()
		if err != nil || anew {
			return err
		}
		p.mu.Lock()
		f := bus.Filter{Partition: p.partition, Made: p.from.Made, Seen: p.seen}
		from := p.read + 1
		p.mu.Unlock()
		err = b.Read(p.ctx, p.n.nameOf(p.s.d), f, from, 0, p.take)
		p.n.missed(p.s.d, err)
		return err
	})
}

// check has the agent begin anew where the stream is not the one that was there before, or lacks events: this pump does nothing more with the
// stream then. The client of NATS would go on with the old numbers.
func (p *pump) check() (b bus.Bus, anew bool, err error) {
	if b, err = p.n.ensure(p.ctx, p.s.d); err != nil {
		return nil, false, err
	}
	name, connects := p.n.nameOf(p.s.d), p.n.connects()
	info, err := b.Info(p.ctx, name)
	if err != nil {
		p.n.missed(p.s.d, err)
		return nil, false, err
	}
	p.mu.Lock()
	if p.from.Made == 0 {
		p.from.Made = info.Made
	}
	made, seen := p.from.Made, p.seen
	p.mu.Unlock()
	to := position{}
	if made == info.Made {
		err := checkSeen(p.ctx, b, name, made, seen)
		if err == nil {
			p.checked.Store(connects)
		}
		if !errors.Is(err, bus.ErrOtherStore) {
			return b, false, err
		}
		if to, err = p.older(b, info); err != nil {
			return nil, false, err
		}
	}
	return b, true, again.Tell(p.ctx, p.agent(), saved{p.id, to})
}

// older is where to go on with an older store: with the first event that was stored after the last one that was read. Events up to that one are
// those that were there before, so grains that have not taken them get them.
func (p *pump) older(b bus.Bus, info bus.Info) (position, error) {
	at := p.at()
	first, last, err := firstAfter(p.ctx, b, p.n.nameOf(p.s.d), bus.Filter{Partition: p.partition, Made: at.Made}, info, at.Time)
	if err != nil {
		return at, err
	}
	return position{
		Made: at.Made, Floor: min(at.Floor, first-1), Last: last.Seq, Time: last.Time, Generation: at.Generation + 1, Since: first - 1, Began: time.Now().Unix(),
	}, nil
}

// insist calls f again after a pause, until it returns nil or the pump ends, and says why in the log, once.
func (p *pump) insist(trouble string, f func() error) {
	said, pause := "", backoff.Doubling{First: firstPause, Longest: 10 * time.Second, Draw: rand.Float64}
	for {
		err := f()
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			p.log().Warn(trouble, "error", said)
		}
		if !pause.Wait(p.ctx) {
			return
		}
	}
}

// firstPause is the pause after the first attempt at anything.
const firstPause = 100 * time.Millisecond

// take gives an event to its target.
func (p *pump) take(m bus.Message) bool {
	key, err := p.s.target(&m)
	l := loadOf(&m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		key = "" // it is parked, in a row with its like
	}
	t := p.targets[key]
	wait, leave := p.roomFor(t, l)
	for wait > 0 && p.ctx.Err() == nil {
		alarm := time.AfterFunc(wait, p.wakeReader)
		p.room.Wait()
		alarm.Stop()
		t = p.targets[key]
		wait, leave = p.roomFor(t, l)
	}
	if p.ctx.Err() != nil {
		return false
	}
	p.read, p.seen, p.stats.pending = m.Seq, bus.Mark{Seq: m.Seq, Time: m.Time.UnixNano()}, m.Pending
	if leave {
		if !t.behind {
			t.behind, t.next = true, m.Seq
		}
		t.last = m.Seq
		t.left++
		return true
	}
	if t == nil {
		p.forget()
		t = &target{p: p, key: key}
		p.targets[key] = t
	}
	t.push(item{Message: m, bad: err, load: l, at: time.Now()})
	if !t.busy {
		t.busy = true
		p.busy++
		p.wg.Go(t.run)
	}
	return true
}

func (p *pump) wakeReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room.Broadcast()
}

// forget drops an idle target when there are many.
func (p *pump) forget() {
	if len(p.targets)-p.busy < maxIdle {
		return
	}
	for key, t := range p.targets {
		if !t.busy {
			delete(p.targets, key)
			return
		}
	}
}

// keep stores how far the pump is, once a second.
func (p *pump) keep() {
	stored, taken := p.at(), uint64(0)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return
		}
		if n%10 == 0 || p.n.connects() != p.checked.Load() {
			_, _, _ = p.check() // what is wrong comes again
		}
		p.mu.Lock()
		p.stats.rate += (float64(p.stats.taken-taken) - p.stats.rate) / 10
		taken = p.stats.taken
		p.mu.Unlock()
		if at := p.at(); at != stored {
			if _, err := save.Call(p.ctx, p.agent(), saved{p.id, at}).Get(p.ctx); err == nil {
				stored = at
			} else if p.ctx.Err() == nil {
				p.log().Warn("an agent cannot store how far it is", "error", err)
			}
		}
	}
}

func (p *pump) agent() grains.Grain[agent] { return agents.Get(agentKey(p.s, p.partition)) }

func (n *node) log() *slog.Logger { return n.of.Actors().Logger() }

func (p *pump) log() *slog.Logger {
	return p.n.log().With("subscription", p.s.name, "partition", p.partition)
}

// grainOf says in the log which grain a target is.
func (p *pump) grainOf(key string) string { return grains.ID{Kind: p.s.kind, Key: key}.String() }
