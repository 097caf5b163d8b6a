package replay

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// standing is a shard without a grain, whose calls come and go by hand.
type standing struct{ *shard }

func stand(ctx context.Context, tables ...Table) standing {
	s := &shard{}
	cfg, err := Config{Tables: tables}.complete()
	if err != nil {
		panic(err)
	}
	s.begin(ctx, cfg, 0)
	return standing{s}
}

// insert puts a call of items, one in each of the tables, into its line.
func (s standing) insert(ctx context.Context, id uint64, tables ...uint16) *inserting {
	n := len(tables)
	b := batch{ID: id, Tables: tables, Priorities: make([]float64, n), First: make([]uint32, n), Last: make([]uint32, n)}
	for i := range n {
		b.Last[i], b.Priorities[i] = 1, float64(id)
	}
	in := &inserting{waiting: waiting{ended: ctx}, later: &grains.Later[uint64]{}, batch: b, chunk: &chunk{data: []byte{1}, ends: []uint32{1}}}
	s.waits.insert(in)
	return in
}

func (s standing) sample(ctx context.Context, table uint16, n int) *sampling {
	ask := &sampling{waiting: waiting{ended: ctx}, later: &grains.Later[answer]{}, ask: question{Table: table, N: n}}
	s.waits.sample(ask)
	return ask
}

// TestFewAreLookedAt: how many calls an insert and a sample look at does not grow with those that wait.
func TestFewAreLookedAt(t *testing.T) {
	ctx := testkit.New(t).Context()
	looked := func(waiting int) (perInsert, perSample int) {
		queue := Table{Name: "q", Sampler: FIFO, MaxSize: 5, MaxTimesSampled: 1, Limiter: Queue(5)}
		s := stand(ctx, queue, Table{Name: "never", MaxSize: 10, Limiter: MinSize(10)})
		for i := range waiting {
			s.insert(ctx, uint64(i+1), 0)
			s.sample(ctx, 1, 1)
		}
		s.pump(nil)
		before := s.waits.looked
		for range 50 {
			s.sample(ctx, 0, 1)
			s.pump(nil)
		}
		perSample = (s.waits.looked - before) / 50
		if in := s.tables[0].inserts; in != 55 {
			t.Fatal(in, "are in")
		}
		before = s.waits.looked
		for i := range 50 {
			s.insert(ctx, uint64(waiting+i+1), 0)
			s.pump(nil)
		}
		return (s.waits.looked - before) / 50, perSample
	}
	insert, sample := looked(100)
	if manyInsert, manySample := looked(2000); manyInsert != insert || manySample != sample || insert > 4 || sample > 8 {
		t.Errorf("an insert looks at %d calls, a sample at %d; where 20 times as many wait %d and %d", insert, sample, manyInsert, manySample)
	}
}

// TestLines: whatever comes, is cancelled and comes again, calls of a table go on in the order in which they came, each item once, and none waits
// that may go on.
func TestLines(t *testing.T) {
	ctx := testkit.New(t).Context()
	rapid.Check(t, func(t *rapid.T) {
		queue := func(name string) Table {
			return Table{Name: name, Sampler: FIFO, MaxSize: 5, MaxTimesSampled: 1, Limiter: Queue(rapid.IntRange(1, 5).Draw(t, "queue"))}
		}
		s := stand(ctx, queue("a"), queue("b"))
		var ins []*inserting
		var asks []*sampling
		ends := map[uint64]context.CancelFunc{}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 4:
				short, cancel := context.WithCancel(context.Background())
				id := uint64(len(ins) + 1)
				ends[id] = cancel
				table := uint16(rapid.IntRange(0, 2).Draw(t, "table"))
				tables := []uint16{table, table, table}
				if table == 2 {
					tables = []uint16{0, 1, 0}
				}
				ins = append(ins, s.insert(short, id, tables...))
			case op < 8:
				asks = append(asks, s.sample(context.Background(), uint16(rapid.IntRange(0, 1).Draw(t, "table")), rapid.IntRange(1, 4).Draw(t, "n")))
			case len(ins) > 0: // and what is left comes again, as after a broken way
				i := rapid.IntRange(0, len(ins)-1).Draw(t, "which")
				old := ins[i]
				if ends[old.batch.ID](); rapid.Bool().Draw(t, "again") && old.at != nil {
					again := &inserting{waiting: waiting{ended: context.Background()}, later: old.later, batch: old.batch, chunk: old.chunk, next: old.next}
					s.waits.replace(old, again)
					ins[i] = again
				}
			}
			s.pump(nil)
			for i, table := range s.tables {
				l := &s.waits.lines[i]
				for at := l.inserts.Front(); at != nil; at = at.Next() {
					if in := at.Value.(*inserting); !in.over() && table.mayInsert() || s.waits.inserts[in.batch.ID] != in || int(in.batch.Tables[in.next]) != i {
						t.Fatalf("step %d: insert %d waits for table %d", step, in.batch.ID, i)
					}
				}
				if l.samples.Len() > 0 && table.maySample(1) > 0 {
					t.Fatalf("step %d: a sample of table %d waits", step, i)
				}
			}
		}
		want := []uint64{0, 0} // what each table has been given
		for i, in := range ins {
			for _, table := range in.batch.Tables[:in.next] {
				want[table]++
			}
			if in.at == nil && in.next < 3 && !in.over() {
				t.Fatal("insert", in.batch.ID, "is gone with", in.next, "items in")
			}
			for _, later := range ins[i+1:] { // of the same table alone
				if in.batch.Tables[1] == in.batch.Tables[0] && later.batch.Tables[0] == later.batch.Tables[1] && in.batch.Tables[0] == later.batch.Tables[0] && in.at != nil && !in.over() && later.next > 0 {
					t.Fatalf("insert %d has overtaken %d", later.batch.ID, in.batch.ID)
				}
			}
		}
		for i, table := range s.tables {
			if table.inserts != want[i] {
				t.Fatalf("table %d has taken %d items, of %d", i, table.inserts, want[i])
			}
		}
		for i, ask := range asks {
			for _, later := range asks[i+1:] {
				if ask.ask.Table == later.ask.Table && ask.at != nil && later.at == nil {
					t.Fatal("a sample has overtaken another")
				}
			}
		}
	})
}
