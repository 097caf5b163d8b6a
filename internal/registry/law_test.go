package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/shardlog"
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
func served(t *testing.T, hosts ...placement.Node) *elsewhere {
	t.Helper()
	e, _ := newElsewhere(t, nil)
	e.hosts.Store(&hosts)
	lead(t, e)
	return e
}

// lead has this node lead the shard.
func lead(t *testing.T, e *elsewhere) *shardlog.Shard {
	t.Helper()
	s, err := shardlog.Lead(t.Context(), shardlog.LeadConfig{KV: e.kv, Session: sessionOf(t, e.kv), Node: "self"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.reg.StepDown(0, s)
		_ = s.Close()
	})
	e.reg.Lead(0, s)
	return s
}

// depose has the shard led by nobody, which its leader does not know.
func depose(t *testing.T, e *elsewhere) {
	t.Helper()
	if _, err := e.kv.Txn(t.Context(), []store.Op{store.Delete(shardlog.LeaderKey(0))}); err != nil {
		t.Fatal(err)
	}
}

func sessionOf(t *testing.T, kv store.KV) string {
	t.Helper()
	session, err := kv.NewSession(t.Context(), "test", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// askFrom asks this node's leader as a request of another node does.
func askFrom[A any](e *elsewhere, from core.NodeKey, op operation[A], done func(A, error)) {
	q := &asked[A]{operation: op, done: done}
	q.asker = asker{reg: e.reg, from: from, inbound: true}
	e.reg.received(q)
}

// says is the leader's answer to another node.
func says[A any](e *elsewhere, from core.NodeKey, op operation[A]) answer[A] {
	said := make(chan answer[A], 1)
	askFrom(e, from, op, func(a A, err error) { said <- answer[A]{a, err} })
	return <-said
}

// tells reports whether a refusal says where the grain is now.
func tells(err error, p graindir.Place) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("%d.%d on node %s", p.Token.Epoch, p.Token.Seq, p.NodeKey))
}

// alice is the grain that most of this is about.
func alice(token graindir.Token) grain {
	return grain{"test", graindir.ID{Kind: "account", Key: "alice"}, token}
}

func locateAlice() *locate                       { return &locate{grain: alice(graindir.Token{})} }
func confirmAlice(token graindir.Token) *confirm { return &confirm{grain: alice(token)} }
func releaseAlice(token graindir.Token) *release { return &release{grain: alice(token)} }
func loadAlice(token graindir.Token) *load       { return &load{alice(token), []string{"n"}} }
func saveAlice(token graindir.Token) *save {
	return &save{grain: alice(token), name: "n", data: []byte("x")}
}

// place has the grain placed on k.
func place(t *testing.T, e *elsewhere, k core.NodeKey) graindir.Place {
	t.Helper()
	hosts := []placement.Node{host(k, "test")}
	e.hosts.Store(&hosts)
	a := says(e, core.NodeKey{Node: "driver", Incarnation: 9}, locateAlice())
	if a.err != nil || a.value.NodeKey != k {
		t.Fatalf("locate: %+v, want a place on %s", a, k)
	}
	return a.value.Place
}

// TestLateRelease: an activation that ends after its grain was placed anew releases nothing, and the new placement
// stays.
func TestLateRelease(t *testing.T) {
	e := served(t)
	old := place(t, e, deadNode)
	e.dead.Store(deadNode, true)
	now := place(t, e, aliveNode)
	if a := says(e, deadNode, releaseAlice(old.Token)); a.err != nil {
		t.Errorf("a late release is no error: %+v", a)
	}
	if a := says(e, aliveNode, confirmAlice(now.Token)); a.value.Place != now {
		t.Errorf("a late release with token %v removed the placement %+v that followed: now it is %+v", old.Token, now, a.value)
	}
}

