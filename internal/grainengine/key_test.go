package grainengine_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
)

// TestKey: a driver that was started anew gets the outcome of the call that its predecessor made with that key, on whatever
// node the grain is by then, and the method does not run again.
func TestKey(t *testing.T) {
	v := newVaults(t)
	a, b, c := v.net.add("a"), v.net.add("b"), v.net.add("c")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	order, bad := v.add.With(raysys.Key("order-17")), v.fail.With(raysys.Key("order-18"))
	ctx := a.context()
	wants(t, ctx, order.Call(ctx, g, 5), 5)
	err := nodetest.Fails(t, ctx, bad.Call(ctx, g, 5), errTorn)
	wants(t, ctx, v.add.Call(ctx, g, 1), 6)
	runs := v.runs.Load()
	a.kill()
	next := c.context()
	wants(t, next, order.Call(next, g, 5), 5)
	wants(t, next, order.On(next, g, raysys.Ready(5)), 5)
	v.net.put(idOf(g), c) // it has to read its replies
	wants(t, next, order.Call(next, g, 5), 5)
	if again := nodetest.Fails(t, next, bad.Call(next, g, 5), errTorn); !strings.Contains(again.Error(), "run 2") {
		t.Errorf("the outcome was %v, and the same key gets %v", err, again)
	}
	if n := v.runs.Load() - runs; n != 0 {
		t.Errorf("the methods ran %d times again for keys that were used", n)
	}
	wants(t, next, order.Call(next, v.kind.Get("y"), 5), 5)
	task := c.task(7)
	wants(t, task, order.Call(task, g, 5), 5)
	wants(t, next, v.get.Call(next, g), 6)
}

// TestKeyReused: a key stands for one method and one argument.
func TestKeyReused(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	ctx, key := a.context(), raysys.Key("order-17")
	wants(t, ctx, v.add.With(key).Call(ctx, g, 5), 5)
	nodetest.Fails(t, ctx, v.add.With(key).Call(ctx, g, 6), raysys.ErrKeyReused)
	nodetest.Fails(t, ctx, v.fail.With(key).Call(ctx, g, 5), raysys.ErrKeyReused)
	wants(t, ctx, v.add.With(key).Call(ctx, g, 5), 5)
	wants(t, ctx, v.get.Call(ctx, g), 5)
}

// TestKeyIsForgotten: a key is a new one once its time is over, and its record is not kept beside the new one's.
func TestKeyIsForgotten(t *testing.T) {
	v := newVaults(t, grains.KeepReplies(time.Millisecond))
	a, b := v.net.add("a"), v.net.add("b")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	ctx, order := a.context(), v.add.With(raysys.Key("order-17"))
	wants(t, ctx, order.Call(ctx, g, 5), 5)
	nodetest.Eventually(t, "the key is forgotten", func() bool {
		n, err := order.Call(ctx, g, 5).Get(ctx)
		return err == nil && n == 10
	})
	if n := v.kept("x"); n != 1 {
		t.Errorf("%d replies are stored for one key", n)
	}
	v.net.put(idOf(g), a) // the old reply must not be read
	nodetest.Eventually(t, "the key is forgotten by another node", func() bool {
		n, err := order.Call(ctx, g, 5).Get(ctx)
		return err == nil && n == 15
	})
	wants(t, ctx, v.add.Call(ctx, g, 1), 16) // its commit removes what may go
	v.net.store.mu.Lock()
	defer v.net.store.mu.Unlock()
	there := false
	for id := range v.net.store.replies[idOf(g)] {
		there = there || id.String() == keyedOrder17
	}
	if !there {
		t.Error("the new reply went with the note that the old one may go")
	}
}

