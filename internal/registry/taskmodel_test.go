package registry

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// spec is what the leader shall do with a change by a node: the record of the task before it, nil when there is none,
// gives the one after it.
func spec(before *TaskRecord, ch TaskChange, by core.NodeKey, alive func(core.NodeKey) bool) (after *TaskRecord, refused bool) {
	if ch.key.Named() {
		return specNamed(before, ch, by, alive)
	}
	free := before != nil && !alive(before.Submitter) // for the next submitter
	mine := before != nil && before.Submitter == by
	next := func() *TaskRecord {
		t := *before
		t.Submitter, t.Attempt = by, before.Attempt+1
		return &t
	}
	if !alive(by) {
		return before, true
	}
	switch ch.kind {
	case taskEnter:
		if before == nil {
			t := *ch.rec
			t.Submitter, t.Attempt = by, 1
			return &t, false
		}
		if before.Digest == ch.rec.Digest && free {
			return next(), false
		}
		return before, before.Digest != ch.rec.Digest || !mine
	case taskClaim:
		if free {
			return next(), false
		}
		return before, before != nil && !mine
	case taskClaimFrom:
		if before != nil && !mine && (free || before.Attempt == ch.rec.Attempt && len(before.Outcome) == 0) {
			return next(), false
		}
		return before, before != nil && !mine
	case taskSettle:
		if !mine || before.Attempt != ch.rec.Attempt {
			return before, true
		}
		if len(before.Outcome) == 0 {
			t := *before
			t.Outcome = ch.rec.Outcome
			return &t, false
		}
		return before, !bytes.Equal(before.Outcome, ch.rec.Outcome)
	case taskComputed:
		if !mine || before.Attempt != ch.rec.Attempt {
			return before, true
		}
		t := *before
		t.Object = ch.rec.Object
		return &t, false
	}
	if mine {
		return nil, false
	}
	return before, before != nil
}

// specNamed is spec for the record of a name.
func specNamed(before *TaskRecord, ch TaskChange, by core.NodeKey, alive func(core.NodeKey) bool) (after *TaskRecord, refused bool) {
	if !alive(by) {
		return before, true
	}
	if ch.kind == taskEnter {
		settled := before != nil && len(before.Outcome) > 0 && before.Name == ch.rec.Name && before.Start != ch.rec.Start
		if before == nil || settled && ch.rec.Attempt == 0 {
			t := *ch.rec
			t.Submitter, t.Attempt = by, 1
			return &t, false
		}
		again := before.Submitter == by && before.Attempt == 1 && before.Start == ch.rec.Start && before.Name == ch.rec.Name && before.Digest == ch.rec.Digest
		return before, !again
	}
	if before == nil || anotherStart(ch, before) {
		return before, ch.kind == taskSettle || ch.kind == taskComputed
	}
	mine, t := before.Submitter == by, *before
	switch ch.kind {
	case taskRemove:
		return nil, false
	case taskForget:
		if mine {
			return nil, false
		}
		return before, true
	case taskClaim:
		if len(before.Outcome) == 0 && !alive(before.Submitter) {
			t.Submitter, t.Attempt = by, before.Attempt+1
			return &t, false
		}
		return before, len(before.Outcome) > 0 || !mine
	case taskComputed:
		if !mine || before.Attempt != ch.rec.Attempt {
			return before, true
		}
		t.Object = ch.rec.Object
		return &t, false
	case taskSettle:
		if stale := ch.rec.Attempt != 0 && (!mine || before.Attempt != ch.rec.Attempt); stale || len(before.Outcome) > 0 {
			return before, stale || !bytes.Equal(before.Outcome, ch.rec.Outcome)
		}
		t.Outcome, t.Recipe = ch.rec.Outcome, nil
		return &t, false
	}
	return before, false
}

// anotherStart reports whether ch is about another task than the one that has the name.
func anotherStart(ch TaskChange, now *TaskRecord) bool {
	return ch.key.Named() && ch.kind != taskEnter && ch.key.ID != (raysys.TaskID{}) && ch.key.ID != now.Start.ID
}

// of is the key of the record that the change is about.
func (ch TaskChange) of() TaskKey {
	if ch.key.Named() {
		return TaskKey{Run: ch.key.Run}
	}
	return ch.key
}