// TestReleaseToANode: a release that names a node puts the grain there in one step, under a token that is newer, and nobody finds it
// anywhere else meanwhile. Where that node is dead, drains, joins or is of another incarnation the grain is nowhere, as after a release
// that names none; and a release by a token that is not current changes nothing.
func TestReleaseToANode(t *testing.T) {
	target, driver := core.NodeKey{Node: "target", Incarnation: 8}, core.NodeKey{Node: "driver", Incarnation: 9}
	for name, c := range map[string]struct {
		change func(*elsewhere, *placement.Node)
		to     core.NodeKey
		moves  bool
	}{
		"a worker":            {func(*elsewhere, *placement.Node) {}, target, true},
		"none":                {func(*elsewhere, *placement.Node) {}, core.NodeKey{}, false},
		"dead":                {func(e *elsewhere, _ *placement.Node) { e.dead.Store(target, true) }, target, false},
		"draining":            {func(_ *elsewhere, n *placement.Node) { n.Draining = true }, target, false},
		"joining":             {func(_ *elsewhere, n *placement.Node) { n.Joining = true }, target, false},
		"suspect":             {func(_ *elsewhere, n *placement.Node) { n.Suspect = true }, target, false},
		"another incarnation": {func(*elsewhere, *placement.Node) {}, core.NodeKey{Node: "target", Incarnation: 7}, false},
		"unknown":             {func(*elsewhere, *placement.Node) {}, core.NodeKey{Node: "nobody", Incarnation: 7}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := served(t)
			old := place(t, e, aliveNode)
			nodes := []placement.Node{host(target, "test"), host(aliveNode, "test")}
			c.change(e, &nodes[0])
			e.hosts.Store(&nodes)
			a := says(e, aliveNode, &release{grain: alice(old.Token), to: c.to})
			now := says(e, driver, confirmAlice(old.Token))
			switch {
			case a.err != nil || now.err != nil || a.value != now.value.Place:
				t.Fatalf("released to %+v, found at %+v", a, now)
			case !c.moves && !a.value.IsZero():
				t.Fatalf("it goes to %+v", a)
			case c.moves && (a.value.NodeKey != target || !a.value.Token.Newer(old.Token)):
				t.Fatalf("it goes to %+v, and was at %+v", a, old)
			}
			if again := says(e, aliveNode, &release{grain: alice(old.Token), to: c.to}); again.err != nil || !again.value.IsZero() {
				t.Errorf("asked again: %+v", again)
			}
			if after := says(e, driver, confirmAlice(old.Token)); after.value != now.value {
				t.Errorf("a late release moved it from %+v to %+v", now.value, after.value)
			}
		})
	}
}

// TestLocateWhileMoving: who asks for a grain while it moves gets the place that it moves to.
func TestLocateWhileMoving(t *testing.T) {
	target, driver := core.NodeKey{Node: "target", Incarnation: 8}, core.NodeKey{Node: "driver", Incarnation: 9}
	e := served(t)
	old := place(t, e, aliveNode)
	e.hosts.Store(&[]placement.Node{host(target, "test"), host(aliveNode, "test")})
	moved, found := make(chan answer[graindir.Place], 1), make(chan answer[graindir.Placed], 1)
	askFrom(e, aliveNode, &release{grain: alice(old.Token), to: target}, func(p graindir.Place, err error) { moved <- answer[graindir.Place]{p, err} })
	askFrom(e, driver, locateAlice(), func(p graindir.Placed, err error) { found <- answer[graindir.Placed]{p, err} })
	m, f := <-moved, <-found
	if m.err != nil || f.err != nil || f.value.Place != m.value || m.value.NodeKey != target {
		t.Errorf("moved to %+v, located at %+v", m, f)
	}
}

// TestStaleToken: what an activation was before the current one may neither read nor write State.
func TestStaleToken(t *testing.T) {
	e := served(t)
	old := place(t, e, deadNode)
	e.dead.Store(deadNode, true)
	now := place(t, e, aliveNode)
	for _, from := range []core.NodeKey{deadNode, aliveNode} {
		if a := says(e, from, loadAlice(old.Token)); !errors.Is(a.err, raysys.ErrMoved) || !tells(a.err, now) {
			t.Errorf("%s loads under the token of an earlier activation: %+v, want ErrMoved and the current place", from, a)
		}
		if a := says(e, from, saveAlice(old.Token)); !errors.Is(a.err, raysys.ErrMoved) || !tells(a.err, now) {
			t.Errorf("%s saves under the token of an earlier activation: %+v, want ErrMoved and the current place", from, a)
		}
	}
	if a := says(e, aliveNode, loadAlice(now.Token)); a.err != nil || len(a.value) != 1 || a.value[0].Exists {
		t.Errorf("the current activation loads: %+v", a)
	}
}

// TestLoadIsFenced: what a leader read is answered only if it still led then (rule C20).
func TestLoadIsFenced(t *testing.T) {
	e := served(t)
	p := place(t, e, aliveNode)
	if a := says(e, aliveNode, saveAlice(p.Token)); a.err != nil {
		t.Fatal(a.err)
	}
	read := loadAlice(p.Token)
	if a := says(e, aliveNode, read); a.err != nil || string(a.value[0].Data) != "x" {
		t.Fatalf("load: %+v", a)
	}
	depose(t, e)
	if a := says(e, aliveNode, read); a.err != errNotLeader {
		t.Errorf("a leader that was deposed answers a load: %+v, want that the next one is asked", a)
	}
	if a := says(e, aliveNode, restoreAlice(p.Token)); a.err != errNotLeader {
		t.Errorf("a leader that was deposed answers a restore: %+v, want that the next one is asked", a)
	}
}