// TestKeyTwiceAtOnce: of two calls with a key, from two nodes, one runs, and both get its outcome when it is stored.
func TestKeyTwiceAtOnce(t *testing.T) {
	v := newVaults(t)
	a, b, c := v.net.add("a"), v.net.add("b"), v.net.add("c")
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	order := v.add.With(raysys.Key("order-17"))
	wants(t, a.context(), v.add.Call(a.context(), g, 1), 1)
	let := v.net.slowly("commit")
	first := order.Call(a.context(), g, 5)
	nodetest.Eventually(t, "it commits", func() bool { return v.net.pending() == 1 })
	second := order.Call(c.context(), g, 5)
	seen := v.get.Call(c.context(), g) // comes behind it
	nodetest.Eventually(t, "the read ran", func() bool { return v.runs.Load() == 3 })
	if settled(second) {
		t.Error("the reply left before it was stored")
	}
	let()
	wants(t, a.context(), first, 6)
	wants(t, c.context(), second, 6)
	wants(t, c.context(), seen, 6)
}

// TestKeyOptions: where no call would be recognised a key is a bad option.
func TestKeyOptions(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	plain := grains.DefineIn[listener](tb, "listener")
	note := grains.Method(plain, "note", func(_ *listener, _ context.Context, n int) (int, error) { return n, nil })
	kind := grains.DefineIn[vault](tb, "vault", grains.Durable())
	get := grains.Method0(kind, "get", func(g *vault, _ context.Context) (int, error) { return g.balance.Value, nil })
	take := grains.Method(kind, "take", func(_ *vault, _ context.Context, r raysys.Ref[int]) (int, error) { return 0, nil })
	ctx := net.addAlone("a").context()
	key := raysys.Key("order-17")
	at := func(t time.Time) raysys.Ref[int] {
		return get.With(key, raysys.FirstMade(t)).Call(ctx, kind.Get("x"))
	}
	for name, r := range map[string]raysys.Ref[int]{
		"with FirstMade and without a key": get.With(raysys.FirstMade(time.Now())).Call(ctx, kind.Get("x")),
		"first made at the zero time":      at(time.Time{}),
		"first made in the year 1":         at(time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC)),
		"first made in 1969":               at(time.Unix(-1, 0)),
		"first made a billion years ago":   at(time.Unix(-1<<55, 0)),
		"first made in a billion years":    at(time.Unix(1<<55, 0)),
		"first made in the year 9999":      at(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)),
		"first made in more than an hour":  at(time.Now().Add(2 * time.Hour)),
		"of a plain kind":                  note.With(key).Call(ctx, plain.Get("x"), 1),
		"of a read":                        get.ReadOnly().With(key).Call(ctx, kind.Get("x")),
		"with a reference":                 take.With(key).Call(ctx, kind.Get("x"), raysys.Ready(1)),
		"with an empty key":                get.With(raysys.Key("")).Call(ctx, kind.Get("x")),
		"with a key of 513 bytes":          get.With(raysys.Key(strings.Repeat("k", raysys.MaxKey+1))).Call(ctx, kind.Get("x")),
	} {
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
			t.Errorf("a call %s: %v; want ErrBadOption", name, err)
		}
	}
	wants(t, ctx, get.With(key).Call(ctx, kind.Get("x")), 0)
	wants(t, ctx, at(time.Now().Add(time.Minute)), 0)
	if err := get.With(key).Tell(ctx, kind.Get("x")); err != nil {
		t.Error(err)
	}
}

// keyedOrder17 is where the reply of vault/x to the key "order-17" is stored.
const keyedOrder17 = "a0a899925375849d7e38f10a86618cd8"

