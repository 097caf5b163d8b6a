package taskengine_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// pendingExports counts the pending exports of an end, and what becomes of them.
type pendingExports struct {
	*end
	open int
}

// PendingExports implements wire.Exporter.
func (e *end) PendingExports() wire.PendingExports { return &pendingExports{end: e} }

func (l *pendingExports) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	l.open++
	return l.end.AppendRef(dst, c)
}

func (l *pendingExports) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	return l.AppendRef(dst, c)
}

func (l *pendingExports) Mark() int { return l.open }

func (l *pendingExports) Sent(from, to int) {
	l.open -= to - from
	l.sentExports.Add(int64(to - from))
}

func (l *pendingExports) TakeBack(from, to int) {
	l.open -= to - from
	l.taken.Add(int64(to - from))
}

// TestRefusedFramesExportNothing: the pending exports of a frame that the link did not take are taken back, and sent
// once with the frame that it takes.
func TestRefusedFramesExportNothing(t *testing.T) {
	table := raysys.NewTable()
	length := tasks.DefineIn(table, "length", func(ctx context.Context, in []raysys.Handle[[]byte]) (int, error) {
		n := 0
		for _, h := range in {
			b, err := h.Ref().Get(ctx)
			if err != nil {
				return 0, err
			}
			n += len(b)
		}
		return n, nil
	})
	padded := tasks.DefineIn(table, "padded", func(_ context.Context, in struct {
		Pad    []byte
		Handle raysys.Handle[int]
	},
	) (int, error) {
		return len(in.Pad), nil
	})
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 1000) // with as many CPUs as tasks: it gives none back, however slow it is
	l := join(t, d, w)
	n := 0
	l.rule(func(_ raysys.NodeID, c wire.Class, k wire.Kind, _ []byte) fate {
		if k == wire.KindTasks {
			if n++; n%3 != 0 { // one goroutine at a time sends tasks
				return refuse
			}
		}
		return deliver
	})
	ctx := d.ctx()
	var refs []raysys.Ref[int]
	exported := 0
	for i := range 200 {
		var in []raysys.Handle[[]byte]
		for range i % 4 {
			in = append(in, raysys.Put(ctx, make([]byte, 100)).Handle())
		}
		exported += len(in)
		refs = append(refs, length.Go(ctx, in))
		if i%20 == 0 { // as large as a frame of their own, and as what ends a frame that others are in
			for _, size := range []int{100 << 10, 60 << 10} {
				exported++
				refs = append(refs, padded.Go(ctx, struct {
					Pad    []byte
					Handle raysys.Handle[int]
				}{make([]byte, size), raysys.Put(ctx, 1).Handle()}))
			}
		}
	}
	for _, r := range refs {
		if _, err := nodetest.Get(t, ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	e := l.ends[0]
	// An export is sent when the link has taken its frame, which the answer may overtake.
	nodetest.Eventually(t, "all references are exported", func() bool { return e.sentExports.Load() >= int64(exported) })
	if got := e.sentExports.Load(); got != int64(exported) || e.taken.Load() == 0 {
		t.Errorf("%d references were exported, of %d, and %d taken back", got, exported, e.taken.Load())
	}
}
