package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/internal/tally"
)

// ErrClosed: the queue is closed. A Take fails with it when no item is left, a Put at once.
var ErrClosed = tally.Expect(core.Sentinel("queue.closed", "queue: closed"))

// Option changes a kind of queues.
type Option func(*config)

type config struct {
	size, bytes, mailbox int
	bad                  error
}

// Size is how many items a queue has at most: 1,000 unless set, and fewer where Bytes is reached.
func Size(n int) Option {
	return func(c *config) {
		if c.size = n; n < 1 {
			c.bad = errors.Join(c.bad, fmt.Errorf("queue.Size(%d): give 1 or more", n))
		}
	}
}

// Bytes is how much the items of a queue have at most, encoded: 64 MiB unless set. An item that is larger goes in alone, once the queue is empty.
// Puts that wait may hold as much again; others keep their items until there is room.
func Bytes(n int) Option {
	return func(c *config) {
		if c.bytes = n; n < 1 {
			c.bad = errors.Join(c.bad, fmt.Errorf("queue.Bytes(%d): give 1 or more", n))
		}
	}
}

// Mailbox bounds the calls at one queue, of which half may wait for items or for room: 10,000 unless set.
func Mailbox(n int) Option {
	return func(c *config) {
		if c.mailbox = n; n < 2 {
			c.bad = errors.Join(c.bad, fmt.Errorf("queue.Mailbox(%d): give 2 or more", n))
		}
	}
}

// Kind is a kind of queues whose items are of type T. Make it once, in a package variable.
type Kind[T any] struct {
	_ [0]*T
	d *definition
}

// Define makes a kind of queues under name, in the process-wide table. A bad definition is reported by system.New.
func Define[T any](name string, opts ...Option) Kind[T] {
	return Kind[T]{d: define(core.DefaultTable, name, reflect.TypeFor[T](), opts)}
}

// DefineIn is Define in a table of your own, for tests.
func DefineIn[T any](t *raysys.Table, name string, opts ...Option) Kind[T] {
	return Kind[T]{d: define(t, name, reflect.TypeFor[T](), opts)}
}

// Get names a queue, which exists always: the first call makes it.
func (k Kind[T]) Get(key string) Queue[T] { return Queue[T]{q: queue{k.d, key}} }

// Queue is one queue. Any number of goroutines may use it.
type Queue[T any] struct {
	_ [0]*T
	q queue
}

// String is the kind's name and the queue's.
func (q Queue[T]) String() string { return q.q.String() }

// Put appends the items, as they are now. It waits while the queue is full. Where it fails the error says how many items are in for certain:
// up to 1,024 more may be, when ctx has ended or the queue's node is gone.
func (q Queue[T]) Put(ctx context.Context, list ...T) error {
	return q.q.put(ctx, len(list), unsafe.Pointer(unsafe.SliceData(list)))
}

// Take removes the first item. It waits until there is one.
func (q Queue[T]) Take(ctx context.Context) (v T, err error) {
	c, _, err := q.q.take(ctx, 1)
	if err == nil {
		err = q.q.d.codec.Decode(c, 0, unsafe.Pointer(&v))
	}
	return v, err
}

// TakeUpTo removes the first items, one or more and up to n: 1,024 at most, and no more after 256 KiB. It waits until there is one.
func (q Queue[T]) TakeUpTo(ctx context.Context, n int) ([]T, error) {
	c, _, err := q.q.take(ctx, n)
	if err != nil {
		return nil, err
	}
	list := make([]T, c.Len())
	return list, q.q.d.decode(c, unsafe.Pointer(unsafe.SliceData(list)))
}

// All removes the items one after the other, until the queue is closed and empty. An error is the last element.
//
// It takes as many at a time as the loop has needed a millisecond for, so that slow consumers take no items from each other. What it has taken when
// the loop ends goes back to the front of the queue.
func (q Queue[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q.q.all(ctx, func(c items.Chunk, i int, err error) bool {
			var v T
			if err == nil {
				err = q.q.d.codec.Decode(c, i, unsafe.Pointer(&v))
			}
			return yield(v, err) && err == nil
		})
	}
}