func idOfOrder17(t *testing.T) (id raysys.TaskID) {
	t.Helper()
	b, err := hex.DecodeString(keyedOrder17)
	if err != nil {
		t.Fatal(err)
	}
	return raysys.TaskID{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

// TestKeyFormats: the frame of a call with a key, and the record of its reply, are what testdata says this version writes.
func TestKeyFormats(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx := a.context()
	g := v.kind.Get("x")
	v.net.put(idOf(g), b)
	calls := make(chan []byte, 10)
	v.net.mu.Lock()
	v.net.onWire = func(_ *fakeLink, _ *fakeNode, kind wire.Kind, frame []byte) {
		if kind == wire.KindCall {
			calls <- slices.Clone(frame)
		}
	}
	v.net.mu.Unlock()
	wants(t, ctx, v.add.With(raysys.Key("order-17"), raysys.NoDeadline()).Call(ctx, g, 5), 5)
	frame := nodetest.Arrive(t, calls, "the frame")
	if want := golden.Hex(t, "v1/keyed.hex", frame); !slices.Equal(frame, want) {
		t.Errorf("a call with a key is %x, want %x", frame, want)
	}
	first := raysys.FirstMade(time.UnixMilli(1_700_000_000_123))
	wants(t, ctx, v.add.With(raysys.Key("order-17"), first, raysys.NoDeadline()).Call(ctx, g, 5), 5)
	frame = nodetest.Arrive(t, calls, "the frame")
	if want := golden.Hex(t, "v1/keyed-first.hex", frame); !slices.Equal(frame, want) {
		t.Errorf("a call with a key that says when it was first made is %x, want %x", frame, want)
	}
	v.net.store.mu.Lock()
	defer v.net.store.mu.Unlock()
	for id := range v.net.store.replies[idOf(g)] {
		if got := id.String(); got != keyedOrder17 {
			t.Errorf("the reply is stored under %s, want %s", got, keyedOrder17)
		}
	}
}

// TestManyKeys: no number of keys is too large. The newest calls get their outcomes again, the older ones hear that they have
// counted, and none runs again, on another node too.
func TestManyKeys(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx, g := v.net.add("c").context(), v.kind.Get("x")
	v.net.put(idOf(g), a)
	const all, batch = 20_000, 1000
	call := func(i int) raysys.Ref[int] { return v.add.With(raysys.Key(fmt.Sprint(i))).Call(ctx, g, 1) }
	for i := 0; i < all; {
		refs := make([]raysys.Ref[int], 0, batch)
		for ; len(refs) < batch; i++ {
			refs = append(refs, call(i))
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	for _, at := range []*fakeNode{a, b} {
		if at == b { // which reads what is stored
			a.kill()
			v.net.put(idOf(g), b)
		}
		for i := range all {
			if i%53 != 0 && i < all-10 {
				continue
			}
			n, err := call(i).Get(ctx)
			switch {
			case i >= all-4096 && (err != nil || n != i+1):
				t.Fatalf("the outcome of call %d is %d, %v", i, n, err)
			case err != nil && !errors.Is(err, grains.ErrReplyGone), err == nil && n != i+1:
				t.Fatalf("the outcome of call %d is %d, %v", i, n, err)
			case err == nil && i < all-4096-4*1024:
				t.Fatalf("the reply to call %d is there", i)
			}
		}
		wants(t, ctx, v.get.Call(ctx, g), all)
	}
	if n := v.kept("x"); n > 4096+4*1024 {
		t.Errorf("%d replies are stored", n)
	}
	if len(a.warnings)+len(b.warnings) > 0 {
		t.Errorf("%q %q", a.warnings, b.warnings)
	}
}

// TestFirstMade: once a key is forgotten, a call that says that it was first made before then does not run again, on another node
// too. One that does not say it counts again.
func TestFirstMade(t *testing.T) {
	v := newVaults(t, grains.KeepReplies(time.Millisecond))
	nodes := []*fakeNode{v.net.add("a"), v.net.add("b"), v.net.add("c")}
	ctx, g := v.net.add("d").context(), v.kind.Get("x")
	v.net.put(idOf(g), nodes[0])
	plain := v.add.With(raysys.Key("order-17"))
	order := plain.With(raysys.FirstMade(time.Now()))
	wants(t, ctx, order.Call(ctx, g, 5), 5)
	nodetest.Eventually(t, "its reply goes", func() bool {
		n, err := order.Call(ctx, g, 5).Get(ctx)
		if err == nil && n != 5 {
			t.Fatalf("it counts again: %d", n)
		}
		return errors.Is(err, grains.ErrReplyGone)
	})
	sum := 5
	for i, at := range nodes { // by the reply whose time is over, by that of the store, and when the reply has gone
		if i > 0 {
			nodes[i-1].kill()
			v.net.put(idOf(g), at)
		}
		err := nodetest.Fails(t, ctx, order.Call(ctx, g, 5), grains.ErrReplyGone)
		if !strings.Contains(err.Error(), "it was first made at") {
			t.Error(err)
		}
		sum++
		wants(t, ctx, v.add.Call(ctx, g, 1), sum) // after a restart its commit removes the reply
		v.net.store.mu.Lock()
		_, there := v.net.store.replies[idOf(g)][idOfOrder17(t)]
		v.net.store.mu.Unlock()
		if there != (i == 0) {
			t.Errorf("at node %d the reply is stored: %v", i, there)
		}
	}
	wants(t, ctx, plain.With(raysys.FirstMade(time.Now().Add(time.Minute))).Call(ctx, g, 5), sum+5)
	nodetest.Eventually(t, "it counts again", func() bool {
		n, err := plain.Call(ctx, g, 5).Get(ctx)
		return err == nil && n == sum+10
	})
}

// TestRepeatSaysWhen: the runtime's repeat of a call with a key says when the call was made first, which its first attempt does not.
func TestRepeatSaysWhen(t *testing.T) {
	v := newVaults(t)
	a, b := v.net.add("a"), v.net.add("b")
	ctx, g := a.context(), v.kind.Get("x")
	v.net.put(idOf(g), b)
	wants(t, ctx, v.add.Call(ctx, g, 1), 1)
	flags := make(chan uint32, 10)
	v.net.mu.Lock()
	v.net.onWire = func(_ *fakeLink, from *fakeNode, kind wire.Kind, frame []byte) {
		if r := wire.NewReader(frame); kind == wire.KindCall && from == a {
			flags <- r.Uint32()
		}
	}
	v.net.mu.Unlock()
	let := v.net.slowly("commit")
	first := v.add.With(raysys.Key("order-17")).Call(ctx, g, 5)
	nodetest.Eventually(t, "it commits", func() bool { return v.net.pending() == 1 })
	a.cut(errors.New("reset by test"))
	const flagFirst = 1 << 10
	if got := nodetest.Arrive(t, flags, "the first frame"); got&flagFirst != 0 {
		t.Errorf("the first attempt has flags %b", got)
	}
	if got := nodetest.Arrive(t, flags, "the second frame"); got&flagFirst == 0 {
		t.Errorf("the second attempt has flags %b", got)
	}
	let()
	wants(t, ctx, first, 6)
}

// TestKeysWaitForTheirCommits: calls with keys whose replies have no room while earlier ones are being stored wait for that, and none is
// refused.
func TestKeysWaitForTheirCommits(t *testing.T) {
	v := newVaults(t)
	fat := grains.Method(v.kind, "fat", func(g *vault, _ context.Context, n int) ([]byte, error) {
		v.runs.Add(1)
		return make([]byte, n), nil
	})
	a := v.net.add("a")
	ctx, g := a.context(), v.kind.Get("x")
	v.net.put(idOf(g), a)
	wants(t, ctx, v.add.Call(ctx, g, 1), 1)
	runs := v.runs.Load()
	let := v.net.slowly("commit")
	var refs []raysys.Ref[[]byte]
	for i := range 30 {
		refs = append(refs, fat.With(raysys.Key(fmt.Sprint(i))).Call(ctx, g, 60<<10))
	}
	nodetest.Eventually(t, "there is no room", func() bool { return v.runs.Load()-runs == 9 })
	let()
	for i, r := range refs {
		if _, err := r.Get(ctx); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
