package system

import (
	"errors"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
)

// host is a node that takes grains of the namespace.
func host(k core.NodeKey, namespace string) placement.Node {
	return placement.Node{
		ID: k.Node, Incarnation: k.Incarnation, Namespace: namespace, Worker: true, Total: raysys.Resources{CPU: 1}, Free: raysys.Resources{CPU: 1},
		Runs: func(f string) bool { return f == "grain account" },
	}
}

// served is a shard that this node leads, in a cluster of those hosts.
func served(t *testing.T, hosts ...placement.Node) (*elsewhere, *registry) {
	t.Helper()
	e, d := newElsewhere(t, nil)
	e.hosts.Store(&hosts)
	s, err := store.Lead(t.Context(), store.LeadConfig{KV: d.c.cfg.Store, Session: sessionOf(t, d.c.cfg.Store), Node: "self"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.c.reg.unlead(0, s)
		_ = s.Close()
	})
	d.c.reg.lead(0, s)
	return e, d.c.reg
}

func sessionOf(t *testing.T, kv store.KV) string {
	t.Helper()
	session, err := kv.NewSession(t.Context(), "test", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// says is the leader's answer to another node.
func says(r *registry, from core.NodeKey, q request) answer {
	said := make(chan answer, 1)
	q.from, q.inbound, q.answer = from, true, func(a answer) { said <- a }
	if q.id == (grainengine.ID{}) {
		q.ns, q.id = "test", grainengine.ID{Kind: "account", Key: "alice"}
	}
	r.received(0, &q)
	return <-said
}

// place has the grain placed on k.
func place(t *testing.T, e *elsewhere, r *registry, k core.NodeKey) grainengine.Place {
	t.Helper()
	hosts := []placement.Node{host(k, "test")}
	e.hosts.Store(&hosts)
	a := says(r, core.NodeKey{Node: "driver", Incarnation: 9}, request{op: opLocate})
	if a.err != nil || a.retry || a.place.NodeKey != k {
		t.Fatalf("locate: %+v, want a place on %s", a, k)
	}
	return a.place
}

// TestLateRelease: an activation that ends after its grain was placed anew releases nothing, and the new placement
// stays.
func TestLateRelease(t *testing.T) {
	e, r := served(t)
	old := place(t, e, r, deadNode)
	e.dead.Store(deadNode, true)
	now := place(t, e, r, aliveNode)
	if a := says(r, deadNode, request{op: opRelease, token: old.Token}); a.err != nil || a.retry {
		t.Errorf("a late release is no error: %+v", a)
	}
	if a := says(r, aliveNode, request{op: opConfirm, token: now.Token}); a.place != now {
		t.Errorf("a late release with token %v removed the placement %+v that followed: now it is %+v", old.Token, now, a.place)
	}
}

// TestStaleToken: what an activation was before the current one may neither read nor write State.
func TestStaleToken(t *testing.T) {
	e, r := served(t)
	old := place(t, e, r, deadNode)
	e.dead.Store(deadNode, true)
	now := place(t, e, r, aliveNode)
	for _, from := range []core.NodeKey{deadNode, aliveNode} {
		if a := says(r, from, request{op: opLoad, token: old.Token, names: []string{"n"}}); !errors.Is(a.err, raysys.ErrMoved) || a.place != now {
			t.Errorf("%s loads under the token of an earlier activation: %+v, want ErrMoved and the current place", from, a)
		}
		if a := says(r, from, request{op: opSave, token: old.Token, name: "n", data: []byte("x")}); !errors.Is(a.err, raysys.ErrMoved) || a.place != now {
			t.Errorf("%s saves under the token of an earlier activation: %+v, want ErrMoved and the current place", from, a)
		}
	}
	if a := says(r, aliveNode, request{op: opLoad, token: now.Token, names: []string{"n"}}); a.err != nil || len(a.records) != 1 || a.records[0].Exists {
		t.Errorf("the current activation loads: %+v", a)
	}
}

// TestLoadIsFenced: what a leader read is answered only if it still led then (rule C20).
func TestLoadIsFenced(t *testing.T) {
	e, r := served(t)
	p := place(t, e, r, aliveNode)
	if a := says(r, aliveNode, request{op: opSave, token: p.Token, name: "n", data: []byte("x")}); a.err != nil {
		t.Fatal(a.err)
	}
	load := request{op: opLoad, token: p.Token, names: []string{"n"}}
	if a := says(r, aliveNode, load); a.err != nil || a.retry || string(a.records[0].Data) != "x" {
		t.Fatalf("load: %+v", a)
	}
	if _, err := e.here.others.cfg.Store.Txn(t.Context(), []store.Op{store.Delete(store.LeaderKey(0))}); err != nil {
		t.Fatal(err)
	}
	if a := says(r, aliveNode, load); !a.retry {
		t.Errorf("a leader that was deposed answers a load: %+v, want that the next one is asked", a)
	}
}

// TestSuspendedLeader: a leader whose lease is out answers no other node.
func TestSuspendedLeader(t *testing.T) {
	e, r := served(t)
	p := place(t, e, r, aliveNode)
	e.away.Store(true)
	for _, q := range []request{
		{op: opLocate},
		{op: opConfirm, token: p.Token},
		{op: opRelease, token: p.Token},
		{op: opLoad, token: p.Token, names: []string{"n"}},
		{op: opSave, token: p.Token, name: "n", data: []byte("x")},
		{op: opFind, key: "o/x"},
	} {
		if a := says(r, aliveNode, q); !errors.Is(a.err, raysys.ErrSuspended) {
			t.Errorf("operation %d at a leader whose lease is out: %+v, want ErrSuspended", q.op, a)
		}
	}
}

// TestOnlyWhereItIsPlaced: with the right token in hand, a node that the grain is not placed on loads, saves and
// releases nothing, and nothing is confirmed to it.
func TestOnlyWhereItIsPlaced(t *testing.T) {
	e, r := served(t)
	p := place(t, e, r, aliveNode)
	for _, stranger := range []core.NodeKey{{Node: "driver", Incarnation: 9}, {Node: aliveNode.Node, Incarnation: aliveNode.Incarnation + 1}} {
		for _, q := range []request{
			{op: opLoad, token: p.Token, names: []string{"n"}},
			{op: opSave, token: p.Token, name: "n", data: []byte("x")},
			{op: opRelease, token: p.Token},
		} {
			if a := says(r, stranger, q); !errors.Is(a.err, raysys.ErrMoved) {
				t.Errorf("operation %d by %s of a grain placed on %s: %+v, want ErrMoved", q.op, stranger, aliveNode, a)
			}
		}
		if a := says(r, stranger, request{op: opConfirm, token: p.Token}); a.place.NodeKey == stranger {
			t.Errorf("the grain is confirmed to %s: %+v", stranger, a)
		}
	}
	a := says(r, aliveNode, request{op: opLoad, token: p.Token, names: []string{"n"}})
	if a.err != nil || a.records[0].Exists {
		t.Errorf("afterwards its own node loads: %+v", a)
	}
	if a := says(r, aliveNode, request{op: opRelease, token: p.Token}); a.err != nil {
		t.Errorf("its own node releases it: %v", a.err)
	}
	if a := says(r, aliveNode, request{op: opConfirm, token: p.Token}); !a.place.IsZero() {
		t.Errorf("after its release the grain is at %+v", a.place)
	}
}

// TestGrainsOfTwoPrograms: a leader places a grain on a node of its own program, and the same kind and key of another
// program is another grain.
func TestGrainsOfTwoPrograms(t *testing.T) {
	one, two := core.NodeKey{Node: "one", Incarnation: 5}, core.NodeKey{Node: "two", Incarnation: 6}
	_, r := served(t, host(one, "a"), host(two, "b"))
	id := grainengine.ID{Kind: "account", Key: "alice"}
	var tokens []grainengine.Token
	for _, c := range []struct {
		ns string
		on core.NodeKey
	}{{"a", one}, {"b", two}} {
		for range 2 { // the second time it is there
			a := says(r, core.NodeKey{Node: "driver", Incarnation: 9}, request{op: opLocate, ns: c.ns, id: id})
			if a.err != nil || a.place.NodeKey != c.on {
				t.Fatalf("the grain of program %s: %+v, want it on %s", c.ns, a, c.on)
			}
			tokens = append(tokens, a.place.Token)
		}
	}
	if tokens[0] != tokens[1] || tokens[2] != tokens[3] || tokens[0] == tokens[2] {
		t.Errorf("tokens %v: the grains of two programs are one", tokens)
	}
	if a := says(r, core.NodeKey{Node: "driver", Incarnation: 9}, request{op: opLocate, ns: "c", id: id}); !errors.Is(a.err, raysys.ErrNoCapacity) {
		t.Errorf("a grain of a program without a node: %+v, want ErrNoCapacity", a)
	}
	for name, q := range map[string]request{
		"load": {op: opLoad, names: []string{"n"}}, "save": {op: opSave, name: "n", data: []byte("x")}, "release": {op: opRelease},
	} {
		q.ns, q.id, q.token = "b", id, tokens[0]
		if a := says(r, one, q); name != "release" && !errors.Is(a.err, raysys.ErrMoved) {
			t.Errorf("%s of the other program's grain: %+v, want ErrMoved", name, a)
		}
	}
	if a := says(r, two, request{op: opConfirm, ns: "b", id: id, token: tokens[2]}); a.place.NodeKey != two {
		t.Errorf("the grain of program b: %+v", a)
	}
}

// TestRequestsForOtherKeys: a request names keys of the object directory, or those of a State whose objects are asked
// for; else the connection closes.
func TestRequestsForOtherKeys(t *testing.T) {
	read := func(q request) error {
		r := wire.NewReader(q.append(nil))
		got, err := readRequest(&r)
		if err == nil {
			_ = got.slotKey()
		}
		return err
	}
	state := (&request{ns: "a", id: grainengine.ID{Kind: "k", Key: "x"}}).stateKey("n")
	for _, key := range []string{"o/x", "n/a\x00x", state} {
		if err := read(request{op: opFind, key: key}); err != nil {
			t.Errorf("find %q: %v", key, err)
		}
	}
	for _, key := range []string{"", "s/", "s/x", "s/a\x00k\x00x", "g/a\x00k\x00x", "x"} {
		if err := read(request{op: opFind, key: key}); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("find %q: %v, want it refused", key, err)
		}
	}
	for _, key := range []string{"", state, "g/a\x00k\x00x", "x"} {
		if err := read(request{op: opObjects, changes: []objectChange{{kind: changeCopy, key: key}}}); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("change of %q: %v, want it refused", key, err)
		}
	}
}

