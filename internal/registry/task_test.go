package registry

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

var (
	taskOne = TaskKey{Run: 7, ID: raysys.TaskID{Hi: 1, Lo: 2}}
	other   = core.NodeKey{Node: "other", Incarnation: 5}
)

// made makes changes for a node, one request for all, and returns the answers.
func made(t *testing.T, e *elsewhere, from core.NodeKey, list ...TaskChange) []taskAnswer {
	t.Helper()
	a := says(e, from, &taskChanges{list})
	if a.err != nil || len(a.value) != len(list) {
		t.Fatalf("%d changes: %d answers, %v", len(list), len(a.value), a.err)
	}
	return a.value
}

// stored is the record of taskOne in the shard's table.
func stored(t *testing.T, e *elsewhere) (TaskRecord, bool) {
	t.Helper()
	rec, ok := e.reg.Led()[0].Get(taskOne.key())
	if !ok {
		return TaskRecord{}, false
	}
	task, err := readTaskRecord(rec.Value)
	if err != nil {
		t.Fatal(err)
	}
	return task, true
}

// by is a change with the node that asks for it.
type by struct {
	from   core.NodeKey
	change TaskChange
}

// TestTaskRules: what the leader does with each change, in each state that the record can be in.
func TestTaskRules(t *testing.T) {
	work := TaskRecord{Digest: 1, Recipe: []byte("r")}
	is := func(submitter core.NodeKey, attempt uint32, outcome string) TaskRecord {
		task := TaskRecord{Submitter: submitter, Attempt: attempt, Digest: 1, Recipe: []byte("r")}
		if outcome != "" {
			task.Outcome = []byte(outcome)
		}
		return task
	}
	enter := EnterTask(taskOne, work)
	settle := func(attempt uint32, outcome string) TaskChange { return SettleTask(taskOne, attempt, []byte(outcome)) }
	computed := func(attempt uint32, at TaskObject) TaskChange { return ComputedTask(taskOne, attempt, at) }
	holds := func(task TaskRecord, at TaskObject) TaskRecord {
		task.Object = at
		return task
	}
	at, elsewhere := TaskObject{Owner: other, Number: 3}, TaskObject{Owner: aliveNode}
	entered := []by{{aliveNode, enter}}
	settled := []by{{aliveNode, enter}, {aliveNode, settle(1, "v")}}
	byDead := []by{{deadNode, enter}} // dies then
	byDeadSettled := []by{{deadNode, enter}, {deadNode, settle(1, "v")}}
	claimed := []by{{deadNode, enter}, {core.NodeKey{}, TaskChange{}}, {aliveNode, ClaimTask(taskOne)}}
	for name, c := range map[string]struct {
		before  []by // the zero node stands for the death of deadNode, which is dead in the end in any case
		from    core.NodeKey
		change  TaskChange
		refused bool
		after   TaskRecord // zero: there is none
	}{
		"enter, first":                                      {nil, aliveNode, enter, false, is(aliveNode, 1, "")},
		"enter with its outcome":                            {nil, aliveNode, EnterTask(taskOne, TaskRecord{Digest: 1, Outcome: []byte("v")}), false, TaskRecord{Submitter: aliveNode, Attempt: 1, Digest: 1, Outcome: []byte("v")}},
		"enter as somebody else":                            {nil, aliveNode, EnterTask(taskOne, is(other, 9, "")), false, is(aliveNode, 1, "")},
		"enter again":                                       {entered, aliveNode, enter, false, is(aliveNode, 1, "")},
		"enter again, settled":                              {settled, aliveNode, enter, false, is(aliveNode, 1, "v")},
		"enter again with another recipe":                   {entered, aliveNode, EnterTask(taskOne, TaskRecord{Digest: 1, Recipe: []byte("x")}), false, is(aliveNode, 1, "")},
		"enter what a living node has":                      {entered, other, enter, true, is(aliveNode, 1, "")},
		"enter what a living node has settled":              {settled, other, enter, true, is(aliveNode, 1, "v")},
		"enter what a dead node had":                        {byDead, other, enter, false, is(other, 2, "")},
		"enter with another recipe what a dead node had":    {byDead, other, EnterTask(taskOne, TaskRecord{Digest: 1, Recipe: []byte("x")}), false, TaskRecord{Submitter: other, Attempt: 2, Digest: 1, Recipe: []byte("x")}},
		"claim with another recipe what a dead node had":    {byDead, other, TaskChange{kind: taskClaim, key: taskOne, rec: &TaskRecord{Recipe: []byte("x")}}, false, is(other, 2, "")},
		"enter what a dead node had settled":                {byDeadSettled, other, enter, false, is(other, 2, "v")},
		"enter other content":                               {entered, aliveNode, EnterTask(taskOne, TaskRecord{Digest: 2}), true, is(aliveNode, 1, "")},
		"enter other content than a dead node":              {byDead, other, EnterTask(taskOne, TaskRecord{Digest: 2}), true, is(deadNode, 1, "")},
		"enter by a dead node":                              {nil, deadNode, enter, true, TaskRecord{}},
		"enter again by a dead node":                        {byDead, deadNode, enter, true, is(deadNode, 1, "")},
		"claim what there is not":                           {nil, other, ClaimTask(taskOne), false, TaskRecord{}},
		"claim what a living node has":                      {entered, other, ClaimTask(taskOne), true, is(aliveNode, 1, "")},
		"claim what a dead node had":                        {byDead, other, ClaimTask(taskOne), false, is(other, 2, "")},
		"claim what a dead node had settled":                {byDeadSettled, other, ClaimTask(taskOne), false, is(other, 2, "v")},
		"claim what another has claimed":                    {claimed, other, ClaimTask(taskOne), true, is(aliveNode, 2, "")},
		"claim from a living node":                          {entered, other, ClaimTaskFrom(taskOne, 1), false, is(other, 2, "")},
		"claim from the one before":                         {claimed, other, ClaimTaskFrom(taskOne, 1), true, is(aliveNode, 2, "")},
		"claim from a living node what it has settled":      {settled, other, ClaimTaskFrom(taskOne, 1), true, is(aliveNode, 1, "v")},
		"claim from a node what there is not":               {nil, other, ClaimTaskFrom(taskOne, 1), false, TaskRecord{}},
		"claim from oneself":                                {claimed, aliveNode, ClaimTaskFrom(taskOne, 2), false, is(aliveNode, 2, "")},
		"claim from a dead node":                            {byDead, other, ClaimTaskFrom(taskOne, 1), false, is(other, 2, "")},
		"claim again":                                       {claimed, aliveNode, ClaimTask(taskOne), false, is(aliveNode, 2, "")},
		"claim by a dead node":                              {byDead, deadNode, ClaimTask(taskOne), true, is(deadNode, 1, "")},
		"settle":                                            {entered, aliveNode, settle(1, "v"), false, is(aliveNode, 1, "v")},
		"settle again":                                      {settled, aliveNode, settle(1, "v"), false, is(aliveNode, 1, "v")},
		"settle otherwise":                                  {settled, aliveNode, settle(1, "w"), true, is(aliveNode, 1, "v")},
		"settle what is not known":                          {nil, aliveNode, settle(1, "v"), true, TaskRecord{}},
		"settle what another has":                           {entered, other, settle(1, "v"), true, is(aliveNode, 1, "")},
		"settle an attempt to come":                         {entered, aliveNode, settle(2, "v"), true, is(aliveNode, 1, "")},
		"settle an earlier attempt":                         {claimed, aliveNode, settle(1, "v"), true, is(aliveNode, 2, "")},
		"settle the attempt of the node before":             {claimed, deadNode, settle(1, "v"), true, is(aliveNode, 2, "")},
		"settle the attempt of the next, by the one before": {claimed, deadNode, settle(2, "v"), true, is(aliveNode, 2, "")},
		"settle by a dead node":                             {byDead, deadNode, settle(1, "v"), true, is(deadNode, 1, "")},
		"compute an object":                                 {entered, aliveNode, computed(1, at), false, holds(is(aliveNode, 1, ""), at)},
		"compute it again, elsewhere":                       {[]by{{aliveNode, enter}, {aliveNode, computed(1, at)}}, aliveNode, computed(1, elsewhere), false, holds(is(aliveNode, 1, ""), elsewhere)},
		"compute what is not known":                         {nil, aliveNode, computed(1, at), true, TaskRecord{}},
		"compute what another has":                          {entered, other, computed(1, at), true, is(aliveNode, 1, "")},
		"compute an earlier attempt":                        {claimed, aliveNode, computed(1, at), true, is(aliveNode, 2, "")},
		"claim what a dead node had computed":               {[]by{{deadNode, enter}, {deadNode, computed(1, at)}}, other, ClaimTask(taskOne), false, holds(is(other, 2, ""), at)},
		"enter what a dead node had computed":               {[]by{{deadNode, enter}, {deadNode, computed(1, at)}}, other, enter, false, holds(is(other, 2, ""), at)},
		"enter with an object":                              {nil, aliveNode, EnterTask(taskOne, holds(work, at)), false, holds(is(aliveNode, 1, ""), at)},
		"forget":                                            {settled, aliveNode, ForgetTask(taskOne), false, TaskRecord{}},
		"forget what another has":                           {entered, other, ForgetTask(taskOne), true, is(aliveNode, 1, "")},
		"forget what another has claimed":                   {claimed, deadNode, ForgetTask(taskOne), true, is(aliveNode, 2, "")},
		"forget what there is not":                          {nil, other, ForgetTask(taskOne), false, TaskRecord{}},
	} {
		t.Run(name, func(t *testing.T) {
			e := served(t)
			for _, b := range c.before {
				if b.from == (core.NodeKey{}) {
					e.dead.Store(deadNode, true)
				} else if a := made(t, e, b.from, b.change)[0]; a.Refused || a.err != nil {
					t.Fatalf("to begin with: %+v", a)
				}
			}
			e.dead.Store(deadNode, true)
			a := made(t, e, c.from, c.change)[0]
			want := TaskEntry{Refused: c.refused, Exists: c.after.Attempt > 0, Record: c.after}
			if c.change.answersWithoutRecipe() {
				want.Record.Recipe = nil // the asker has it
			}
			if a.err != nil || a.Refused != want.Refused || a.Exists != want.Exists || !same(&a.Record, &want.Record) {
				t.Errorf("the leader answers %+v, want %+v", a, want)
			}
			if now, ok := stored(t, e); ok != want.Exists || !same(&now, &c.after) {
				t.Errorf("the record is %+v, want %+v", now, c.after)
			}
		})
	}
}

