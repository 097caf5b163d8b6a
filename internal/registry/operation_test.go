package registry

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// asFirst is one operation with an answer, as they were in version 1.
type asFirst interface{ check(t *testing.T) }

type example[A any] struct {
	name  string
	op    operation[A]
	value A
	err   error
}

// check compares both frames with those of version 1, and reads them.
func (x example[A]) check(t *testing.T) {
	q := &asked[A]{operation: x.op}
	got := appendRequest(nil, q)
	want := frame(t, "ask-"+x.name, got)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is asked as %x, want %x", x.name, got, want)
	}
	r := wire.NewReader(want)
	read, err := readRequest(&r)
	if err != nil || r.Len() != 0 {
		t.Fatalf("%s: %v, %d bytes are left", x.name, err, r.Len())
	}
	if d := cmp.Diff(x.op, read.(*asked[A]).operation, exported); d != "" {
		t.Errorf("%s is read as another: %s", x.name, d)
	}
	got = appendAnswer(nil, x.op, x.value, x.err)
	want = frame(t, "answer-"+x.name, got)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is answered with %x, want %x", x.name, got, want)
	}
	r = wire.NewReader(want)
	a, err := readAnswer(&r, x.op)
	if err != nil || r.Len() != 0 || (a.err == nil) != (x.err == nil) {
		t.Fatalf("the answer to %s: %v, %v, %d bytes are left", x.name, err, a.err, r.Len())
	}
	if d := cmp.Diff(x.value, a.value, exported); d != "" {
		t.Errorf("the answer to %s is read as another: %s", x.name, d)
	}
}

var exported = cmp.Exporter(func(reflect.Type) bool { return true })

func frame(t *testing.T, name string, now []byte) []byte {
	t.Helper()
	return golden.Hex(t, "frames/v1-"+name+".hex", now)
}