// answers reports whether a is the answer to ch when the record is now.
func answers(a TaskEntry, ch TaskChange, now *TaskRecord, refused bool) bool {
	if now != nil && anotherStart(ch, now) {
		now = nil
	}
	if a.Refused != refused || a.Exists != (now != nil) {
		return false
	}
	if now == nil {
		return true
	}
	want := *now
	if ch.answersWithoutRecipe() {
		want.Recipe = nil
	}
	return same(&a.Record, &want)
}

// twoLeaders are two registries that lead the shard by turns. The one that led it before does not know that it does no
// more.
type twoLeaders struct {
	*elsewhere
	regs   [2]*Registry
	shards [2]*shardlog.Shard
	leads  int
}

func newTwoLeaders(t *testing.T) *twoLeaders {
	t.Helper()
	p := &twoLeaders{leads: 1}
	p.elsewhere, _ = newElsewhere(t, nil)
	p.regs = [2]*Registry{p.reg, New(p.reg.cfg)}
	t.Cleanup(func() {
		for i := range p.regs {
			p.end(i)
		}
	})
	p.takeOver(t)
	return p
}

func (p *twoLeaders) end(i int) {
	if s := p.shards[i]; s != nil {
		p.regs[i].StepDown(0, s)
		_ = s.Close()
	}
}