// TestTaskChangesOfOneRequest: changes of a task in one request are made one after the other, and those of other tasks
// do not depend on them.
func TestTaskChangesOfOneRequest(t *testing.T) {
	e := served(t)
	two, three := taskOne, taskOne
	two.Run, three.ID.Lo = 8, 3
	made(t, e, other, EnterTask(two, TaskRecord{Digest: 5}))
	got := made(t, e, aliveNode,
		EnterTask(taskOne, TaskRecord{Digest: 1, Recipe: []byte("r")}),
		EnterTask(two, TaskRecord{Digest: 5}),
		SettleTask(taskOne, 1, []byte("v")),
		EnterTask(three, TaskRecord{Digest: 1}),
		SettleTask(taskOne, 1, []byte("w")),
		ForgetTask(three),
		ClaimTask(three),
	)
	for i, refused := range []bool{false, true, false, false, true, false, false} {
		if got[i].Refused != refused || got[i].err != nil {
			t.Errorf("change %d: %+v, want refused: %v", i, got[i], refused)
		}
	}
	if got[6].Exists {
		t.Errorf("what was forgotten in the same request is there: %+v", got[6])
	}
	if now, _ := stored(t, e); string(now.Outcome) != "v" {
		t.Errorf("the record is %+v, want the first outcome", now)
	}
}

