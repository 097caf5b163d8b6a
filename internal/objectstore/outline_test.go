package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
)

func outline(t tester, o *objectstore.Object) objectstore.Outline {
	t.Helper()
	l, err := o.Outline(context.Background())
	if err != nil {
		t.Fatalf("outline: %v", err)
	}
	return l
}

// sums compares all sums that o has with those of b.
func sums(t tester, o *objectstore.Object, b []byte) {
	t.Helper()
	want := objectstore.NewManifest(o.ID(), 1, b)
	got, err := o.Manifest(context.Background())
	if err != nil || got.Version != want.Version || !slices.Equal(got.Chunks, want.Chunks) {
		t.Errorf("%s where the bytes are %s: %v", got.Version, want.Version, err)
	}
	if l := outline(t, o); !l.Whole || l.Sum != want.Sum {
		t.Errorf("the outline is %+v", l)
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

// TestOutline: the sums of a live value are those of its chunks as they are lent, and the rest is computed when somebody
// wants all of them.
func TestOutline(t *testing.T) {
	want := content(1, 5*mib+7)
	for _, lent := range []int{0, 3, 6} {
		s := open(t, objectstore.Config{Budget: 64 * mib})
		v := newValue(want)
		o := add(t, s, 1, v)
		l := outline(t, o)
		if l.Whole || l.Mark == 0 || l.Size != int64(len(want)) || l.Sum != 0 || l.Chunks != nil {
			t.Fatalf("%+v", l)
		}
		all := objectstore.NewManifest(id(1), 1, want)
		for _, i := range rand.Perm(6)[:lent] {
			if sum, err := chunkSum(o, i); err != nil || sum != all.Chunks[i] {
				t.Errorf("chunk %d has the sum %x, not %x: %v", i, sum, all.Chunks[i], err)
			}
		}
		if again := outline(t, o); again.Mark != l.Mark || again.Whole != (lent == 6) {
			t.Errorf("%+v after %d chunks", again, lent)
		}
		if _, err := o.Chunk(context.Background(), 6); err == nil {
			t.Error("a chunk behind the end was lent")
		}
		sums(t, o, want)
		if v.calls.Load() != 1 {
			t.Errorf("it was encoded %d times", v.calls.Load())
		}
		o.Release()
		empty(t, s)
	}
	s := open(t, objectstore.Config{Budget: mib})
	if l := outline(t, add(t, s, 2, newValue(nil))); !l.Whole {
		t.Errorf("nothing at all is %+v", l)
	}
}

// TestOutlineOfChanged: a value that changed after the sum of a chunk was given away is noticed as one is of which all are
// known.
func TestOutlineOfChanged(t *testing.T) {
	for what, look := range map[string]func(s *objectstore.Store, o *objectstore.Object) error{
		"encoded again": func(s *objectstore.Store, o *objectstore.Object) error {
			objectstore.Thin(o)
			_, err := chunkSum(o, 2)
			return err
		},
		"manifest": func(s *objectstore.Store, o *objectstore.Object) error {
			objectstore.Thin(o)
			_, err := o.Manifest(context.Background())
			return err
		},
		"spilled": func(s *objectstore.Store, o *objectstore.Object) error { return objectstore.Spill(o) },
		"shared": func(s *objectstore.Store, o *objectstore.Object) error {
			objectstore.Thin(o)
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
			outline(t, o)
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

// TestOutlineTogether: whoever lends chunks, wants all sums, spills, thins or shares meanwhile, the sums are those of the
// bytes.
func TestOutlineTogether(t *testing.T) {
	want := content(1, 5*mib+7)
	all := objectstore.NewManifest(id(1), 1, want)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := open(t, objectstore.Config{Budget: 64 * mib})
		v := newValue(want)
		v.kept.Store(seed%2 == 0)
		o := add(t, s, 1, v)
		outline(t, o)
		var work sync.WaitGroup
		for range 4 {
			chunks := r.Perm(6)
			work.Go(func() {
				for _, i := range chunks {
					if sum, err := chunkSum(o, i); err != nil || sum != all.Chunks[i] {
						t.Errorf("chunk %d has the sum %x, not %x: %v", i, sum, all.Chunks[i], err)
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

// comes begins to receive b with sums beside chunks.
func comes(t *testing.T, s *objectstore.Store, n int, b []byte, form objectstore.Form) *objectstore.Incoming {
	t.Helper()
	v := objectstore.Version{ID: id(n), Attempt: 1, Size: int64(len(b))}
	in, err := s.ReceiveOutline(context.Background(), objectstore.Outline{Manifest: objectstore.Manifest{Version: v}, Mark: 77}, form)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// give fills one chunk in, with a sum.
func give(in *objectstore.Incoming, i int, from []byte, sum uint32) error {
	at, n := in.Manifest().Section(i)
	copy(in.Buffer(i), from[at:at+int64(n)])
	return in.FilledWith(i, sum)
}

// TestReceiveSumsBeside: chunks come in any order with their sums, readers get them as they come, and who wants all sums
// waits for the last.
func TestReceiveSumsBeside(t *testing.T) {
	for _, form := range allForms {
		for _, size := range []int{0, 1, 9*mib + 5} {
			s := open(t, objectstore.Config{Budget: 64 * mib})
			want := content(1, size)
			all := objectstore.NewManifest(id(1), 1, want)
			in := comes(t, s, 1, want, form)
			if l := in.Outline(); l.Whole != (size == 0) || l.Mark != 77 || l.Size != int64(size) {
				t.Errorf("%+v", l)
			}
			var readers sync.WaitGroup
			readers.Go(func() { sums(t, in.Object(), want) })
			for i := range all.Chunks {
				readers.Go(func() {
					if sum, err := chunkSum(in.Object(), i); err != nil || sum != all.Chunks[i] {
						t.Errorf("chunk %d: %v", i, err)
					}
				})
			}
			for _, i := range rand.Perm(len(all.Chunks)) {
				if err := give(in, i, want, all.Chunks[i]); err != nil {
					t.Error(err)
				}
			}
			readers.Wait()
			if err := in.Done(context.Background()); err != nil || in.Manifest().Sum != all.Sum {
				t.Error(err)
			}
			sums(t, in.Object(), want)
			same(t, in.Object(), want)
			in.Object().Release()
			empty(t, s)
		}
	}
}

// TestReceiveWrongSums: what is not what its sum says, or has no sum, or another than is known, does not count.
func TestReceiveWrongSums(t *testing.T) {
	for _, form := range allForms {
		s := open(t, objectstore.Config{Budget: 64 * mib})
		want := content(1, 4*mib)
		other := bytes.Clone(want)
		other[2*mib] ^= 1
		all, others := objectstore.NewManifest(id(1), 1, want), objectstore.NewManifest(id(1), 1, other)
		in := comes(t, s, 1, want, form)
		var wrong *objectstore.ChunkError
		if err := give(in, 0, want, all.Chunks[0]+1); !errors.As(err, &wrong) || wrong.Chunk != 0 {
			t.Errorf("a wrong sum: %v", err)
		}
		copy(in.Buffer(0), want)
		if err := in.Filled(0); err == nil {
			t.Error("a chunk without a sum was taken")
		}
		for _, i := range []int{0, 2} {
			if err := give(in, i, want, all.Chunks[i]); err != nil {
				t.Error(err)
			}
		}
		lent := in.Buffer(1)
		copy(lent, other[mib:])
		lent[0] ^= 1 // right by the sum that it comes with, and by nothing else
		if err := in.Adopt(objectstore.Outline{Manifest: others, Whole: true}); err == nil || in.Outline().Whole {
			t.Error("sums were adopted that contradict a chunk")
		}
		bad := all
		bad.Sum++
		if err := in.Adopt(objectstore.Outline{Manifest: bad, Whole: true}); err == nil {
			t.Error("a manifest was adopted that contradicts itself")
		}
		if err := in.Adopt(objectstore.Outline{Manifest: all, Whole: true}); err != nil || !in.Outline().Whole || in.Outline().Mark != 0 {
			t.Error(err)
		}
		if err := in.FilledWith(1, objectstore.Checksum(lent)); !errors.As(err, &wrong) || wrong.Chunk != 1 {
			t.Errorf("another sum than is known: %v", err)
		}
		if err := give(in, 1, want, all.Chunks[1]); err != nil {
			t.Error(err)
		}
		if err := give(in, 3, want, all.Chunks[3]+1); !errors.As(err, &wrong) {
			t.Errorf("another sum than is known, beside the right bytes: %v", err)
		}
		copy(in.Buffer(3), want[3*mib:])
		if err := in.Filled(3); err != nil {
			t.Error("the sum is known:", err)
		}
		sums(t, in.Object(), want)
		same(t, in.Object(), want)
		in.Object().Release()
		empty(t, s)
	}
}

// TestReceiveSumsMeanwhile: a chunk that was right by its own sum is not taken when all sums became known before it was
// stored, and its sum is another.
func TestReceiveSumsMeanwhile(t *testing.T) {
	f := newFaulty()
	f.plain = true
	s := open(t, objectstore.Config{Budget: 64 * mib, FS: f})
	want, other := content(1, 3*mib), content(2, 3*mib)
	all := objectstore.NewManifest(id(1), 1, want)
	in := comes(t, s, 1, want, objectstore.Disk)
	started, goOn := f.gate("write")
	ended := make(chan error)
	go func() { ended <- give(in, 1, other[:], objectstore.Checksum(other[mib:2*mib])) }()
	<-started
	if err := in.Adopt(objectstore.Outline{Manifest: all, Whole: true, Mark: 77}); err != nil || in.Outline().Mark != 77 {
		t.Error(err)
	}
	close(goOn)
	var wrong *objectstore.ChunkError
	if err := <-ended; !errors.As(err, &wrong) || wrong.Chunk != 1 {
		t.Error(err)
	}
	for i, sum := range all.Chunks {
		if err := give(in, i, want, sum); err != nil {
			t.Error(err)
		}
		if got, err := chunkSum(in.Object(), i); err != nil || got != sum {
			t.Error(err)
		}
	}
	sums(t, in.Object(), want)
	same(t, in.Object(), want)
	in.Object().Release()
	empty(t, s)
}

// TestReceiveSumsGivenUp: who waits for sums that will not come learns why.
func TestReceiveSumsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, objectstore.Config{Budget: 64 * mib})
		in := comes(t, s, 1, content(1, 3*mib), objectstore.Heap)
		o := in.Object()
		why := errors.New("enough")
		var waits sync.WaitGroup
		waits.Go(func() {
			if _, err := o.Manifest(context.Background()); !errors.Is(err, why) || !errors.Is(err, raysys.ErrObjectLost) {
				t.Error(err)
			}
		})
		synctest.Wait()
		in.Abort(why)
		waits.Wait()
		empty(t, s)
	})
	s := open(t, objectstore.Config{Budget: 64 * mib})
	for what, l := range map[string]objectstore.Outline{
		"no mark":   {Manifest: objectstore.Manifest{Version: objectstore.Version{ID: id(1), Size: 5}}},
		"no id":     {Manifest: objectstore.Manifest{Version: objectstore.Version{Size: 5}}, Mark: 1},
		"no size":   {Manifest: objectstore.Manifest{Version: objectstore.Version{ID: id(1), Size: -5}}, Mark: 1},
		"huge size": {Manifest: objectstore.Manifest{Version: objectstore.Version{ID: id(1), Size: objectstore.MaxSize + 1}}, Mark: 1},
	} {
		if _, err := s.ReceiveOutline(context.Background(), l, objectstore.Heap); err == nil {
			t.Errorf("an outline with %s was received", what)
		}
	}
	empty(t, s)
}

// TestReceiveLostAgain: what was lost comes back as the version that it was, also when its sums come with its chunks.
func TestReceiveLostAgain(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 64 * mib})
	want := content(1, 3*mib)
	all := objectstore.NewManifest(id(1), 1, want)
	in, err := s.Receive(context.Background(), all, objectstore.Heap)
	if err != nil {
		t.Fatal(err)
	}
	in.Object().SetPrimary(true)
	in.Abort(nil)
	again := comes(t, s, 1, want, objectstore.Heap)
	if l := again.Outline(); !l.Whole || l.Sum != all.Sum || l.Mark != 0 {
		t.Errorf("%+v", l)
	}
	other := content(2, 3*mib)
	var wrong *objectstore.ChunkError
	if err := give(again, 0, other, objectstore.Checksum(other[:mib])); !errors.As(err, &wrong) {
		t.Error("a chunk of another version was taken:", err)
	}
	for i, sum := range all.Chunks {
		if err := give(again, i, want, sum); err != nil {
			t.Error(err)
		}
	}
	sums(t, again.Object(), want)
	again.Object().Release()
	empty(t, s)
}

// TestAdoptAfterTheEnd: what was received whole stays what it is.
func TestAdoptAfterTheEnd(t *testing.T) {
	want := content(1, 2*mib)
	s := open(t, objectstore.Config{Budget: 64 * mib})
	m := objectstore.NewManifest(id(1), 1, want)
	bare := objectstore.Outline{Manifest: objectstore.Manifest{Version: m.Version}, Mark: 7}
	bare.Sum = 0
	in, err := s.ReceiveOutline(context.Background(), bare, objectstore.Heap)
	if err != nil {
		t.Fatal(err)
	}
	for i, sum := range m.Chunks {
		at, n := m.Section(i)
		copy(in.Buffer(i), want[at:at+int64(n)])
		if err := in.FilledWith(i, sum); err != nil {
			t.Fatal(err)
		}
	}
	other := objectstore.NewManifest(id(1), 1, content(2, 2*mib))
	if err := in.Adopt(objectstore.Outline{Manifest: other, Whole: true}); err == nil {
		t.Error("another version was taken for it")
	}
	if err := in.Adopt(objectstore.Outline{Manifest: m, Whole: true}); err != nil {
		t.Error("its own:", err)
	}
	sums(t, in.Object(), want)
}

// TestReviveOfHalf: bytes that came in part are not read when a live value comes, while their memory is in use.
func TestReviveOfHalf(t *testing.T) {
	want := content(1, 2*mib)
	s := open(t, objectstore.Config{Budget: 64 * mib})
	in, err := s.Receive(context.Background(), objectstore.NewManifest(id(1), 1, want), objectstore.Segment)
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
	m := objectstore.NewManifest(id(1), 1, want)
	s := open(t, objectstore.Config{Budget: 64 * mib, Warm: -1})
	receive := func() *objectstore.Incoming {
		in, err := s.Receive(context.Background(), m, objectstore.Segment)
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
	for i := range m.Chunks {
		at, n := m.Section(i)
		copy(in.Buffer(i), want[at:at+int64(n)])
		if err := in.Filled(i); err != nil {
			t.Fatal(err)
		}
	}
	o.Unpin()
	if b, err := o.Bytes(context.Background()); err != nil || !bytes.Equal(b, want) {
		t.Error(err)
	}
	o.Release()
	if n := objectstore.Segments(s, 0); n != 0 {
		t.Errorf("%d segments are left", n)
	}
}
