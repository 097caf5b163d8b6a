package stream

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/raysys/raysys/grains"
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

	mu      sync.Mutex // guards the rest
	room    sync.Cond  // held or busy has fallen
	targets map[string]*target
	busy    int       // targets with events that were not taken
	ready   []*target // they have no goroutine, and wait for room to read what they left in the bus
	starved bool      // there is none for the first of them
	held    load      // in memory
	again   load      // part of it: of events that were left in the bus before
	made    int64     // the stream whose numbers the rest has; 0 where it was not found yet
	read    uint64    // all events up to it were read: they were taken, or a target has them, or will read them
	stats   stats
}

// stats are what `raysys list streams` shows.
type stats struct {
	taken   uint64
	parked  uint64
	pending uint64 // events behind the one that was read last
	rate    float64
}

// maxIdle bounds the idle targets whose last event is remembered.
const maxIdle = 10_000

// newPump starts to deliver the events after a position.
func newPump(n *node, s *subscription, partition int, at position) *pump {
	p := &pump{id: rand.Uint64(), n: n, s: s, partition: partition, targets: map[string]*target{}, made: at.Made, read: at.Floor}
	p.room.L = &p.mu
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	n.mu.Lock()
	n.pumps[p] = true
	n.mu.Unlock()
	p.wg.Go(p.run)
	p.wg.Go(p.keep)
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
	return position{p.made, low - 1}
}

// run reads the part, until the pump ends.
func (p *pump) run() {
	p.insist("the events of a stream cannot be read: it is tried again", func() error {
		b, err := p.n.ensure(p.ctx, p.s.d)
		if err != nil {
			return err
		}
		info, err := b.Info(p.ctx, p.n.nameOf(p.s.d))
		if err != nil {
			p.n.missed(p.s.d, err)
			return err
		}
		p.mu.Lock()
		if p.made == 0 {
			p.made = info.Made
		}
		made, from := p.made, p.read+1
		p.mu.Unlock()
		if made != info.Made {
			return p.begin()
		}
		err = b.Read(p.ctx, p.n.nameOf(p.s.d), bus.Filter{Partition: p.partition, Made: made}, from, 0, p.take)
		p.n.missed(p.s.d, err)
		return err
	})
}

// begin has the agent begin anew, and returns why: until it has done so this pump does nothing more with the stream that is there now.
func (p *pump) begin() error {
	if err := again.Tell(p.ctx, p.agent(), p.id); err != nil {
		return err
	}
	return errors.New("the stream is not the one that was there before, and its events are gone: delivery begins anew")
}

// look begins anew where the stream was made again while the reader was on. The client of NATS would go on with the old numbers.
func (p *pump) look() {
	b, err := p.n.ensure(p.ctx, p.s.d)
	if err != nil {
		return
	}
	info, err := b.Info(p.ctx, p.n.nameOf(p.s.d))
	p.n.missed(p.s.d, err)
	p.mu.Lock()
	made := p.made
	p.mu.Unlock()
	if err == nil && made != 0 && made != info.Made {
		p.log().Error(p.begin().Error())
	}
}

// insist calls f again after a pause, until it returns nil or the pump ends, and says why in the log, once.
func (p *pump) insist(trouble string, f func() error) {
	said := ""
	for n := 0; ; n++ {
		err := f()
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			p.log().Warn(trouble, "error", said)
		}
		if !p.pause(n, 10*time.Second) {
			return
		}
	}
}

func pauseOf(n int, most time.Duration) time.Duration {
	d := min(100*time.Millisecond<<min(n, 20), most)
	return d/2 + rand.N(d/2+1)
}

// pause waits before attempt n+1, at most for `most`, and returns false when the pump has ended.
func (p *pump) pause(n int, most time.Duration) bool {
	t := time.NewTimer(pauseOf(n, most))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

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
	p.read, p.stats.pending = m.Seq, m.Pending
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
		if n%10 == 0 {
			p.look()
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