// TestTaskRecordOfANewerNode: nothing is made of it and nothing overwritten, and other changes of the request are made.
func TestTaskRecordOfANewerNode(t *testing.T) {
	e := served(t)
	newer := append([]byte{taskRecordVersion + 1}, "what a newer node knows"...)
	if _, err := e.reg.Led()[0].Commit(t.Context(), shardlog.Batch{Puts: []shardlog.Put{{Key: taskOne.key(), Value: newer}}}); err != nil {
		t.Fatal(err)
	}
	e.dead.Store(deadNode, true)
	two := taskOne
	two.Run++
	got := made(t, e, aliveNode, EnterTask(two, TaskRecord{}), EnterTask(taskOne, TaskRecord{}), ClaimTask(taskOne), SettleTask(taskOne, 1, []byte("v")), ForgetTask(taskOne))
	for i, a := range got {
		if errors.Is(a.err, graindir.ErrUnreadable) != (i > 0) {
			t.Errorf("change %d: %+v; want ErrUnreadable of the record of a newer node alone", i, a)
		}
	}
	e.reg.Reap()
	made(t, e, aliveNode, ClaimTask(two)) // whoever is answered comes behind what was sent before
	if rec, ok := e.reg.Led()[0].Get(taskOne.key()); !ok || !bytes.Equal(rec.Value, newer) {
		t.Errorf("the record of a newer node is %q now", rec.Value)
	}
	frame := EnterTask(taskOne, TaskRecord{Digest: 1}).encoded()
	frame[1+8+16+1] = taskRecordVersion + 1
	var ch TaskChange
	r := wire.NewReader(frame)
	if err := ch.read(&r); err != nil || !errors.Is(ch.bad, graindir.ErrUnreadable) {
		t.Errorf("a change by a newer node is read as %+v, %v; want that it fails alone", ch, err)
	}
	if a := made(t, e, aliveNode, ch, ClaimTask(two)); !errors.Is(a[0].err, graindir.ErrUnreadable) || a[1].err != nil {
		t.Errorf("a change by a newer node, and another: %+v", a)
	}
}

