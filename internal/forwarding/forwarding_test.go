package forwarding_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/forwarding"
)

func anyPeer(t *rapid.T, name string) forwarding.Peer {
	p := forwarding.Peer{
		CPUs: rapid.Int64Range(1, 256).Draw(t, name+" CPUs"), Inflight: rapid.Int64Range(0, forwarding.MaxFlights).Draw(t, name+" in flight"),
		Queued: rapid.Int64Range(0, 1000).Draw(t, name+" queued"), Inbound: rapid.Int64Range(0, 1000).Draw(t, name+" inbound"),
		Mean: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, name+" mean")),
	}
	p.Own = rapid.Int64Range(0, p.Inbound).Draw(t, name+" own")
	p.Parked = rapid.Int64Range(0, p.Inbound).Draw(t, name+" parked")
	p.Busy = rapid.Int64Range(0, p.CPUs).Draw(t, name+" busy")
	return p
}

// TestRoom: 0 <= idle <= all <= MaxFlights - Inflight, no CPU is counted twice, and a full peer has room only for a node that has
// no CPU of its own: until that has a task for each CPU there, or two where tasks of other nodes are there too.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPeer(t, "peer")
		noCPU := rapid.Bool().Draw(t, "no CPU")
		idle, all := p.Room(noCPU)
		if idle < 0 || idle > all || all > forwarding.MaxFlights-p.Inflight {
			t.Fatalf("idle %d, all %d", idle, all)
		}
		if taken := p.Queued + p.Busy + max(p.Inbound, p.Inflight) - p.Parked; idle > max(p.CPUs-taken, 0) {
			t.Fatalf("%d idle of %d CPUs with %d tasks", idle, p.CPUs, taken)
		}
		turn := p.CPUs
		if p.Inbound > p.Own {
			turn *= 2
		}
		if noCPU && all < min(turn, forwarding.MaxFlights)-p.Inflight {
			t.Fatalf("room for %d where %d of %d are there", all, p.Inflight, turn)
		}
		if p.Inflight-p.Parked >= turn && noCPU { // taking turns gives it nothing
			if _, own := p.Room(false); all != own {
				t.Fatalf("without a CPU %d, else %d, where the node's tasks have all CPUs", all, own)
			}
		}
		if p.Mean == 0 && !noCPU && all != idle {
			t.Fatalf("%d tasks wait where nobody knows how long one takes", all-idle)
		}
	})
}

// TestRoomBesideParked: tasks that wait for others take no room, whose ever they are; a node without CPU takes its turn beside its own
// ones that wait, however busy the peer is.
func TestRoomBesideParked(t *testing.T) {
	for _, c := range []struct {
		name      string
		peer      forwarding.Peer
		noCPU     bool
		idle, all int64
	}{
		{"all run", forwarding.Peer{CPUs: 2, Inflight: 2, Inbound: 2, Own: 2}, false, 0, 0},
		{"all wait", forwarding.Peer{CPUs: 2, Inflight: 2, Inbound: 2, Own: 2, Parked: 2}, false, 2, 2},
		{"those of others wait", forwarding.Peer{CPUs: 2, Inbound: 2, Parked: 1}, false, 1, 1},
		{"all run, of a node without CPU", forwarding.Peer{CPUs: 2, Inflight: 2, Inbound: 2, Own: 2, Busy: 2}, true, 0, 0},
		{"all wait, of a node without CPU", forwarding.Peer{CPUs: 2, Inflight: 2, Inbound: 2, Own: 2, Parked: 2, Busy: 2}, true, 0, 2},
		{"larger tasks of others have all CPUs", forwarding.Peer{Shared: 4, Inflight: 1, Inbound: 1, Own: 1}, true, 0, 7},
		{"larger tasks of others have some", forwarding.Peer{CPUs: 2, Shared: 2, Inflight: 2, Inbound: 2, Own: 2}, true, 0, 6},
		{"the same for a node with CPUs", forwarding.Peer{CPUs: 2, Shared: 2, Inflight: 2, Inbound: 2, Own: 2}, false, 0, 0},
	} {
		if idle, all := c.peer.Room(c.noCPU); idle != c.idle || all != c.all {
			t.Errorf("%s: room for %d and %d, want %d and %d", c.name, idle, all, c.idle, c.all)
		}
	}
}

// TestOffer: nobody is sent more than there is room for, and who has idle CPUs is sent a task for each.
func TestOffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noCPU := rapid.Bool().Draw(t, "no CPU")
		a := anyPeer(t, "a")
		idle, all := a.Room(noCPU)
		o := a.Offer(noCPU)
		if (o.Tasks > 0) != (all > 0) || o.Tasks > all || o.Idle != (idle > 0) || o.Idle && o.Tasks != idle {
			t.Fatalf("%+v for a peer with %d idle CPUs and room for %d", o, idle, all)
		}
	})
}

// TestLow: a peer whose tasks have all been answered is asked again, also where the last answer came while the node looked.
func TestLow(t *testing.T) {
	for inflight, want := range map[int64]int64{0: 0, 1: 0, 2: 1, 8: 6, 100: 75} {
		if got := forwarding.Low(inflight, time.Millisecond); got != want {
			t.Errorf("%d in flight: %d, want %d", inflight, got, want)
		}
		if got := forwarding.Low(inflight, time.Second); got != max(inflight-1, 0) {
			t.Errorf("%d long ones in flight: %d, want each answer to count", inflight, got)
		}
	}
}

// TestExcess: what is given back leaves each CPU a task, and nothing is given back while what waits begins soon.
func TestExcess(t *testing.T) {
	for _, c := range []struct{ waits, begun, cpus, want int64 }{
		{4, 0, 4, 0}, {5, 0, 4, 1}, {100, 20, 4, 0}, {101, 20, 4, 1}, {3, 0, 1, 2},
	} {
		if got := max(forwarding.Excess(c.waits, c.begun, c.cpus), 0); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if m := forwarding.SlowMean(0, 4); m != 4*forwarding.LookPause {
		t.Error("nothing began on 4 CPUs in a pause: ", m)
	}
	if m := forwarding.Learn(forwarding.Learn(0, time.Second), 0); m != 750*time.Millisecond {
		t.Error("a quarter of the new: ", m)
	}
}

// TestLineWait: what has come to a line since its wait was told adds as much as one that waited then, and what has left takes it away.
func TestLineWait(t *testing.T) {
	for _, c := range []struct {
		wait          time.Duration
		waited, since int64
		want          time.Duration
	}{
		{0, 0, 5, 0},
		{time.Second, 0, 0, time.Second},
		{time.Second, 0, 2, 3 * time.Second},
		{4 * time.Second, 3, 2, 6 * time.Second},
		{4 * time.Second, 3, -1, 3 * time.Second},
		{4 * time.Second, 3, -9, time.Second},
	} {
		if got := forwarding.LineWait(c.wait, c.waited, c.since); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, d := range []time.Duration{0, 1, 15, 16, 17, time.Second, time.Hour, 1<<63 - 1} {
		if got := forwarding.Coarse(d); got > d || got < d-d/8 || forwarding.Coarse(got) != got {
			t.Errorf("%v is rounded to %v", d, got)
		}
	}
}
