package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	await "github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/objectstore"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(childJob); job != "" {
		os.Exit(runChild(job))
	}
	goleak.VerifyTestMain(m)
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// tester is what testing.T, testing.B and rapid.T share.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// id returns the n-th id of the tests.
func id(n int) raysys.TaskID { return raysys.TaskID{Hi: 1, Lo: uint64(n) + 1} }

// content returns size bytes that no other n has.
func content(n int, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16), 1})
	r.Read(b)
	return b
}

// value is a live value that is its own bytes.
type value struct {
	bytes []byte
	kept  atomic.Bool // Evict refuses
	gone  atomic.Bool
	calls atomic.Int32 // of Pieces
	fail  error
}

func newValue(b []byte) *value { return &value{bytes: b} }

func (v *value) Size() int64 { return int64(len(v.bytes)) }

func (v *value) Pieces() ([][]byte, error) {
	v.calls.Add(1)
	if v.fail != nil {
		return nil, v.fail
	}
	if v.gone.Load() {
		return nil, errors.New("pieces of a value that was evicted")
	}
	// The first piece counts as memory of its own, the second as a part of the value.
	head := min(len(v.bytes), 8)
	return [][]byte{bytes.Clone(v.bytes[:head]), v.bytes[head:]}, nil
}

func (v *value) Evict() bool {
	if v.kept.Load() {
		return false
	}
	v.gone.Store(true)
	return true
}

// open makes a store that the test closes, and whose memory and disk must all have come back by then.
func open(t testing.TB, c objectstore.Config) *objectstore.Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Disk == 0 {
		c.Disk = 1 << 40
	}
	s, err := objectstore.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := objectstore.Segments(s, 0); n != 0 && s.Stats().Used == 0 {
			t.Errorf("%d segments are counted after Close", n)
		}
	})
	return s
}

func add(t tester, s *objectstore.Store, n int, v *value) *objectstore.Object {
	t.Helper()
	o, err := s.Add(context.Background(), id(n), 1, v)
	if err != nil {
		t.Fatalf("add: %v", err)
	}
	return o
}

// version is that of b as object n: other bytes have another nonce, as if another run had added them.
func version(n int, b []byte) objectstore.Version {
	return objectstore.Version{ID: id(n), Attempt: 1, Size: int64(len(b)), Nonce: 1<<40 | uint64(objectstore.Checksum(b))}
}

// versionOf is that of an object.
func versionOf(t tester, o *objectstore.Object) objectstore.Version {
	t.Helper()
	v, err := o.Version(context.Background())
	if err != nil {
		t.Fatalf("version: %v", err)
	}
	return v
}

// come fills chunk i of b in, with its sum.
func come(in *objectstore.Incoming, i int, b []byte) error {
	at, n := in.Version().Section(i)
	copy(in.Buffer(i), b[at:at+int64(n)])
	return in.Filled(i, objectstore.Checksum(b[at:at+int64(n)]))
}

// receive fills an object of the given bytes in, chunk by chunk.
func receive(t tester, s *objectstore.Store, n int, b []byte, form objectstore.Form) *objectstore.Object {
	t.Helper()
	in, err := s.Receive(context.Background(), version(n, b), form)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	fill(t, in, b)
	if err := in.Done(context.Background()); err != nil {
		t.Fatalf("done: %v", err)
	}
	return in.Object()
}

func fill(t tester, in *objectstore.Incoming, b []byte) {
	t.Helper()
	for _, i := range in.Missing() {
		if err := come(in, i, b); err != nil {
			t.Fatalf("filled %d: %v", i, err)
		}
	}
}

// join reads a chunk as a sender would.
func join(t tester, c objectstore.Chunk) []byte {
	t.Helper()
	defer c.Release()
	if c.File == nil {
		return bytes.Join(c.Pieces, nil)
	}
	b := make([]byte, c.Size)
	if n, err := c.File.ReadAt(b, c.Offset); n < len(b) {
		t.Fatalf("read chunk from file: %d bytes, %v", n, err)
	}
	return b
}

// same checks the object in all ways there are.
func same(t tester, o *objectstore.Object, want []byte) {
	t.Helper()
	ctx := context.Background()
	v := versionOf(t, o)
	if err := v.Check(); err != nil || v.Size != int64(len(want)) || v.ID != o.ID() {
		t.Fatalf("version of %s: %v, %v", o.ID(), v, err)
	}
	var chunks []byte
	for i := range objectstore.Chunks(v.Size) {
		c, err := o.Chunk(ctx, i)
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		size := c.Size
		sum, err := c.Sum()
		if err != nil {
			t.Fatalf("sum of chunk %d: %v", i, err)
		}
		b := join(t, c)
		if objectstore.Checksum(b) != sum || len(b) != size {
			t.Fatalf("chunk %d has %d bytes and another sum", i, len(b))
		}
		chunks = append(chunks, b...)
	}
	if !bytes.Equal(chunks, want) {
		t.Fatalf("the chunks of %s are other bytes", o.ID())
	}
	p, err := o.Map(ctx)
	if err != nil {
		t.Fatalf("map: %v", err)
	}
	if !bytes.Equal(p.Bytes(), want) {
		t.Fatalf("the mapping of %s has other bytes", o.ID())
	}
	p.Close()
	b, err := o.Bytes(ctx)
	if err != nil {
		t.Fatalf("bytes: %v", err)
	}
	if !bytes.Equal(b, want) {
		t.Fatalf("the bytes of %s are others", o.ID())
	}
}

// empty releases the last objects, and checks that nothing is charged any more, but for what is warm.
func empty(t tester, s *objectstore.Store, last ...*objectstore.Object) {
	t.Helper()
	for _, o := range last {
		o.Release()
	}
	if st := s.Stats(); st.Used != st.Warm || st.Reserved != 0 || st.Disk != 0 || st.Objects != 0 || st.Incoming != 0 {
		t.Errorf("at the end there is still %+v", st)
	}
}

func forms(o *objectstore.Object) []string { return o.Info().Forms }

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	await.Holds(t, 20*time.Second, what, cond)
}