// takeOver has the other registry lead the shard.
func (p *twoLeaders) takeOver(t testing.TB) {
	next := 1 - p.leads
	p.end(next)
	if _, err := p.kv.Txn(t.Context(), []store.Op{store.Delete(shardlog.LeaderKey(0))}); err != nil {
		t.Fatal(err)
	}
	session, err := p.kv.NewSession(t.Context(), "test", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	s, err := shardlog.Lead(t.Context(), shardlog.LeadConfig{KV: p.kv, Session: session, Node: fmt.Sprint(next)})
	if err != nil {
		t.Fatal(err)
	}
	p.shards[next] = s
	p.regs[next].Lead(0, s)
	p.leads = next
}

// change asks one registry after the other, beginning with any, as a node does whose request meets errNotLeader.
func (p *twoLeaders) change(t testing.TB, first int, from core.NodeKey, list ...TaskChange) []TaskEntry {
	for i := first; ; i++ {
		got := make(chan answer[[]taskAnswer], 1)
		q := &asked[[]taskAnswer]{operation: &taskChanges{list}, done: func(a []taskAnswer, err error) { got <- answer[[]taskAnswer]{a, err} }}
		q.asker = asker{reg: p.regs[i%2], from: from, inbound: true}
		p.regs[i%2].received(q)
		a := <-got
		if a.err == errNotLeader {
			if i > first {
				p.reg.cfg.Runner.Pause(time.Millisecond) // one is taking over
			}
			continue
		}
		if a.err != nil {
			t.Fatalf("%v by %s: %v", list, from, a.err)
		}
		entries := make([]TaskEntry, len(list))
		for i, one := range a.value {
			if one.err != nil {
				t.Fatalf("%v by %s: %v", list[i], from, one.err)
			}
			entries[i] = one.TaskEntry
		}
		return entries
	}
}

// drawChange is a change of one of few tasks, with few contents, attempts and outcomes.
func drawChange(n func(label string, limit int) int, run uint64) TaskChange {
	k := TaskKey{Run: run, ID: raysys.TaskID{Lo: uint64(n("task", 2))}}
	switch n("kind", 10) {
	case 0, 1:
		rec := TaskRecord{Digest: uint64(n("digest", 5) / 4), Detached: n("detached", 2) == 0}
		rec.Recipe = []byte{byte(rec.Digest)}
		return EnterTask(k, rec)
	case 2, 3, 4:
		return ClaimTask(k)
	case 5, 6:
		return SettleTask(k, uint32(1+n("attempt", 6)*n("attempt", 6)/10), []byte{byte(n("outcome", 2))})
	case 7:
		return ComputedTask(k, uint32(1+n("attempt", 6)*n("attempt", 6)/10), TaskObject{Owner: other, Number: uint64(n("number", 3))})
	case 8:
		return ClaimTaskFrom(k, uint32(1+n("attempt", 6)*n("attempt", 6)/10))
	}
	return ForgetTask(k)
}

// drawNamed is a change of the task that has a name, of few starts.
func drawNamed(n func(label string, limit int) int, run uint64) TaskChange {
	k := TaskKey{Run: namedRun | run, ID: raysys.TaskID{Lo: uint64(n("start", 3))}} // 0 is whichever
	switch n("kind of named", 10) {
	case 0, 1, 2:
		rec := TaskRecord{Digest: uint64(n("digest", 5) / 4), Detached: true, Name: "nightly", Namespace: "test", Function: "task work"}
		rec.Start = TaskKey{Run: run, ID: raysys.TaskID{Lo: 1 + k.ID.Lo%2}}
		rec.Attempt = uint32(n("for good", 4) / 3)
		rec.Recipe = []byte{byte(rec.Digest)}
		if n("collision", 8) == 0 {
			rec.Name = "another name of the same key"
		}
		return EnterTask(k, rec)
	case 3, 4:
		return ClaimTask(k)
	case 5, 6, 7:
		return SettleTask(k, uint32(1+n("attempt", 6)*n("attempt", 6)/10), []byte{byte(n("outcome", 2))})
	case 8:
		switch n("other", 3) {
		case 0:
			return CancelTask(k, []byte{byte(n("outcome", 2))})
		case 1:
			return RanTask(k, uint32(1+n("attempt", 6)*n("attempt", 6)/10))
		}
		return FindTask(k)
	}
	if n("remove", 3) == 0 {
		return ForgetTask(k)
	}
	return RemoveTask(k)
}

// TestTaskModel: whatever nodes ask, die, and repeat, and whoever leads, each change does what the rules say: so a task
// has one submitter for each attempt, one outcome at most, and none of an attempt that has ended.
func TestTaskModel(t *testing.T) {
	p := newTwoLeaders(t)
	run := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		run++
		n := func(label string, limit int) int { return rapid.IntRange(0, limit-1).Draw(rt, label) }
		now := map[TaskKey]*TaskRecord{}
		outcomes := map[TaskKey][]byte{} // of the record that there is
		nodes := make([]core.NodeKey, 3) // the living
		for i := range nodes {
			nodes[i] = core.NodeKey{Node: raysys.NodeID(fmt.Sprint("n", i)), Incarnation: run << 16}
		}
		var dead []core.NodeKey
		var last []TaskChange
		var lastBy core.NodeKey
		ask := func(by core.NodeKey, list []TaskChange) {
			got := p.change(t, n("leader", 2), by, list...)
			for i, ch := range list {
				k := ch.of()
				before := now[k]
				after, refused := spec(before, ch, by, p.Alive)
				if !answers(got[i], ch, after, refused) {
					rt.Fatalf("%+v by %s of %+v is answered with %+v, want %+v, refused %v", ch, by, before, got[i], after, refused)
				}
				if now[k] = after; after == nil || before != nil && before.Start != after.Start {
					delete(outcomes, k)
					continue
				}
				if had := outcomes[k]; had != nil && !bytes.Equal(had, after.Outcome) {
					rt.Fatalf("%+v by %s: the outcome was %x and is %x", ch, by, had, after.Outcome)
				}
				if len(after.Outcome) > 0 {
					outcomes[k] = after.Outcome
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) {
				lastBy = nodes[n("node", len(nodes))]
				last = nil
				for range 1 + n("changes", 4) {
					last = append(last, drawChange(n, run))
				}
				ask(lastBy, last)
			},
			"change of a name": func(*rapid.T) {
				lastBy = nodes[n("node", len(nodes))]
				last = []TaskChange{drawNamed(n, run)}
				ask(lastBy, last)
			},
			"late change": func(*rapid.T) { // of a node that has died
				if len(dead) > 0 {
					ask(dead[n("dead", len(dead))], []TaskChange{drawChange(n, run)})
				}
			},
			"again": func(*rapid.T) {
				if len(last) == 1 {
					ask(lastBy, last)
				}
			},
			"die": func(*rapid.T) {
				i := n("dies", len(nodes))
				p.dead.Store(nodes[i], true)
				dead = append(dead, nodes[i])
				nodes[i].Incarnation++
			},
			"take over": func(*rapid.T) {
				if n("takes over", 3) == 0 {
					p.takeOver(t)
				}
			},
		})
	})
}