func (ch TaskChange) encoded() []byte { return ch.append(nil) }

// FuzzTaskRecord reads any bytes as the record of a task: what is accepted says the same when it is written again.
func FuzzTaskRecord(f *testing.F) {
	for _, task := range []TaskRecord{{}, {Submitter: other, Attempt: 1 << 31, Digest: 1 << 63, Recipe: []byte("r"), Outcome: []byte("o"), Detached: true, Name: "n"}, named(1), retained(1, 2), {Object: TaskObject{Owner: other, Number: 3}}} {
		f.Add(task.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := readTaskRecord(b)
		if err != nil {
			return
		}
		if again, err := readTaskRecord(first.append(nil)); err != nil || !same(&again, &first) {
			t.Fatalf("%+v is written and read as %+v, %v", first, again, err)
		}
	})
}

// same compares records, where no bytes and nil are one.
func same(a, b *TaskRecord) bool {
	return a.Submitter == b.Submitter && a.Attempt == b.Attempt && a.Digest == b.Digest && a.Detached == b.Detached && a.Name == b.Name &&
		a.Start == b.Start && a.Namespace == b.Namespace && a.Function == b.Function && slices.Equal(a.States, b.States) && a.Object == b.Object &&
		bytes.Equal(a.Recipe, b.Recipe) && bytes.Equal(a.Outcome, b.Outcome)
}

// FuzzTaskChanges reads any bytes as a request with changes, and as the answer to one: what is accepted is written and
// read as the same.
func FuzzTaskChanges(f *testing.F) {
	asked := &taskChanges{[]TaskChange{EnterTask(taskOne, TaskRecord{Digest: 1, Recipe: []byte("r")}), SettleTask(taskOne, 1, []byte("v")), ClaimTask(taskOne), ComputedTask(taskOne, 1, TaskObject{Owner: other}), ClaimTaskFrom(taskOne, 1)}}
	f.Add(asked.append(nil), true)
	entry := TaskEntry{Exists: true, Record: TaskRecord{Submitter: other, Attempt: 1, Recipe: []byte("r"), Outcome: []byte("v")}}
	f.Add(asked.appendAnswer(nil, []taskAnswer{{TaskEntry: entry}, {again: true}, {err: raysys.ErrTooLarge}, {TaskEntry: entry}}), false)
	f.Fuzz(func(t *testing.T, b []byte, question bool) {
		r := wire.NewReader(b)
		if question {
			var first, again taskChanges
			if first.read(&r) != nil || r.Err() != nil {
				return
			}
			written := first.append(nil)
			r = wire.NewReader(written)
			if err := again.read(&r); err != nil || !bytes.Equal(again.append(nil), written) {
				t.Fatalf("%+v is written and read as %+v, %v", first, again, err)
			}
			return
		}
		first, err := asked.readAnswer(&r)
		if err != nil || r.Err() != nil {
			return
		}
		written := asked.appendAnswer(nil, first)
		r = wire.NewReader(written)
		if again, err := asked.readAnswer(&r); err != nil || !bytes.Equal(asked.appendAnswer(nil, again), written) {
			t.Fatalf("%+v is written and read as %+v, %v", first, again, err)
		}
	})
}