// TestLookIsFenced: a leader whose electors do not answer may have been replaced: it tells of its memory only what it
// still led behind the question.
func TestLookIsFenced(t *testing.T) {
	e := served(t)
	p := place(t, e, aliveNode)
	looks := func() map[string]error {
		return map[string]error{
			"locate":  says(e, aliveNode, locateAlice()).err,
			"confirm": says(e, aliveNode, confirmAlice(p.Token)).err,
			"find":    says(e, aliveNode, &find{key: "o/x"}).err,
			"wait":    says(e, aliveNode, &find{key: "o/x", wait: true, seen: shardlog.Version{Epoch: 1}}).err,
			"group":   says(e, aliveNode, &group{groupengine.Question{Op: groupengine.Check, Key: "p/x"}}).err,
		}
	}
	e.mute.Store(true)
	for name, err := range looks() {
		if err != nil {
			t.Errorf("%s at a leader that leads: %v", name, err)
		}
	}
	depose(t, e)
	for name, err := range looks() {
		if err != errNotLeader {
			t.Errorf("%s at a leader that was deposed: %v, want that the next one is asked", name, err)
		}
	}
}

// TestSuspendedLeader: a leader whose lease is out answers no other node.
func TestSuspendedLeader(t *testing.T) {
	e := served(t)
	p := place(t, e, aliveNode)
	e.away.Store(true)
	for name, err := range map[string]error{
		"locate":  says(e, aliveNode, locateAlice()).err,
		"confirm": says(e, aliveNode, confirmAlice(p.Token)).err,
		"release": says(e, aliveNode, releaseAlice(p.Token)).err,
		"load":    says(e, aliveNode, loadAlice(p.Token)).err,
		"save":    says(e, aliveNode, saveAlice(p.Token)).err,
		"commit":  says(e, aliveNode, commitAlice(p.Token, graindir.ETag{}, 1)).err,
		"restore": says(e, aliveNode, restoreAlice(p.Token)).err,
		"change":  says(e, aliveNode, &changes{[]Change{RemoveName("n/x")}}).err,
		"find":    says(e, aliveNode, &find{key: "o/x"}).err,
		"tasks":   says(e, aliveNode, &taskChanges{[]TaskChange{ClaimTask(taskOne)}}).err,
	} {
		if !errors.Is(err, raysys.ErrSuspended) {
			t.Errorf("%s at a leader whose lease is out: %v, want ErrSuspended", name, err)
		}
	}
}

// TestOnlyWhereItIsPlaced: with the right token in hand, a node that the grain is not placed on loads, saves and
// releases nothing, and nothing is confirmed to it.
func TestOnlyWhereItIsPlaced(t *testing.T) {
	e := served(t)
	p := place(t, e, aliveNode)
	for _, stranger := range []core.NodeKey{{Node: "driver", Incarnation: 9}, {Node: aliveNode.Node, Incarnation: aliveNode.Incarnation + 1}} {
		for name, err := range map[string]error{
			"load":    says(e, stranger, loadAlice(p.Token)).err,
			"save":    says(e, stranger, saveAlice(p.Token)).err,
			"release": says(e, stranger, releaseAlice(p.Token)).err,
		} {
			if !errors.Is(err, raysys.ErrMoved) {
				t.Errorf("%s by %s of a grain placed on %s: %v, want ErrMoved", name, stranger, aliveNode, err)
			}
		}
		if a := says(e, stranger, confirmAlice(p.Token)); a.value.NodeKey == stranger {
			t.Errorf("the grain is confirmed to %s: %+v", stranger, a)
		}
	}
	a := says(e, aliveNode, loadAlice(p.Token))
	if a.err != nil || a.value[0].Exists {
		t.Errorf("afterwards its own node loads: %+v", a)
	}
	if a := says(e, aliveNode, releaseAlice(p.Token)); a.err != nil {
		t.Errorf("its own node releases it: %v", a.err)
	}
	if a := says(e, aliveNode, confirmAlice(p.Token)); !a.value.IsZero() {
		t.Errorf("after its release the grain is at %+v", a.value)
	}
}

