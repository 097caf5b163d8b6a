package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
)

var allForms = []objectstore.Form{objectstore.Heap, objectstore.Segment, objectstore.Disk}

func TestReceiveInAnyOrder(t *testing.T) {
	for _, form := range allForms {
		t.Run(form.String(), func(t *testing.T) {
			s := open(t, objectstore.Config{Budget: 64 * mib})
			want := content(1, 9*mib+5)
			in, err := s.Receive(context.Background(), version(1, want), form)
			if err != nil {
				t.Fatal(err)
			}
			if in.Form() != form {
				t.Errorf("the form is %v", in.Form())
			}
			todo := make(chan int, objectstore.Chunks(in.Version().Size))
			for _, i := range rand.New(rand.NewPCG(long.Seed(), 0)).Perm(cap(todo)) {
				todo <- i
			}
			close(todo)
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					for i := range todo {
						at, n := in.Version().Section(i)
						b := in.Buffer(i)
						if in.Buffer(i) != nil {
							t.Error("a buffer was lent twice")
						}
						copy(b, want[at:at+int64(n)])
						if err := in.Filled(i, objectstore.Checksum(want[at:at+int64(n)])); err != nil {
							t.Error(err)
						}
						if in.Buffer(i) != nil {
							t.Error("a chunk that came was lent again")
						}
					}
				})
			}
			// A reader takes the chunks meanwhile, in order.
			for i := range cap(todo) {
				at, n := in.Version().Section(i)
				c, err := in.Object().Chunk(context.Background(), i)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(join(t, c), want[at:at+int64(n)]) {
					t.Errorf("chunk %d was read wrong", i)
				}
			}
			work.Wait()
			if err := in.Done(context.Background()); err != nil || len(in.Missing()) != 0 {
				t.Fatal(err, in.Missing())
			}
			same(t, in.Object(), want)
			in.Abort(errors.New("too late"))
			same(t, in.Object(), want)
			in.Object().Release()
			empty(t, s)
		})
	}
}

func TestReceiveRefusesWrongBytes(t *testing.T) {
	for _, form := range allForms {
		s := open(t, objectstore.Config{Budget: 16 * mib})
		want := content(1, 2*mib+5)
		in, err := s.Receive(context.Background(), version(1, want), form)
		if err != nil {
			t.Fatal(err)
		}
		b := in.Buffer(2)
		copy(b, want[2*mib:])
		b[3] ^= 1
		var wrong *objectstore.ChunkError
		if err := in.Filled(2, objectstore.Checksum(want[2*mib:])); !errors.As(err, &wrong) || wrong.Chunk != 2 {
			t.Errorf("%v: wrong bytes: %v", form, err)
		}
		if err := in.Filled(2, objectstore.Checksum(want[2*mib:])); err == nil {
			t.Error("a chunk that is not lent was filled")
		}
		in.Buffer(1)
		if got := in.Missing(); !slices.Equal(got, []int{0, 2}) {
			t.Errorf("missing %v", got)
		}
		in.Return(1)
		fill(t, in, want)
		same(t, in.Object(), want)
		in.Object().Release()
		empty(t, s)
	}
}

func TestReceiveChecksTheVersion(t *testing.T) {
	s := open(t, objectstore.Config{Budget: mib})
	for what, spoil := range map[string]func(v *objectstore.Version){
		"no id":         func(v *objectstore.Version) { v.ID = raysys.TaskID{} },
		"no nonce":      func(v *objectstore.Version) { v.Nonce = 0 },
		"negative size": func(v *objectstore.Version) { v.Size = -1 },
		"huge size":     func(v *objectstore.Version) { v.Size = objectstore.MaxSize + 1 },
	} {
		v := version(1, content(1, 100))
		spoil(&v)
		if in, err := s.Receive(context.Background(), v, objectstore.Heap); err == nil {
			in.Abort(nil)
			t.Errorf("an object with %s was received", what)
		}
	}
	empty(t, s)
}

