package taskengine

import (
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
)

// owed is how this node tells of free CPUs the peers that wait for one, and asks peers for theirs. Both are its
// load, told to one peer.
//
//	a task of p is given back, or p says that some wait ──► add ──► tell: a CPU is free, nothing waits ──► Config.Tell
//	tasks wait here, and no peer has room ──► askLater ──► askSome: still so                           ──► Config.Tell
//
// Who is told of a free CPU may have no use for it any more. So more are told, twice as many each time, while it
// stays free.
type owed struct {
	x    *exchange
	some atomic.Bool // peers are owed word

	mu     sync.Mutex // guards the rest
	peers  forwarding.Owed[*peer]
	more   core.Alarm // tells more of them
	most   int
	armed  bool // more is set
	ask    core.Alarm
	round  int
	asking bool // ask is set
	closed bool
	draw   forwarding.Draw
}

func (o *owed) init(x *exchange) {
	o.x, o.draw, x.draw = x, drawOf(x.e.cfg.Node), drawOf(x.e.cfg.Node)
	o.more.Ring = func() {
		o.mu.Lock()
		most := o.most
		o.armed = false
		o.mu.Unlock()
		o.tell(most)
	}
	o.ask.Ring = o.askSome
}

// drawOf is what a node draws: the same in each run in virtual time.
func drawOf(n raysys.NodeID) forwarding.Draw {
	h := fnv.New64a()
	h.Write([]byte(n))
	return forwarding.Draw(h.Sum64())
}

// add has p told of a CPU when one is free.
func (o *owed) add(p *peer, class core.Class) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.gone.Load() || o.closed || o.x.e.line.Total() < oneCPU {
		return
	}
	o.peers.Add(p, int(class))
	p.owed.Store(true)
	o.some.Store(true)
}

func (o *owed) remove(p *peer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peers.Remove(p)
	o.some.Store(o.peers.Len() > 0)
}

// tell tells as many of the peers as CPUs are free, or most where that is more, while nothing here waits for them.
func (o *owed) tell(most int) {
	if !o.some.Load() || !o.sparesCPU() {
		return
	}
	var list []*peer
	o.mu.Lock()
	count := max(int(o.idleCPUs()), most)
	for range count {
		p, ok := o.peers.Take()
		if !ok {
			break
		}
		p.owed.Store(false)
		list = append(list, p)
	}
	o.some.Store(o.peers.Len() > 0)
	if o.peers.Len() > 0 && !o.armed {
		o.most = 2 * count
		o.armed = o.set(&o.more, forwarding.TellPause)
	}
	o.mu.Unlock()
	for _, p := range list {
		tellPeer(p)
	}
}

// askLater has some peers asked after a pause.
func (o *owed) askLater() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asking {
		o.round = 0
		_, after := forwarding.Asks(0, len(*o.x.peers.Load()))
		o.asking = o.set(&o.ask, after)
	}
}

// askSome asks some peers, if tasks still wait for a CPU, and has more asked after a pause.
func (o *owed) askSome() {
	x := o.x
	all := *x.peers.Load()
	var list []*peer
	o.mu.Lock()
	if o.asking = len(all) > 0 && x.e.Queued()+int(x.deferred.count.Load()) > 0 && x.cpusTaken(); o.asking {
		count, _ := forwarding.Asks(o.round, len(all))
		for i := range count {
			if count < len(all) {
				i = o.draw.Below(len(all))
			}
			if p := all[i]; p.mayBeAsked() && x.room(p).Tasks == 0 && p.asked.CompareAndSwap(false, true) {
				list = append(list, p)
			}
		}
		o.round++
		_, after := forwarding.Asks(o.round, len(all))
		o.asking = o.set(&o.ask, after)
	}
	o.mu.Unlock()
	for _, p := range list {
		tellPeer(p)
	}
	x.recheck() // peers may have been left alone for long enough
}

// set has an alarm ring after a pause; the caller holds mu. It reports whether the alarm is set.
func (o *owed) set(a *core.Alarm, after time.Duration) bool {
	if o.closed {
		return false
	}
	a.At = o.x.rt.Now() + int64(after)
	o.x.rt.SetAlarm(a)
	return true
}

func (o *owed) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.x.rt.ClearAlarm(&o.more)
	o.x.rt.ClearAlarm(&o.ask)
}

// sayAsked says how the peers answered for which tasks wait here; "" where none was asked and none refused.
func (o *owed) sayAsked() string {
	x := o.x
	asked, refused := 0, 0
	x.each(func(p *peer) {
		if p.left.Load() > x.rt.Now() {
			refused++
		} else if p.asked.Load() {
			asked++
		}
	})
	if asked+refused == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d others had none free for it; %d more were asked, and have told of none)", refused, asked)
}

// mayBeAsked reports whether a CPU of p may become free for tasks of this node. One that gave a task back tells of
// it unasked.
func (p *peer) mayBeAsked() bool {
	if p.cpus == 0 || p.avoid.Load() || p.gone.Load() || p.left.Load() > p.x.rt.Now() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.load.Draining
}

// tellPeer has p told the load.
func tellPeer(p *peer) {
	if tell := p.x.e.cfg.Tell; tell != nil && !p.gone.Load() {
		tell(p.Peer)
	}
}

// accepts is how many plain tasks of p may come now. A node without CPUs takes its turn (forwarding.Peer.Room): it
// is told when its tasks no longer wait here.
func (o *owed) accepts(p *peer) int64 {
	if p.cpus > 0 {
		if o.keepsCPU() {
			return forwarding.Accepts(0, 0, o.x.means.mean())
		}
		return forwarding.Accepts(o.idleCPUs(), int64(o.x.inbound.Len()), o.x.means.mean())
	}
	if !p.owed.Load() && int64(o.x.inbound.Len()) >= o.idleCPUs() {
		o.add(p, core.Normal)
	}
	return forwarding.MaxFlights
}

// sparesCPU reports whether nothing here waits for the CPUs that are free, and tasks of others may come.
func (o *owed) sparesCPU() bool {
	e := o.x.e
	return !e.waits() && !o.keepsCPU() && !o.gives() && o.idleCPUs() > 0
}

// gives reports whether the node gives all tasks of others back: it leaves, or has as many as it may.
func (o *owed) gives() bool {
	e := o.x.e
	return e.closed.Load() || e.draining.Load() ||
		o.x.unanswered.Load() >= int64(e.cfg.QueueInbound) || e.bytes.Load() > e.maxBytes
}

// keepsCPU reports whether free CPUs are kept for a task that gathers several.
func (o *owed) keepsCPU() bool { return o.x.e.line.Waits.Load() != 0 && o.x.e.line.Reserves() }

// idleCPUs is how many CPUs begin a task as soon as it comes: those that no worker has, and those of workers that
// look for work or are answering.
func (o *owed) idleCPUs() int64 {
	x := o.x
	line := &x.e.line
	free, total := line.CPU().Load(), line.Total()
	if x.e.searching.Load() != 0 {
		free += oneCPU
	}
	own := max(total-free-x.notOwn.Load()*oneCPU, 0)
	others := x.unanswered.Load() - x.unansweredShaped.Load() - x.parked.Load() - int64(x.inbound.Len())
	return max(free/oneCPU, (total-own)/oneCPU-max(others, 0), 0)
}

// leaveAlone sends p no task of one CPU until it has told its load.
func (p *peer) leaveAlone() { p.left.Store(p.x.rt.Now() + int64(forwarding.LeftAlone)) }
