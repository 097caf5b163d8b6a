package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
)

// sums compares the sum of each chunk that o lends with that of b's.
func sums(t tester, o *objectstore.Object, b []byte) {
	t.Helper()
	if v := versionOf(t, o); v.Size != int64(len(b)) {
		t.Errorf("%s where there are %d bytes", v, len(b))
	}
	for i, want := range objectstore.SumsOf(b) {
		if sum, err := chunkSum(o, i); err != nil || sum != want {
			t.Errorf("chunk %d has the sum %x, not %x: %v", i, sum, want, err)
		}
	}
}

// chunkSum lends a chunk and returns its sum.
func chunkSum(o *objectstore.Object, i int) (uint32, error) {
	c, err := o.Chunk(context.Background(), i)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	return c.Sum()
}

// TestVersionOfALiveValue: a live value has a version without a look at every byte, which stays; its sums are those of
// its chunks, in whatever order they are lent.
func TestVersionOfALiveValue(t *testing.T) {
	want := content(1, 5*mib+7)
	s := open(t, objectstore.Config{Budget: 64 * mib})
	v := newValue(want)
	o := add(t, s, 1, v)
	version := versionOf(t, o)
	if err := version.Check(); err != nil || version.ID != id(1) || version.Attempt != 1 || version.Size != int64(len(want)) {
		t.Fatalf("%s: %v", version, err)
	}
	all := objectstore.SumsOf(want)
	for _, i := range rand.New(rand.NewPCG(long.Seed(), 0)).Perm(6) {
		if sum, err := chunkSum(o, i); err != nil || sum != all[i] {
			t.Errorf("chunk %d has the sum %x, not %x: %v", i, sum, all[i], err)
		}
	}
	if _, err := o.Chunk(context.Background(), 6); err == nil {
		t.Error("a chunk behind the end was lent")
	}
	sums(t, o, want)
	if v.calls.Load() != 1 {
		t.Errorf("it was encoded %d times", v.calls.Load())
	}
	if err := objectstore.Spill(o); err != nil || versionOf(t, o) != version {
		t.Errorf("it was %s and is %s: %v", version, versionOf(t, o), err)
	}
	empty(t, s, o)
	nothing := versionOf(t, add(t, s, 2, newValue(nil)))
	if err := nothing.Check(); err != nil || nothing.Size != 0 {
		t.Errorf("nothing at all is %s: %v", nothing, err)
	}
}

// TestEachRunHasItsVersion: two runs of one attempt have two versions, even of equal bytes (rule C22).
func TestEachRunHasItsVersion(t *testing.T) {
	want := content(1, mib)
	s, other := open(t, objectstore.Config{Budget: 64 * mib}), open(t, objectstore.Config{Budget: 64 * mib})
	o := add(t, s, 1, newValue(want))
	first := versionOf(t, o)
	o.Release()
	second := versionOf(t, add(t, s, 1, newValue(want)))
	third := versionOf(t, add(t, other, 1, newValue(want)))
	if first == second || second == third || first == third {
		t.Errorf("of %s, %s and %s two are the same", first, second, third)
	}
}

// TestChangedAfterSending: a value that changed after a chunk of it was sent is noticed wherever it is encoded again.
func TestChangedAfterSending(t *testing.T) {
	for what, look := range map[string]func(s *objectstore.Store, o *objectstore.Object) error{
		"encoded again": func(s *objectstore.Store, o *objectstore.Object) error {
			objectstore.Thin(o)
			_, err := chunkSum(o, 2)
			return err
		},
		"spilled": func(s *objectstore.Store, o *objectstore.Object) error { return objectstore.Spill(o) },
		"shared": func(s *objectstore.Store, o *objectstore.Object) error {
			objectstore.Thin(o)
			_, err := o.Share(context.Background())
			return err
		},
		"shared from what is encoded": func(s *objectstore.Store, o *objectstore.Object) error {
			_, err := o.Share(context.Background())
			return err
		},
		"bytes": func(s *objectstore.Store, o *objectstore.Object) error {
			objectstore.Thin(o)
			_, err := o.Bytes(context.Background())
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t, objectstore.Config{Budget: 64 * mib})
			b := content(1, 4*mib)
			v := newValue(b)
			v.kept.Store(what != "spilled") // what is thinned is the encoding
			o := add(t, s, 1, v)
			if _, err := chunkSum(o, 1); err != nil {
				t.Fatal(err)
			}
			b[mib+5] ^= 1
			if err := look(s, o); !errors.Is(err, raysys.ErrEncode) {
				t.Error(err)
			}
			b[mib+5] ^= 1
			if err := look(s, o); err != nil {
				t.Error("as it was:", err)
			}
			sums(t, o, b)
		})
	}
}

