package lineage_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/wire"
)

// TestBorrowsInputs: who adopts a task asks for its inputs when it reads the record, and not when the task begins: their owners free them
// soon after the death of the submitter. A record has the owner's number; one that was made before that was known is read too.
func TestBorrowsInputs(t *testing.T) {
	const gone, otherOf, valueOf, held = 0, 2, 3, 6 // forms of an input
	id := raysys.TaskID{Hi: 1, Lo: 2}
	at := wire.AppendNode(wire.AppendID(nil, id), other)
	theirs := append([]byte{held}, wire.AppendUvarint(at, objectNumber)...)
	for _, c := range []struct {
		name  string
		input []byte
		want  []string
	}{
		{"a held value", theirs, []string{fmt.Sprint(other, " 3")}},
		{"one inside a value", append(append(wire.AppendBytes(wire.AppendID([]byte{valueOf}, id), "value"), 1), theirs...), []string{fmt.Sprint(other, " 3")}},
		{"an earlier record", append([]byte{otherOf}, at...), nil},
		{"what is gone", wire.AppendBytes([]byte{gone}, "why"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			defer close(b.open)
			r := b.held.Go(b.ctx, "a")
			rec, id := b.submitted(core.FutureOf(r.Link), self), core.FutureOf(r.Link).ID()
			const version, inputs = 1, 1
			rd := wire.NewReader(rec.Recipe[2:])
			body := rd.Bytes()
			rec.Recipe = append(append([]byte{version, inputs}, c.input...), rec.Recipe[2:]...)
			_, got := b.succeed(id)
			b.answer(registry.TaskEntry{Exists: true, Record: rec}, nil)
			got.wants(t, "this node has become the submitter", nil)
			if adopted := b.Find(run, id); adopted == nil || adopted.Settled() {
				t.Error("the task is not adopted, or has begun")
			}
			if !slices.Equal(b.borrowed, c.want) {
				t.Errorf("owners are asked for %q, want %q", b.borrowed, c.want)
			}
			if diff := lineage.Difference(rec.Recipe, body); diff != "" {
				t.Errorf("it differs from itself: %s", diff)
			}
		})
	}
}