// TestReapWaitsForTheLast: an object's record with changes one behind the other, when a node that it names dies, is
// looked at again after the last of them.
func TestReapWaitsForTheLast(t *testing.T) {
	e, d := newElsewhere(t, nil)
	kv, s := graveyard(t, e, func(*store.LeadConfig) {})
	d.c.reg.lead(0, s)
	key := fmt.Sprint("o/both ", aliveNode, " 0")
	hold := make(chan struct{})
	holdWrites(kv, hold)
	const behind = 3
	made := make(chan answer, behind)
	for i := range behind {
		from := core.NodeKey{Node: "new", Incarnation: uint64(10 + i)}
		d.c.reg.ask(&request{op: opObjects, from: from, changes: []objectChange{{kind: changeCopy, key: key, rec: objectRecord{owner: aliveNode}}}, answer: func(a answer) { made <- a }})
	}
	if _, err := d.look(t.Context(), "o/none"); err != nil { // whoever is answered comes behind what was sent before
		t.Fatal(err)
	}
	e.dead.Store(deadNode, true)
	d.c.reg.died()
	close(hold)
	for range behind {
		if a := <-made; a.err != nil || a.objects[0].refused {
			t.Fatalf("%+v", a)
		}
	}
	soon(t, "an object record that was busy when dead nodes were removed is looked at again", func() bool { by, _ := haunted(t, s); return by == 0 })
	if a, err := d.look(t.Context(), key); err != nil || len(a.rec.at) != 1+behind {
		t.Errorf("%+v, %v: want the node that lives and %d new ones", a, err, behind)
	}
}