func TestReceiveOnce(t *testing.T) {
	s := open(t, objectstore.Config{Budget: mib})
	m := version(1, content(1, 100))
	in, err := s.Receive(context.Background(), m, objectstore.Heap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(context.Background(), m, objectstore.Heap); !errors.Is(err, objectstore.ErrPresent) {
		t.Errorf("twice: %v", err)
	}
	if _, err := s.Add(context.Background(), id(1), 1, newValue(nil)); !errors.Is(err, objectstore.ErrPresent) {
		t.Errorf("add while it comes: %v", err)
	}
	in.Abort(nil)
	receive(t, s, 1, content(1, 100), objectstore.Heap).Release()
	empty(t, s)
}

func TestAbortTellsWhoWaits(t *testing.T) {
	for _, form := range allForms {
		s := open(t, objectstore.Config{Budget: 16 * mib, Warm: -1})
		want := content(1, 3*mib)
		in, err := s.Receive(context.Background(), version(1, want), form)
		if err != nil {
			t.Fatal(err)
		}
		o := in.Object()
		b := in.Buffer(0)
		copy(b, want)
		if err := in.Filled(0, objectstore.Checksum(b)); err != nil {
			t.Fatal(err)
		}
		held, err := o.Chunk(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		late := in.Buffer(1)
		ended := make(chan error, 4)
		for _, f := range []func() error{
			func() error { _, err := o.Chunk(context.Background(), 1); return err },
			func() error { _, err := o.Bytes(context.Background()); return err },
			func() error { _, err := o.Map(context.Background()); return err },
			func() error { return in.Done(context.Background()) },
		} {
			go func() { ended <- f() }()
		}
		why := errors.New("the source died")
		in.Abort(why)
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, why) {
				t.Errorf("%v: who waited got %v", form, err)
			}
		}
		// A sender and a writer that did not hear of it do no harm.
		copy(late, want[mib:])
		if form != objectstore.Disk && !bytes.Equal(bytes.Join(held.Pieces, nil), want[:mib]) {
			t.Error("what is being sent changed")
		} else if form == objectstore.Disk && !bytes.Equal(join(t, held), want[:mib]) {
			t.Error("what is being sent changed")
		}
		if err := in.Filled(1, objectstore.Checksum(want[mib:2*mib])); !errors.Is(err, why) {
			t.Errorf("filled after the end: %v", err)
		}
		held.Release()
		if in.Buffer(2) != nil || in.Missing() != nil || s.Lookup(id(1)) != nil {
			t.Error("it goes on after Abort")
		}
		empty(t, s)
	}
}

func TestWaitForAChunkEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := objectstore.Open(objectstore.Config{Budget: 16 * mib})
		if err != nil {
			t.Fatal(err)
		}
		want := content(1, 2*mib)
		in, err := s.Receive(context.Background(), version(1, want), objectstore.Heap)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		go func() { _, err := in.Object().Chunk(ctx, 1); ended <- err }()
		go func() { ended <- in.Done(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		// Close ends who still waits.
		go func() { _, err := in.Object().Bytes(context.Background()); ended <- err }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, raysys.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestReceiveLargerThanTheBudget(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	want := content(1, 20*mib+1)
	for _, form := range allForms {
		in, err := s.Receive(context.Background(), version(1, want), form)
		if err != nil {
			t.Fatal(err)
		}
		if in.Form() != objectstore.Disk {
			t.Errorf("%v: it goes to %v", form, in.Form())
		}
		for _, i := range in.Missing() {
			at, n := in.Version().Section(i)
			copy(in.Buffer(i), want[at:at+int64(n)])
			if st := s.Stats(); st.Used > st.Budget {
				t.Fatalf("%d bytes used", st.Used)
			}
			if err := in.Filled(i, objectstore.Checksum(want[at:at+int64(n)])); err != nil {
				t.Fatal(err)
			}
		}
		o := in.Object()
		same(t, o, want)
		if st := s.Stats(); st.Used > st.Budget {
			t.Errorf("%d bytes used", st.Used)
		}
		empty(t, s, o)
	}
}

func TestNoRoomBecauseOfPinsGoesToDisk(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	o := receive(t, s, 1, content(1, 3*mib), objectstore.Heap)
	o.Pin()
	p := receive(t, s, 2, content(2, 3*mib), objectstore.Heap)
	if f := forms(p); !slices.Equal(f, []string{"file"}) {
		t.Errorf("forms %v", f)
	}
	same(t, p, content(2, 3*mib))
	o.Unpin()
	empty(t, s, o, p)
}

func TestWarmSegmentsAreUsedAgain(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 32 * mib, Warm: 8 * mib})
	o := receive(t, s, 1, content(1, 4*mib), objectstore.Segment)
	first, err := o.Map(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	at := &first.Bytes()[0]
	first.Close()
	o.Release()
	if st := s.Stats(); st.Warm == 0 {
		t.Skip("no segments here")
	}
	again := receive(t, s, 2, content(2, 4*mib-99), objectstore.Segment)
	same(t, again, content(2, 4*mib-99))
	m, err := again.Map(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if &m.Bytes()[0] != at {
		t.Error("the warm segment was not used again")
	}
	m.Close()
	again.Release()
	small := receive(t, s, 3, content(3, mib), objectstore.Segment)
	if st := s.Stats(); st.Warm != 4*mib {
		t.Errorf("a quarter of a segment was used: %+v", st)
	}
	small.Release()
	large := receive(t, s, 4, content(4, 12*mib), objectstore.Segment)
	large.Release()
	if st := s.Stats(); st.Warm != 5*mib || st.Used != st.Warm {
		t.Errorf("more is warm than may be: %+v", st)
	}
	// Warm memory goes before anything is dropped.
	keep := receive(t, s, 5, content(5, mib), objectstore.Heap)
	full := receive(t, s, 6, content(6, 31*mib), objectstore.Heap)
	if s.Lookup(id(5)) != keep || s.Stats().Warm != 0 {
		t.Errorf("%+v", s.Stats())
	}
	empty(t, s, keep, full)
}

func TestSegmentsAreBounded(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 64 * mib, Warm: 3 * mib})
	var objects []*objectstore.Object
	objectstore.Segments(s, 3)
	for n := range 5 {
		o := receive(t, s, n, content(n, mib+n+1), objectstore.Segment)
		want := []string{"segment"}
		if n >= 3 {
			want = []string{"heap"}
		}
		if f := forms(o); !slices.Equal(f, want) && runtime.GOOS == "linux" {
			t.Errorf("object %d has the forms %v", n, f)
		}
		objects = append(objects, o)
	}
	small := receive(t, s, 9, content(9, 100*kib), objectstore.Segment)
	if f := forms(small); !slices.Equal(f, []string{"heap"}) {
		t.Errorf("a small one has the forms %v", f)
	}
	for _, o := range append(objects, small) {
		o.Release()
	}
	if n, st := objectstore.Segments(s, 2), s.Stats(); int64(n) != st.Warm/(mib+64*kib) {
		t.Errorf("%d segments are counted, %+v", n, st)
	}
	// One that is idle and does not fit makes place for one that does.
	large := receive(t, s, 10, content(10, 5*mib), objectstore.Segment)
	if f := forms(large); !slices.Equal(f, []string{"segment"}) && runtime.GOOS == "linux" {
		t.Errorf("beside idle segments there is none for it: %v", f)
	}
	empty(t, s, large)
}

func TestWithoutSegments(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 8 * mib})
	objectstore.WithoutSegments(s)
	o := receive(t, s, 1, content(1, 2*mib), objectstore.Segment)
	if f := forms(o); !slices.Equal(f, []string{"heap"}) {
		t.Errorf("forms %v", f)
	}
	same(t, o, content(1, 2*mib))
	if _, err := o.Share(context.Background()); !errors.Is(err, objectstore.ErrNotShareable) {
		t.Errorf("share: %v", err)
	}
	empty(t, s, o)
}

func TestReceiveAgainAfterLoss(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 8 * mib})
	want := content(1, 2*mib)
	o := receive(t, s, 1, want, objectstore.Disk)
	o.SetPrimary(true)
	removeSpillFiles(t, s)
	if _, err := o.Bytes(context.Background()); !errors.Is(err, raysys.ErrObjectLost) {
		t.Fatalf("bytes: %v", err)
	}
	if o.Lost() == nil || s.Lookup(id(1)) != o {
		t.Fatal("the lost primary is not known as such")
	}
	other := version(1, content(2, 2*mib))
	if _, err := s.Receive(context.Background(), other, objectstore.Heap); err == nil {
		t.Error("another version was received under the id")
	}
	again := receive(t, s, 1, want, objectstore.Heap)
	if again != o || o.Lost() != nil || !o.Primary() {
		t.Error("it is another object now")
	}
	same(t, o, want)
	empty(t, s, o)
}
