package forwarding

import (
	"math/bits"
	"time"
)

// ahead is how much work a peer is sent beyond the tasks that its CPUs run: enough to cover many round trips, and little enough
// that tasks which it cannot start soon stay here, where any idle node can get them.
const ahead = 10 * time.Millisecond

const (
	// MaxFlights bounds the tasks of one node that are at one peer.
	MaxFlights = 1 << 16
	// MaxFrame bounds the tasks of one frame.
	MaxFrame = 256
)

// Peer is what a node knows of another that takes tasks. All tasks that it counts are of one CPU.
type Peer struct {
	CPUs     int64 // less those of work that asks for other than one CPU
	Inflight int64 // tasks of this node that it has, or that are on the way

	// What it last reported.
	Queued  int64         // its own tasks that wait
	Inbound int64         // tasks of other nodes that it has not answered
	Own     int64         // of these, the ones of the node that asks
	Busy    int64         // CPUs that run its own tasks
	Parked  int64         // of Inbound, those that wait for others, and hold no CPU
	Shared  int64         // CPUs, beside CPUs, that work of others has which asks for other than one CPU, while more of it waits
	Mean    time.Duration // of a task on a CPU; 0 is unknown
}

// Room returns how many tasks the peer may be sent now: idle for its CPUs without work, all in total. noCPU says that the node
// that asks has no CPU.
func (p *Peer) Room(noCPU bool) (idle, all int64) {
	mine := p.CPUs // what fits without looking at others
	if p.Mean > 0 {
		mine += min(p.CPUs*int64(ahead)/int64(p.Mean), MaxFlights)
	}
	others := p.Queued + max(p.Inbound-p.Inflight, 0) + p.Busy - p.Parked // these may be the asker's
	idle = max(p.CPUs-others-p.Inflight, 0)
	all = mine - others - p.Inflight
	if noCPU {
		// The peers must take turns, busy as they are. Where tasks of another node are there too, as many as the CPUs may begin when
		// those return, all at one moment, and as many must wait for that, or the other node gets more than its share.
		turn := p.CPUs + p.Shared
		if p.Inbound > p.Own || p.Shared > 0 {
			turn *= 2
		}
		all = max(all, turn-max(p.Inflight-p.Parked, 0))
	}
	all = max(min(all, MaxFlights-p.Inflight), 0)
	return min(idle, all), all
}

// Offer is what a peer has for the tasks that wait. See Choose.
type Offer struct {
	Tasks int64 // how many it is sent next; 0: it has no room
	Score int64 // 0 to 1,000: the room for its size
	Idle  bool  // it has CPUs without work
}

// Offer returns the peer's: first CPUs that have nothing to do get one task each, then queues are filled where there is the most
// room for their size, by about a millisecond's work at a time.
func (p *Peer) Offer(noCPU bool) Offer {
	idle, all := p.Room(noCPU)
	if all == 0 {
		return Offer{}
	}
	o := Offer{Tasks: idle, Score: all * 1000 / (all + p.Inflight)}
	switch {
	case idle > 0:
		o.Idle = true
	case p.Mean > 0:
		o.Tasks = min(all, max(p.CPUs*int64(ahead)/10/int64(p.Mean), 1), MaxFrame)
	default:
		o.Tasks = 1
	}
	return o
}

// Choose returns which of n peers gets tasks next, and its offer; -1 where none has room. Of the peers that have
// idle CPUs one is drawn: all nodes whose tasks wait know of the same ones, and the idlest would get tasks from
// each of them. Where none has, the highest Score counts.
func Choose(n int, draw *Draw, offer func(i int) Offer) (chosen int, o Offer) {
	chosen = -1
	i := draw.Below(n) - 1
	for range n {
		if i++; i == n {
			i = 0
		}
		switch next := offer(i); {
		case next.Tasks == 0:
		case next.Idle:
			return i, next
		case chosen < 0 || next.Score > o.Score:
			chosen, o = i, next
		}
	}
	return chosen, o
}

// Draw is a source of numbers (splitmix64: Steele, Lea, Flood 2014). What it is set to repeats them.
type Draw uint64

// Below returns a number from 0 on, below n; 0 where n is 0.
func (d *Draw) Below(n int) int {
	*d += 0x9e3779b97f4a7c15
	x := uint64(*d)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(max(n, 1)))
}

// Low is how many tasks in flight are few enough for another round to pay, after one in which no peer had room:
// none always are. Of long tasks each answer frees a CPU that is worth a round.
func Low(inflight int64, mean time.Duration) int64 {
	if mean >= ahead {
		return max(inflight-1, 0)
	}
	return max(inflight-max(inflight/4, 1), 0)
}

// Accepts is how many more tasks of another node may come where so many CPUs are free, and so many tasks of others
// wait for them. The others are given back on arrival. They would not begin soon, or nobody knows when, and
// elsewhere a CPU may be free. Short tasks all may come: what begins soon may wait, and Excess gives back the rest.
func Accepts(free, waits int64, mean time.Duration) int64 {
	if mean > 0 && mean < ahead {
		return MaxFlights
	}
	return max(free-waits, 0)
}

// Settled reports whether the mean of so many tasks says how long one takes on a node of so many CPUs. Of the tasks
// that begin together the shortest end first: a node that told the mean of those would be sent work for a multiple
// of its time.
func Settled(ended, cpus int64) bool { return ended >= cpus }

// ReportEvery is how often a node tells its load to all of so many nodes, when it has changed: each hears 200
// reports a second at most.
func ReportEvery(nodes int) time.Duration {
	return max(100*time.Millisecond, 5*time.Millisecond*time.Duration(nodes))
}

// LookPause is how often a node looks at the tasks of others that wait there, while some do.
const LookPause = 20 * time.Millisecond

// soon is how many such pauses a task of another node may wait, at the rate of the last pause. That is ten times what a node is
// sent ahead: a node corrects a wrong estimate, and not every fluctuation.
const soon = 5

// Excess returns how many tasks of others a node may give back, since they would not begin soon. waits of them wait, begun of them began in
// the last LookPause, and one for each of the node's cpus may wait anyway. The node gives back as many of these as other nodes have idle
// CPUs. It was sent tasks by the mean of earlier ones: when tasks take longer, those that wait here leave other nodes idle.
func Excess(waits, begun, cpus int64) int64 { return waits - max(begun*soon, cpus) }

// SlowMean is the mean of a node's tasks where there is an excess.
func SlowMean(begun, cpus int64) time.Duration {
	return LookPause * time.Duration(max(cpus, 1)) / time.Duration(max(begun, 1))
}

// LineWait corrects the estimated wait of a node's line, in which so many waited, by those that have come since: each adds as much as
// one of those did.
func LineWait(wait time.Duration, waited, since int64) time.Duration {
	if wait == 0 || since == 0 {
		return wait
	}
	return time.Duration(float64(wait) * float64(max(waited+since, 0)+1) / float64(max(waited, 0)+1))
}

// Coarse rounds an estimate down by an eighth at most, so that one that changes little is not reported again.
func Coarse(d time.Duration) time.Duration {
	drop := max(bits.Len64(uint64(max(d, 0)))-4, 0)
	return d >> drop << drop
}

// Learn mixes a measurement into a mean: a quarter, so that a few of them carry it.
func Learn(mean, measured time.Duration) time.Duration {
	if mean == 0 {
		return measured
	}
	return max(mean+(measured-mean)/4, 1)
}