// TestSumsTogether: whoever lends chunks, spills, thins or shares meanwhile, the sums are those of the
// bytes.
func TestSumsTogether(t *testing.T) {
	want := content(1, 5*mib+7)
	all := objectstore.SumsOf(want)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := open(t, objectstore.Config{Budget: 64 * mib})
		v := newValue(want)
		v.kept.Store(seed%2 == 0)
		o := add(t, s, 1, v)
		var work sync.WaitGroup
		for range 4 {
			chunks := r.Perm(6)
			work.Go(func() {
				for _, i := range chunks {
					if sum, err := chunkSum(o, i); err != nil || sum != all[i] {
						t.Errorf("chunk %d has the sum %x, not %x: %v", i, sum, all[i], err)
					}
				}
			})
		}
		for _, k := range r.Perm(5)[:2] {
			work.Go(func() {
				switch k {
				case 0:
					sums(t, o, want)
				case 1:
					if _, err := o.Share(context.Background()); err != nil && !errors.Is(err, objectstore.ErrNotShareable) {
						t.Error(err)
					}
				case 2:
					if b, err := o.Bytes(context.Background()); err != nil || !bytes.Equal(b, want) {
						t.Error(err)
					}
				case 3:
					if m, err := o.Map(context.Background()); err != nil || !bytes.Equal(m.Bytes(), want) {
						t.Error(err)
					} else {
						m.Close()
					}
				case 4: // others need the room of it
					if big, err := s.Add(context.Background(), id(2), 1, newValue(content(2, 60*mib))); err != nil {
						t.Error(err)
					} else {
						big.Release()
					}
				}
			})
		}
		work.Wait()
		sums(t, o, want)
		o.Release()
	}
}

// comes begins to receive b.
func comes(t *testing.T, s *objectstore.Store, n int, b []byte, form objectstore.Form) *objectstore.Incoming {
	t.Helper()
	in, err := s.Receive(context.Background(), version(n, b), form)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// give fills one chunk in, with a sum.
func give(in *objectstore.Incoming, i int, from []byte, sum uint32) error {
	at, n := in.Version().Section(i)
	copy(in.Buffer(i), from[at:at+int64(n)])
	return in.Filled(i, sum)
}

// TestSumsTravel: chunks come in any order with their sums, and readers get both as they come.
func TestSumsTravel(t *testing.T) {
	for _, form := range allForms {
		for _, size := range []int{0, 1, 9*mib + 5} {
			s := open(t, objectstore.Config{Budget: 64 * mib})
			want := content(1, size)
			all := objectstore.SumsOf(want)
			in := comes(t, s, 1, want, form)
			if v := versionOf(t, in.Object()); v != version(1, want) {
				t.Errorf("before the first chunk it is %s", v)
			}
			var readers sync.WaitGroup
			readers.Go(func() { sums(t, in.Object(), want) })
			readers.Go(func() {
				if err := in.Object().Whole(context.Background()); err != nil || len(in.Missing()) > 0 {
					t.Errorf("whole without the chunks %v: %v", in.Missing(), err)
				}
			})
			for i := range all {
				readers.Go(func() {
					if sum, err := chunkSum(in.Object(), i); err != nil || sum != all[i] {
						t.Errorf("chunk %d: %v", i, err)
					}
				})
			}
			for _, i := range rand.New(rand.NewPCG(long.Seed(), 0)).Perm(len(all)) {
				if err := give(in, i, want, all[i]); err != nil {
					t.Error(err)
				}
			}
			readers.Wait()
			if err := in.Done(context.Background()); err != nil {
				t.Error(err)
			}
			sums(t, in.Object(), want)
			same(t, in.Object(), want)
			in.Object().Release()
			empty(t, s)
		}
	}
}

// TestKeptSums: a receiver gives a chunk with the sum that came with it. Bytes that rotted in its memory are no chunk
// to the next receiver, and are not written to a file as the object's.
func TestKeptSums(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 64 * mib})
	want := content(1, 2*mib)
	o := receive(t, s, 1, bytes.Clone(want), objectstore.Heap)
	o.SetPrimary(true)
	b, err := o.Bytes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b[mib+5] ^= 1
	sums(t, o, want)
	if err := objectstore.Spill(o); !errors.Is(err, raysys.ErrEncode) {
		t.Errorf("rotten bytes were written to a file: %v", err)
	}
	b[mib+5] ^= 1
	if err := objectstore.Spill(o); err != nil {
		t.Error(err)
	}
	sums(t, o, want)
	empty(t, s, o)
}

