package registry

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
)

var deadNode, aliveNode = core.NodeKey{Node: "dead", Incarnation: 3}, core.NodeKey{Node: "alive", Incarnation: 4}

// shardWithDead is a shard with records of both nodes.
func shardWithDead(t *testing.T, e *elsewhere, change func(*shardlog.LeadConfig)) (*flaky.KV, *shardlog.Shard) {
	kv := flaky.Wrap(e.kv)
	session, err := kv.NewSession(t.Context(), "test", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	cfg := shardlog.LeadConfig{KV: kv, Session: session, Node: "self"}
	change(&cfg)
	s, err := shardlog.Lead(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.reg.StepDown(0, s)
		_ = s.Close()
	})
	var b shardlog.Batch
	for i := range 150 {
		for _, k := range []core.NodeKey{deadNode, aliveNode} {
			both := Record{Owner: k, At: []Location{{deadNode, true}, {aliveNode, false}}}
			alone := Record{Owner: k, At: []Location{{k, true}}}
			place := appendPlacement(graindir.Placed{Place: graindir.Place{NodeKey: k}})
			for key, value := range map[string][]byte{"o/both": both.append(nil), "o/": alone.append(nil), "n/": alone.append(nil), "g/": place} {
				b.Puts = append(b.Puts, shardlog.Put{Key: fmt.Sprint(key, " ", k, " ", i), Value: value})
			}
		}
	}
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return kv, s
}

// holdWrites keeps changes back until hold is closed.
func holdWrites(kv *flaky.KV, hold chan struct{}) {
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() {
			<-hold
		}
		return flaky.None
	})
}

// namingDead counts the records that name the dead node, and all.
func namingDead(t *testing.T, s *shardlog.Shard) (by, all int) {
	t.Helper()
	s.Scan("", func(key string, rec shardlog.Record) bool {
		all++
		if strings.HasPrefix(key, "g/") {
			if p, err := readPlacement(rec); err != nil || p.NodeKey == deadNode {
				by++
			}
			return true
		}
		if o, err := recordOf(rec); err != nil || o.has(deadNode) >= 0 {
			by++
		}
		return true
	})
	return by, all
}

// TestNewLeaderReaps: a node that died before the shard was led is removed from the records all the same, and no other node is.
func TestNewLeaderReaps(t *testing.T) {
	e, d := newElsewhere(t, nil)
	e.dead.Store(deadNode, true)
	_, s := shardWithDead(t, e, func(*shardlog.LeadConfig) {})
	e.reg.Lead(0, s)
	soon(t, "no record names the dead node", func() bool { by, _ := namingDead(t, s); return by == 0 })
	// Gone are the dead node's own objects and placements. Its names say what was lost.
	if _, all := namingDead(t, s); all != 8*150-2*150 {
		t.Errorf("%d records are left", all)
	}
	if a, err := d.FindWait(t.Context(), fmt.Sprint("n/ ", deadNode, " ", 7)); err != nil || !a.Exists || a.Record.Owner != deadNode {
		t.Error(a, err)
	}
	if a, err := d.FindWait(t.Context(), fmt.Sprint("o/both ", deadNode, " ", 7)); err != nil || len(a.Record.At) != 1 || a.Record.At[0].Node != aliveNode {
		t.Error(a, err)
	}
}

// TestReapComesBack: records that are being changed when their node dies, and those for which the shard has no room
// then, are cleared up afterwards.
func TestReapComesBack(t *testing.T) {
	for name, alter := range map[string]func(*shardlog.LeadConfig){
		"busy": func(*shardlog.LeadConfig) {}, "no room": func(c *shardlog.LeadConfig) { c.MaxQueue = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			e, d := newElsewhere(t, nil)
			kv, s := shardWithDead(t, e, alter)
			e.reg.Lead(0, s)
			look := func() { // whoever is answered comes behind what was sent before
				if _, err := d.FindWait(context.Background(), "o/none"); err != nil {
					t.Error(err)
				}
			}
			look()
			hold := make(chan struct{})
			holdWrites(kv, hold)
			made := make(chan error, 2)
			done := func(_ []Entry, err error) { made <- err }
			ch := Change{kind: changeCopy, key: fmt.Sprint("o/both ", aliveNode, " 0"), rec: Record{Owner: aliveNode}}
			// Not by the directory, which gathers changes: one that came behind the reaping would find no room.
			askFrom(e, e.Self(), &changes{[]Change{ch}}, done)
			askFrom(e, deadNode, &changes{[]Change{{kind: changeCopy, key: "o/late"}}}, done)
			look()
			e.dead.Store(deadNode, true)
			asked, before := e.aliveAsked.Load(), e.pauses.Load()
			e.reg.Reap()
			look()
			if name == "no room" { // what was refused is tried again, and refused again, while the changes are still on their way
				soon(t, "a pause is over", func() bool { return e.pauses.Load() > before })
				look()
				if n, tries := e.aliveAsked.Load()-asked, 1+e.pauses.Load()-before; n > 10*tries {
					t.Errorf("who is alive was asked %d times in %d attempts: what is refused for now waits for the pause", n, tries)
				}
			}
			close(hold)
			for range 2 {
				if err := <-made; err != nil {
					t.Fatal(err)
				}
			}
			soon(t, "no record names the dead node", func() bool { by, _ := namingDead(t, s); return by == 0 })
			if a, err := d.FindWait(t.Context(), fmt.Sprint("o/both ", aliveNode, " 0")); err != nil || a.Record.has(e.Self()) < 0 || len(a.Record.At) != 2 {
				t.Error(a, err)
			}
		})
	}
}

// TestTheDeadHaveNoCopies: what a node asked for before it died is not entered after it was reaped.
func TestTheDeadHaveNoCopies(t *testing.T) {
	e, _ := newElsewhere(t, nil)
	e.dead.Store(deadNode, true)
	_, s := shardWithDead(t, e, func(*shardlog.LeadConfig) {})
	e.reg.Lead(0, s)
	for _, k := range []core.NodeKey{deadNode, aliveNode} {
		a := says(e, k, &changes{[]Change{{kind: changeCopy, key: "o/new"}}})
		if a.err != nil || a.value[0].Refused != (k == deadNode) {
			t.Errorf("%s: %+v", k, a)
		}
	}
}

// TestReapedThoughChangedAgain: a record that was being changed when its node died, and is being changed again when that
// commit is known, is cleared up behind the second.
func TestReapedThoughChangedAgain(t *testing.T) {
	e, d := newElsewhere(t, nil)
	kv, s := shardWithDead(t, e, func(*shardlog.LeadConfig) {})
	e.reg.Lead(0, s)
	look := func() { // whoever is answered comes behind what was sent before
		if _, err := d.FindWait(context.Background(), "o/none"); err != nil {
			t.Error(err)
		}
	}
	look()
	gate := make(chan struct{})
	holdWrites(kv, gate)
	key := fmt.Sprint("o/both ", aliveNode, " 0")
	made := make(chan error, 2)
	for _, by := range []string{"one", "two"} { // the second waits behind the first
		ch := Change{kind: changeCopy, key: key, rec: Record{Owner: aliveNode}}
		askFrom(e, core.NodeKey{Node: raysys.NodeID(by), Incarnation: 9}, &changes{[]Change{ch}}, func(_ []Entry, err error) { made <- err })
	}
	look()
	e.dead.Store(deadNode, true)
	e.reg.Reap()
	look()
	close(gate)
	for range 2 {
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}
	soon(t, "the record that was busy twice does not name the dead node", func() bool { by, _ := namingDead(t, s); return by == 0 })
}
