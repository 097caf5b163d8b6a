package chaos

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// blob names an object whose bytes each node can make.
type blob struct {
	Seed byte
	Size int
}

// make fills in the bytes, all of which differ with the seed and with their place.
//
//go:norace
func (b blob) make() []byte {
	out := make([]byte, b.Size)
	for i := range out {
		out[i] = byte(i>>16)*59 + byte(i>>8)*31 + byte(i)*7 + b.Seed
	}
	return out
}

func (b blob) sum() uint32 { return crc32.ChecksumIEEE(b.make()) }

// is says what is wrong with bytes that should be b's.
func (b blob) is(got []byte) error {
	if !bytes.Equal(got, b.make()) {
		return fmt.Errorf("%w: %d of them where %+v has %d", errWrongBytes, len(got), b, b.Size)
	}
	return nil
}

// blobs are objects that are put, computed, replicated and named on one node and read on others: what is read has the right
// bytes, and only the end of a node loses what has no other copy.
func blobs(tb *raysys.Table) workload {
	const name, names = "blobs", 6
	compute := tasks.DefineIn(tb, "chaos.compute", func(_ context.Context, b blob) ([]byte, error) { return b.make(), nil })
	put := tasks.DefineIn(tb, "chaos.put", func(ctx context.Context, b blob) (raysys.Handle[[]byte], error) {
		return raysys.Put(ctx, b.make()).Handle(), nil
	})
	sum := tasks.DefineIn(tb, "chaos.sum", func(ctx context.Context, h raysys.Handle[[]byte]) (uint32, error) {
		b, err := h.Ref().Get(ctx)
		return crc32.ChecksumIEEE(b), err
	})
	look := tasks.DefineIn(tb, "chaos.look", func(ctx context.Context, h raysys.Handle[[]byte]) (sum uint32, err error) {
		err = raysys.View(ctx, h.Ref(), func(b []byte) error {
			sum = crc32.ChecksumIEEE(b)
			return nil
		})
		return sum, err
	})
	// read reads r by a task, which runs anywhere, or here, and reports whether it could. safe says that a node lives that has
	// the value.
	read := func(c *client, ctx context.Context, b blob, r raysys.Ref[[]byte], a attempt, safe bool) bool {
		var got uint32
		var err error
		switch c.rng.IntN(4) {
		case 0:
			err = raysys.View(ctx, r, func(bytes []byte) error {
				got = crc32.ChecksumIEEE(bytes)
				return nil
			})
		case 1:
			got, err = look.Go(ctx, r.Handle()).Get(ctx)
		default:
			got, err = sum.Go(ctx, r.Handle()).Get(ctx)
		}
		c.judge(a, err, safe)
		if err == nil && got != b.sum() {
			c.violate(name, "an object's bytes are its own", "%s has checksum %x, want %x", a.what, got, b.sum())
		}
		return err == nil
	}
	var mu sync.Mutex // guards named
	named := map[string][]blob{}
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, r.on.Size()+1, 4*thinkTime, func(c *client, ctx context.Context) {
				b := blob{byte(c.rng.Uint32()), c.rng.IntN(200_000)}
				a := c.begin(ctx, "%+v", b)
				var ref raysys.Ref[[]byte]
				safe := false
				switch c.rng.IntN(5) {
				case 0:
					a.what += ", put"
					ref, safe = raysys.Put(ctx, b.make()), true
				case 1:
					a.what += ", put with a replica"
					ref, safe = raysys.Put(ctx, b.make(), raysys.Replicas(2)), true
				case 2:
					a.what += ", computed by a task"
					ref = compute.Go(ctx, b)
				case 3:
					a.what += ", put by a task"
					h, err := put.Go(ctx, b).Get(ctx)
					if err != nil {
						c.judge(a, err, false)
						return
					}
					ref = h.Ref()
				case 4:
					key := fmt.Sprint("chaos/", c.number, "/", c.rng.IntN(names))
					a.what += ", named " + key
					mu.Lock()
					named[key] = append(named[key], b)
					mu.Unlock()
					if _, err := raysys.Put(ctx, b.make(), raysys.Replicas(2), raysys.Named(key)).Get(ctx); err != nil {
						c.judge(a, err, true)
						return
					}
					c.lookup(ctx, a, key, func() []blob {
						mu.Lock()
						defer mu.Unlock()
						return slices.Clone(named[key])
					})
					return
				}
				for left := 1 + c.rng.IntN(3); left > 0 && read(c, ctx, b, ref, a, safe); {
					left-- // judging a failure may take longer than is left for another call
				}
				if c.rng.IntN(2) == 0 {
					ref.Release()
				}
			})
		},
		end: func(r *round) {
			c := &client{round: r, workload: name}
			ctx, cancel := context.WithTimeout(r.on.Node(0).Context(context.Background()), patience)
			defer cancel()
			for key := range named {
				a := c.begin(ctx, "forget %s", key)
				a.end(ignore(raysys.Forget(ctx, key), raysys.ErrNotFound))
			}
		},
	}
}

// lookup reads what has a name: one of the blobs that were put under it since a began.
func (c *client) lookup(ctx context.Context, a attempt, key string, put func() []blob) {
	err := raysys.View(ctx, raysys.Lookup[[]byte](ctx, key), func(got []byte) error {
		for _, b := range put() {
			if b.is(got) == nil {
				return nil
			}
		}
		return fmt.Errorf("%w: %d of them", errWrongBytes, len(got))
	})
	c.judge(a, err, false)
}

// ignore is err, or nil where it is one of these.
func ignore(err error, these ...error) error {
	if matches(err, these) {
		return nil
	}
	return err
}