// TestReceiveWrongSums: a chunk that is not what its sum says does not count.
func TestReceiveWrongSums(t *testing.T) {
	for _, form := range allForms {
		s := open(t, objectstore.Config{Budget: 64 * mib})
		want := content(1, 4*mib)
		other := bytes.Clone(want)
		other[2*mib] ^= 1
		all := objectstore.SumsOf(want)
		in := comes(t, s, 1, want, form)
		var wrong *objectstore.ChunkError
		if err := give(in, 0, want, all[0]+1); !errors.As(err, &wrong) || wrong.Chunk != 0 {
			t.Errorf("a wrong sum beside the right bytes: %v", err)
		}
		if err := give(in, 2, other, all[2]); !errors.As(err, &wrong) || wrong.Chunk != 2 {
			t.Errorf("wrong bytes beside the right sum: %v", err)
		}
		for i, sum := range all {
			if err := give(in, i, want, sum); err != nil {
				t.Error(err)
			}
		}
		sums(t, in.Object(), want)
		same(t, in.Object(), want)
		in.Object().Release()
		empty(t, s)
	}
}

// TestWholeGivenUp: a waiter for bytes that will not come learns why.
func TestWholeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, objectstore.Config{Budget: 64 * mib})
		in := comes(t, s, 1, content(1, 3*mib), objectstore.Heap)
		o := in.Object()
		why := errors.New("enough")
		var waits sync.WaitGroup
		waits.Go(func() {
			if err := o.Whole(context.Background()); !errors.Is(err, why) || !errors.Is(err, raysys.ErrObjectLost) {
				t.Error(err)
			}
		})
		synctest.Wait()
		in.Abort(why)
		waits.Wait()
		if _, err := o.Version(context.Background()); !errors.Is(err, why) {
			t.Error(err)
		}
		empty(t, s)
	})
}

// TestReceiveLostAgain: what was lost comes back as the version that it was, with the sums that are known of it.
func TestReceiveLostAgain(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 64 * mib})
	want, other := content(1, 3*mib), content(2, 3*mib)
	all := objectstore.SumsOf(want)
	in := comes(t, s, 1, want, objectstore.Heap)
	in.Object().SetPrimary(true)
	if err := give(in, 0, want, all[0]); err != nil {
		t.Fatal(err)
	}
	in.Abort(nil)
	if _, err := s.Receive(context.Background(), version(1, other), objectstore.Heap); err == nil {
		t.Error("another version was received in its place")
	}
	again := comes(t, s, 1, want, objectstore.Heap)
	var wrong *objectstore.ChunkError
	if err := give(again, 0, other, objectstore.Checksum(other[:mib])); !errors.As(err, &wrong) {
		t.Error("a chunk with another sum than it had was taken:", err)
	}
	for i, sum := range all {
		if err := give(again, i, want, sum); err != nil {
			t.Error(err)
		}
	}
	sums(t, again.Object(), want)
	again.Object().Release()
	empty(t, s)
}

// TestReviveOfHalf: bytes that came in part are not read when a live value comes, while their memory is in use.
func TestReviveOfHalf(t *testing.T) {
	want := content(1, 2*mib)
	s := open(t, objectstore.Config{Budget: 64 * mib})
	in, err := s.Receive(context.Background(), version(1, want), objectstore.Segment)
	if err != nil {
		t.Fatal(err)
	}
	o := in.Object()
	o.SetPrimary(true)
	in.Buffer(0)
	in.Abort(errors.New("given up"))
	o.Revive(newValue(want))
	if b, err := o.Bytes(context.Background()); err == nil && !bytes.Equal(b, want) {
		t.Fatal("wrong bytes")
	}
	in.Return(0)
	o.Revive(newValue(want))
	if b, err := o.Bytes(context.Background()); err != nil || !bytes.Equal(b, want) {
		t.Error(err)
	}
}

// TestReceivedAgainWhilePinned: a pin on what was lost half received keeps nothing of it once it is received again.
func TestReceivedAgainWhilePinned(t *testing.T) {
	want := content(1, 2*mib)
	v := version(1, want)
	s := open(t, objectstore.Config{Budget: 64 * mib, Warm: -1})
	receive := func() *objectstore.Incoming {
		in, err := s.Receive(context.Background(), v, objectstore.Segment)
		if err != nil {
			t.Fatal(err)
		}
		in.Object().SetPrimary(true)
		return in
	}
	in := receive()
	o := in.Object()
	o.Pin()
	in.Abort(errors.New("given up"))
	in = receive()
	fill(t, in, want)
	o.Unpin()
	if b, err := o.Bytes(context.Background()); err != nil || !bytes.Equal(b, want) {
		t.Error(err)
	}
	o.Release()
	if n := objectstore.Segments(s, 0); n != 0 {
		t.Errorf("%d segments are left", n)
	}
}