// Len is how many items the queue has.
func (q Queue[T]) Len(ctx context.Context) (int, error) {
	return q.q.d.len.Call(ctx, q.q.box()).Get(ctx)
}

// Close closes the queue: Puts fail with ErrClosed, those that wait too, and Takes when no item is left.
func (q Queue[T]) Close(ctx context.Context) error {
	_, err := q.q.d.close.Call(ctx, q.q.box()).Get(ctx)
	return err
}

// definition is a Kind without its type.
type definition struct {
	name  string
	size  int
	bytes int
	most  int // calls that wait
	codec items.Codec
	of    uintptr // the size of an item in memory
	kind  grains.Kind[box]
	put   grains.Func[box, batch, int]
	take  grains.Func[box, ask, items.Chunk]
	back  grains.Act[box, rest]
	len   grains.Func0[box, int]
	close grains.Act0[box]
}

func define(t *raysys.Table, name string, item reflect.Type, opts []Option) *definition {
	cfg := config{size: 1000, bytes: 64 << 20, mailbox: 10_000}
	for _, o := range opts {
		if o == nil {
			cfg.bad = errors.Join(cfg.bad, errors.New("nil Option"))
			continue
		}
		o(&cfg)
	}
	codec, err := items.CodecOf(item)
	if bad := errors.Join(cfg.bad, err); bad != nil {
		t.Add("queue", name, 0, fmt.Errorf("%w: %w", raysys.ErrBadOption, bad), 3)
		cfg = config{size: 1, bytes: 1, mailbox: 2}
	}
	d := &definition{name: name, size: cfg.size, bytes: cfg.bytes, most: cfg.mailbox / 2, codec: codec, of: item.Size()}
	d.kind = grains.DefineIn[box](t, name, grains.Keep(), grains.Mailbox(cfg.mailbox), grains.Unfiltered())
	d.put = grains.LaterMethod(d.kind, "put", func(b *box, _ context.Context, p batch, l *grains.Later[int]) error {
		if err := p.Items.Check(); err != nil {
			return err
		}
		return b.put(d, p, l)
	}).Idempotent().With(raysys.NoDeadline())
	d.take = grains.LaterMethod(d.kind, "take", func(b *box, _ context.Context, a ask, l *grains.Later[items.Chunk]) error {
		return b.take(d, a, l)
	}).Idempotent().With(raysys.NoDeadline())
	d.back = grains.Action(d.kind, "back", func(b *box, _ context.Context, r rest) error {
		err := r.Items.Check()
		if err == nil {
			b.do(d, func() { b.giveBack(r) })
		}
		return err
	}).Idempotent().With(raysys.Detached())
	d.len = grains.Method0(d.kind, "len", func(b *box, _ context.Context) (int, error) { return b.length(), nil }).Idempotent()
	d.close = grains.Action0(d.kind, "close", func(b *box, _ context.Context) error {
		b.do(d, func() { b.closed = true })
		return nil
	}).Idempotent()
	return d
}

// decode makes a list of zero values, which begins at p, the items of c.
func (d *definition) decode(c items.Chunk, p unsafe.Pointer) error {
	for i := range c.Len() {
		if err := d.codec.Decode(c, i, unsafe.Add(p, uintptr(i)*d.of)); err != nil {
			return err
		}
	}
	return nil
}

// queue is a Queue without its type.
type queue struct {
	d   *definition
	key string
}

func (q queue) String() string { return q.d.name + "/" + q.key }

func (q queue) box() grains.Grain[box] { return q.d.kind.Get(q.key) }