// TestAdoption: an object is adopted from a dead owner only, and by one that has it.
func TestAdoption(t *testing.T) {
	owner, keeper, other := core.NodeKey{Node: "owner", Incarnation: 1}, core.NodeKey{Node: "keeper", Incarnation: 2}, core.NodeKey{Node: "other", Incarnation: 3}
	rec := objectRecord{owner: owner, at: []location{{owner, true}, {keeper, true}}}
	for name, c := range map[string]struct {
		by     core.NodeKey
		exists bool
		dead   core.NodeKey
		ok     bool
	}{
		"of a dead owner":               {keeper, true, owner, true},
		"of one that lives":             {keeper, true, other, false},
		"by one that has it not":        {other, true, owner, false},
		"of a record that is not there": {keeper, false, owner, false},
		"by its owner again":            {owner, true, other, true},
	} {
		ch := objectChange{kind: changeAdopt, key: "o/x"}
		after, exists, ok := ch.apply(rec, c.exists, c.by, func(k core.NodeKey) bool { return k != c.dead })
		want := owner
		if c.ok {
			want = c.by
		}
		if ok != c.ok || exists != c.exists || after.owner != want {
			t.Errorf("adoption %s: %v, owner %s; want %v, owner %s", name, ok, after.owner, c.ok, want)
		}
	}
}