// TestFramesOfVersion1: the bytes of questions, answers and records never change, since nodes of the next version send and read
// them.
func TestFramesOfVersion1(t *testing.T) {
	id := wire.NewReader([]byte("0123456789abcdef"))
	rec := Record{
		ID: id.ID(), Owner: core.NodeKey{Node: "o", Incarnation: 5}, Size: 1 << 20, Attempt: 2, Nonce: 1 << 60, Replicas: 2,
		At: []Location{{core.NodeKey{Node: "o", Incarnation: 5}, true}, {core.NodeKey{Node: "p", Incarnation: 600}, false}},
	}
	g := grain{"prog", graindir.ID{Kind: "account", Key: "alice"}, graindir.Token{Epoch: 300, Seq: 7}}
	unplaced := grain{ns: g.ns, id: g.id}
	place := graindir.Placed{Place: graindir.Place{NodeKey: core.NodeKey{Node: "w1", Incarnation: 77}, Token: g.token}}
	inBundle := graindir.Placed{Place: place.Place, Bundle: core.Bundle{Group: "p/prog\x00training", Index: 3, Captures: true}}
	etag := graindir.ETag{Epoch: 299, Seq: 12}
	now := shardlog.Version{Epoch: 4, Seq: 6}
	counter := graindir.Counter{Turn: 300, Nonce: 1 << 60}
	task := TaskRecord{
		Submitter: core.NodeKey{Node: "o", Incarnation: 5}, Attempt: 2, Digest: 1 << 60, Recipe: []byte("recipe"), Outcome: []byte("outcome"),
		Detached: true, Name: "nightly",
	}
	bill, schedule := due.Name{Namespace: "prog", Name: "bill"}, due.Record{Due: 1 << 60, At: place.NodeKey, Function: "grain account", Data: []byte("data")}
	for _, x := range []asFirst{
		example[graindir.Placed]{name: "locate", value: place, op: &locate{
			grain: unplaced, strategy: raysys.PreferLocal, labels: map[string]string{"zone": "a"}, avoid: place.Place,
		}},
		example[graindir.Placed]{name: "locate-bundle", value: inBundle, op: &locate{grain: unplaced, bundle: inBundle.Bundle, at: place.NodeKey}},
		example[graindir.Placed]{name: "locate-always", value: place, op: &locate{grain: unplaced, always: true}},
		example[graindir.Placed]{name: "confirm", op: &confirm{grain: g}, value: place},
		example[graindir.Place]{name: "release", op: &release{grain: g}},
		example[graindir.Place]{name: "release-to", op: &release{grain: g, to: place.NodeKey}, value: place.Place},
		example[graindir.Place]{name: "release-ends", op: &release{grain: g, ends: true}},
		example[[]graindir.Record]{name: "load", op: &load{g, []string{"balance", "log"}}, value: []graindir.Record{{Exists: true, ETag: etag, Data: []byte("money")}, {}}},
		example[graindir.ETag]{name: "save", op: &save{g, "balance", etag, []byte("money")}, value: graindir.ETag{Epoch: 300, Seq: 13}},
		example[graindir.ETag]{name: "clear", op: &save{g, "balance", etag, nil}, err: errNotLeader},
		example[[]Entry]{name: "change", op: &changes{[]Change{
			{kind: changeCopy, key: "o/1", rec: rec, kept: true, only: true},
			{kind: changeCopy, key: "o/1", rec: rec},
			{kind: changeGone, key: "o/1"},
			SetName("n/prog\x00x", rec),
			RemoveName("n/prog\x00x"),
		}}, value: []Entry{
			{Exists: true, Record: rec, Version: now}, {Refused: true}, {Refused: true, Exists: true, Record: rec, Version: now}, {}, {},
		}},
		example[Entry]{name: "find", op: &find{key: "o/1", seen: shardlog.Version{Epoch: 4, Seq: 5}, wait: true}, value: Entry{Exists: true, Version: now, Held: []raysys.TaskID{rec.ID}}},
		example[Entry]{name: "last", op: &find{key: "s/prog\x00purse\x00x\x00n", last: true}, value: Entry{Exists: true, Version: now, Held: []raysys.TaskID{rec.ID}, Record: rec}},
		example[graindir.ETag]{name: "commit", value: graindir.ETag{Epoch: 300, Seq: 14}, op: &commit{g, graindir.Commit{
			After: etag, Counter: counter, States: []graindir.StateChange{{Name: "balance", Data: []byte("money")}, {Name: "log"}},
			Replies: []graindir.StoredReply{{Call: rec.ID, Data: []byte("reply")}}, Forget: []raysys.TaskID{rec.ID},
		}}},
		example[restored]{name: "restore", op: &restore{load: load{g, []string{"balance", "log"}}}, value: restored{Restored: graindir.Restored{
			States:  []graindir.Record{{Exists: true, ETag: etag, Data: []byte("money")}, {}},
			Version: etag, Counter: counter, Replies: []graindir.StoredReply{{Call: rec.ID, Data: []byte("reply")}},
		}}},
		example[restored]{name: "restore-page", op: &restore{load: load{g, nil}, after: rec.ID}, value: restored{more: true, Restored: graindir.Restored{
			States: []graindir.Record{}, Version: etag, Counter: counter, Replies: []graindir.StoredReply{{Call: rec.ID, Data: []byte("reply")}},
		}}},
		example[graindir.Page]{name: "stored-page", op: &page{"prog", graindir.Query{
			Kind: "purse", States: []string{"balance", "log"}, Prefix: "eu/", From: graindir.Stored{Key: "eu/a", Side: graindir.Side{Family: 's', Name: "log"}},
		}}, value: graindir.Page{More: true, Records: []graindir.Stored{
			{Key: "eu/b", Side: graindir.Side{Family: 'd', Data: appendCounter(counter)}}, {Key: "eu/b", Side: graindir.Side{Family: 'm', Name: "x", Data: []byte{}}},
		}}},
		example[graindir.ETag]{name: "commit-sides", value: etag, op: &commit{g, graindir.Commit{
			After: etag, Counter: counter, Sides: []graindir.Side{{Family: 'e', Name: "7", Data: []byte("message")}, {Family: 'm', Name: "\x00"}},
		}}},
		example[restored]{name: "restore-sides", op: &restore{load: load{g, nil}, last: graindir.Side{Family: 'k', Name: "2"}}, value: restored{
			Restored: graindir.Restored{States: []graindir.Record{}, Version: etag, Counter: counter, Sides: []graindir.Side{
				{Family: 'k', Name: "3", Data: []byte("block")}, {Family: 'm', Name: "", Data: []byte{}},
			}},
		}},
		example[[]taskAnswer]{name: "tasks", op: &taskChanges{[]TaskChange{
			EnterTask(taskOne, task), EnterTask(taskOne, TaskRecord{Digest: 9}), ClaimTask(taskOne), SettleTask(taskOne, 2, []byte("outcome")), ForgetTask(taskOne),
		}}, value: []taskAnswer{
			{TaskEntry: TaskEntry{Exists: true, Record: task}},
			{TaskEntry: TaskEntry{Refused: true, Exists: true, Record: task}},
			{TaskEntry: TaskEntry{Exists: true, Record: task}},
			{TaskEntry: TaskEntry{Refused: true}},
			{again: true},
		}},
		example[[]taskAnswer]{name: "names", op: &taskChanges{[]TaskChange{
			EnterTask(nightly(1), named(1)), FindTask(nightly(0)), RemoveTask(nightly(1)),
		}}, value: []taskAnswer{
			{TaskEntry: TaskEntry{Exists: true, Record: named(1)}}, {TaskEntry: TaskEntry{Exists: true, Record: named(1)}}, {},
		}},
		example[[]dueItem]{name: "dues", op: &dues{list: []dueChange{
			{due.Change{Name: bill, Was: due.Version(now), Next: &schedule, Done: true, Silent: true}}, {due.Change{Name: bill, Read: true}}, {due.Change{Name: bill, Asked: "delete"}},
		}}, value: []dueItem{{Item: due.Item{Name: bill, Version: due.Version(now), Record: schedule, Why: "no node"}, made: true}, {Item: due.Item{Name: bill}, again: true}}},
		example[[]dueItem]{name: "dues-now", op: &dues{list: []dueChange{{due.Change{Name: bill, Was: due.Version(now), Read: true, Done: true, Asked: "bad"}}}}, value: []dueItem{{Item: due.Item{Name: bill, Now: 1 << 60}}, {Item: due.Item{Name: bill, Now: 1 << 60}}}},
		example[[]dueItem]{name: "page", op: &dues{list: []dueChange{}, query: &due.Query{Shard: 3, Prefix: "r/prog", From: "r/prog\x00alice", Named: "al", Soonest: true, Limit: 1000}}, value: []dueItem{
			{count: 9, next: "r/prog\x00zoe"}, {Item: due.Item{Name: bill, Version: due.Version(now), Record: schedule, Died: 1}},
		}},
		example[graindir.Placed]{name: "refused", op: &confirm{grain: g}, err: fmt.Errorf("%w: busy", raysys.ErrOverloaded)},
	} {
		x.check(t)
	}
	start, ofStates := named(1), retained(1, 2)
	for name, got := range map[string][]byte{"record": rec.append(nil), "placement": appendPlacement(place), "schedule": schedule.Append(nil), "placement-bundle": appendPlacement(inBundle), "counter": appendCounter(counter), "task": task.append(nil), "task-named": start.append(nil), "task-states": ofStates.append(nil)} {
		if want := frame(t, name, got); !bytes.Equal(got, want) {
			t.Errorf("a %s is written as %x, want %x", name, got, want)
		}
	}
}