// put appends the n items of the list that begins at p.
func (q queue) put(ctx context.Context, n int, p unsafe.Pointer) error {
	for done := 0; done < n; {
		b := batch{ID: rand.Uint64()}
		for b.Items.Len() < min(n-done, q.d.size) && !b.Items.Full() && len(b.Items.Data) < q.d.bytes {
			at := done + b.Items.Len()
			if err := q.d.codec.Append(&b.Items, unsafe.Add(p, uintptr(at)*q.d.of)); err != nil {
				return fmt.Errorf("put item %d of %d into %v, %d are in: %w", at, n, q, done, err)
			}
		}
		if in := b.Items.Len(); in > 1 && len(b.Items.Data) > q.d.bytes {
			b.Items = b.Items.Slice(0, in-1)
		}
		in := b.Items.Len()
		_, err := q.d.put.Call(ctx, q.box(), b).Get(ctx)
		for ; errors.Is(err, errAskFirst); _, err = q.d.put.Call(ctx, q.box(), b).Get(ctx) {
			if err = q.awaitRoom(ctx, batch{ID: b.ID, N: in, Bytes: len(b.Items.Data)}); err != nil {
				break
			}
			b.Asked = true
		}
		if err != nil {
			return fmt.Errorf("put %d items into %v, %d are in: %w", n, q, done, err)
		}
		done += in
	}
	return nil
}

// awaitRoom waits for room. It asks again and again: where there was some for another that has ended since, nobody would say so.
func (q queue) awaitRoom(ctx context.Context, p batch) error {
	for {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := q.d.put.Call(short, q.box(), p).Get(short)
		cancel()
		if err == nil || ctx.Err() != nil || short.Err() == nil {
			return err
		}
	}
}

// take removes up to n items. The ID is for those that go back.
func (q queue) take(ctx context.Context, n int) (c items.Chunk, id uint64, err error) {
	if n < 1 {
		return c, 0, fmt.Errorf("take %d items from %v: %w: give 1 or more", n, q, raysys.ErrBadOption)
	}
	if err := context.Cause(ctx); err != nil {
		return c, 0, fmt.Errorf("take from %v: %w", q, err)
	}
	id = rand.Uint64()
	c, err = q.d.take.Call(ctx, q.box(), ask{ID: id, N: n}).Get(ctx)
	if err == nil {
		if err = c.Check(); err == nil && c.Len() == 0 {
			err = items.ErrBroken
		}
		return c, id, err
	}
	var refused *raysys.TaskError
	if !errors.As(err, &refused) { // else it has not taken any
		q.giveBack(ctx, rest{Of: id})
	}
	return c, id, fmt.Errorf("take from %v: %w", q, err)
}

// giveBack puts items to the front of the queue, or what the take of that ID was to get. It waits for nothing: ctx may have ended.
func (q queue) giveBack(ctx context.Context, r rest) {
	r.ID = rand.Uint64()
	q.d.back.Call(context.WithoutCancel(ctx), q.box(), r)
}

// all gives each item to f until that returns false.
func (q queue) all(ctx context.Context, f func(c items.Chunk, i int, err error) bool) {
	for n := 1; ; {
		c, id, err := q.take(ctx, n)
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				f(c, 0, err)
			}
			return
		}
		began := time.Now()
		if !q.each(ctx, c, id, f) {
			return
		}
		if time.Since(began) > time.Millisecond {
			n = max(1, n/2)
		} else if c.Len() == n {
			n = min(2*n, items.MaxItems)
		}
	}
}

// each gives the items of a chunk to f, and those back that are left, also when f panics.
func (q queue) each(ctx context.Context, c items.Chunk, id uint64, f func(c items.Chunk, i int, err error) bool) bool {
	next := 0
	defer func() {
		if next < c.Len() {
			q.giveBack(ctx, rest{Of: id, Items: c.Slice(next, c.Len())})
		}
	}()
	for next < c.Len() {
		if next++; !f(c, next-1, nil) {
			return false
		}
	}
	return true
}