// TestGrainsOfTwoPrograms: a leader places a grain on a node of its own program, and the same kind and key of another
// program is another grain.
func TestGrainsOfTwoPrograms(t *testing.T) {
	one, two := core.NodeKey{Node: "one", Incarnation: 5}, core.NodeKey{Node: "two", Incarnation: 6}
	e := served(t, host(one, "a"), host(two, "b"))
	id := graindir.ID{Kind: "account", Key: "alice"}
	var tokens []graindir.Token
	for _, c := range []struct {
		ns string
		on core.NodeKey
	}{{"a", one}, {"b", two}} {
		for range 2 { // the second time it is there
			a := says(e, core.NodeKey{Node: "driver", Incarnation: 9}, &locate{grain: grain{ns: c.ns, id: id}})
			if a.err != nil || a.value.NodeKey != c.on {
				t.Fatalf("the grain of program %s: %+v, want it on %s", c.ns, a, c.on)
			}
			tokens = append(tokens, a.value.Token)
		}
	}
	if tokens[0] != tokens[1] || tokens[2] != tokens[3] || tokens[0] == tokens[2] {
		t.Errorf("tokens %v: the grains of two programs are one", tokens)
	}
	if a := says(e, core.NodeKey{Node: "driver", Incarnation: 9}, &locate{grain: grain{ns: "c", id: id}}); !errors.Is(a.err, raysys.ErrNoCapacity) {
		t.Errorf("a grain of a program without a node: %+v, want ErrNoCapacity", a)
	}
	other := grain{"b", id, tokens[0]}
	for name, err := range map[string]error{
		"load": says(e, one, &load{other, []string{"n"}}).err,
		"save": says(e, one, &save{grain: other, name: "n", data: []byte("x")}).err,
	} {
		if !errors.Is(err, raysys.ErrMoved) {
			t.Errorf("%s of the other program's grain: %v, want ErrMoved", name, err)
		}
	}
	says(e, one, &release{grain: other})
	if a := says(e, two, &confirm{grain: grain{"b", id, tokens[2]}}); a.value.NodeKey != two {
		t.Errorf("the grain of program b: %+v", a)
	}
}

// TestRequestsForOtherKeys: a request names keys of the object directory, or those of a State whose objects are asked
// for; else the connection closes.
func TestRequestsForOtherKeys(t *testing.T) {
	read := func(q request) error {
		r := wire.NewReader(appendRequest(nil, q))
		got, err := readRequest(&r)
		if err == nil {
			_ = got.shardKey()
		}
		return err
	}
	state := StateKey("a", graindir.ID{Kind: "k", Key: "x"}, "n")
	for _, key := range []string{"o/x", "n/a\x00x", state} {
		if err := read(requestFor(&find{key: key})); err != nil {
			t.Errorf("find %q: %v", key, err)
		}
	}
	for _, key := range []string{"", "s/", "s/x", "s/a\x00k\x00x", "g/a\x00k\x00x", "x"} {
		if err := read(requestFor(&find{key: key})); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("find %q: %v, want it refused", key, err)
		}
	}
	for _, key := range []string{"", state, "g/a\x00k\x00x", "x"} {
		if err := read(requestFor(&changes{[]Change{{kind: changeCopy, key: key}}})); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("change of %q: %v, want it refused", key, err)
		}
	}
}

// TestReapWaitsForTheLast: an object's record with changes one behind the other, when a node that it names dies, is
// looked at again after the last of them.
func TestReapWaitsForTheLast(t *testing.T) {
	e, d := newElsewhere(t, nil)
	kv, s := shardWithDead(t, e, func(*shardlog.LeadConfig) {})
	e.reg.Lead(0, s)
	key := fmt.Sprint("o/both ", aliveNode, " 0")
	hold := make(chan struct{})
	holdWrites(kv, hold)
	const behind = 3
	made := make(chan answer[[]Entry], behind)
	for i := range behind {
		from := core.NodeKey{Node: "new", Incarnation: uint64(10 + i)}
		ch := Change{kind: changeCopy, key: key, rec: Record{Owner: aliveNode}}
		askFrom(e, from, &changes{[]Change{ch}}, func(entries []Entry, err error) { made <- answer[[]Entry]{entries, err} })
	}
	if _, err := d.FindWait(t.Context(), "o/none"); err != nil { // whoever is answered comes behind what was sent before
		t.Fatal(err)
	}
	e.dead.Store(deadNode, true)
	e.reg.Reap()
	close(hold)
	for range behind {
		if a := <-made; a.err != nil || a.value[0].Refused {
			t.Fatalf("%+v", a)
		}
	}
	soon(t, "an object record that was busy when dead nodes were removed is looked at again", func() bool { by, _ := namingDead(t, s); return by == 0 })
	if a, err := d.FindWait(t.Context(), key); err != nil || len(a.Record.At) != 1+behind {
		t.Errorf("%+v, %v: want the node that lives and %d new ones", a, err, behind)
	}
}
