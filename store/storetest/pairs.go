package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/raysys/raysys/store"
)

func (s *suite) pairs() {
	s.absent("a")
	set := s.txn(store.Set("a", []byte{0, 255, 10}))[0]
	if set.Create == 0 || set.Modify != set.Create || set.Value != nil {
		s.Fatalf("set returned %+v, want new indexes and no value", set)
	}
	set.Value = []byte{0, 255, 10}
	s.same(s.get("a"), set)
	again := s.txn(store.Set("a", []byte("b")))[0]
	if again.Create != set.Create || again.Modify <= set.Modify {
		s.Fatalf("changed from %+v to %+v: want the same Create and a larger Modify", set, again)
	}
	s.txn(store.Set("empty", nil))
	if p := s.get("empty"); len(p.Value) != 0 || p.Create == 0 {
		s.Fatalf("empty value: %+v", p)
	}
	s.txn(store.Delete("a"))
	s.absent("a")
	s.txn(store.Delete("a"))
	big := bytes.Repeat([]byte("0123456789abcdef"), 256<<10/16)
	s.txn(store.Set("big", big))
	if !bytes.Equal(s.get("big").Value, big) {
		s.Fatal("256 KiB did not come back")
	}
}

func (s *suite) lists() {
	s.wantKeys("")
	// '-' is before '/', so that the order of whole keys is not the order of their folders.
	for _, key := range []string{"b", "a/b/c", "a/b", "a/b-x", "a/é%?&=#", "a b"} {
		s.txn(store.Set(key, []byte("of "+key)))
	}
	s.wantKeys("", "a b", "a/b", "a/b-x", "a/b/c", "a/é%?&=#", "b")
	s.wantKeys("a/", "a/b", "a/b-x", "a/b/c", "a/é%?&=#")
	s.wantKeys("a/b", "a/b", "a/b-x", "a/b/c")
	s.wantKeys("a/é%", "a/é%?&=#")
	s.wantKeys("nothing/")
	pairs, index := s.list("a/")
	for _, p := range pairs {
		if string(p.Value) != "of "+p.Key || p.Create == 0 || p.Modify > index {
			s.Fatalf("listed %+v at index %d", p, index)
		}
	}
	if stale, _, err := s.kv.List(s.ctx, "a/", store.Stale); err != nil || len(stale) > len(pairs) {
		s.Fatalf("stale list: %v, %v", keysOf(stale), err)
	}
}

func (s *suite) verbs() {
	ses, other := s.session("one"), s.session("other")
	a := s.txn(store.CheckNotExists("a"), store.CheckAndSet("a", []byte("1"), 0))[1]
	s.refused(0, store.CheckNotExists("a"))
	s.refused(0, store.CheckAndSet("a", []byte("2"), 0))
	s.refused(0, store.CheckAndSet("a", []byte("2"), a.Modify+1))
	s.refused(0, store.CheckAndSet("none", nil, a.Modify))
	s.refused(0, store.CheckIndex("a", a.Modify+1))
	s.refused(0, store.CheckIndex("none", a.Modify))
	a2 := s.txn(store.CheckIndex("a", a.Modify), store.CheckAndSet("a", []byte("2"), a.Modify))[1]
	s.refused(0, store.CheckAndSet("a", []byte("3"), a.Modify))

	s.refused(0, store.DeleteCAS("a", a.Modify))
	s.txn(store.DeleteCAS("a", a2.Modify))
	s.absent("a")
	s.txn(store.DeleteCAS("a", a2.Modify))

	s.refused(0, store.CheckSession("l", ses))
	l := s.txn(store.Lock("l", []byte("x"), ses))[0]
	if l.Session != ses {
		s.Fatalf("lock returned %+v", l)
	}
	s.txn(store.CheckSession("l", ses))
	s.refused(0, store.CheckSession("l", other))
	s.refused(0, store.Lock("l", []byte("y"), other))
	s.refused(0, store.Unlock("l", nil, other))
	s.refused(0, store.Lock("m", nil, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
	relock := s.txn(store.Lock("l", []byte("z"), ses))[0]
	if relock.Create != l.Create || relock.Modify <= l.Modify {
		s.Fatalf("locked again by its holder: %+v after %+v", relock, l)
	}
	s.txn(store.Set("l", []byte("set")))
	if p := s.get("l"); p.Session != ses || string(p.Value) != "set" {
		s.Fatalf("set of a held key: %+v, want it still held", p)
	}
	s.txn(store.Unlock("l", []byte("free"), ses))
	if p := s.get("l"); p.Session != "" || string(p.Value) != "free" || p.Create != l.Create {
		s.Fatalf("unlocked: %+v", p)
	}
	s.refused(0, store.Unlock("l", nil, ses))
	if p := s.txn(store.Lock("l", nil, other))[0]; p.Create != l.Create {
		s.Fatalf("locked after an unlock: %+v, want the Create of before", p)
	}

	for _, key := range []string{"t/1", "t/2", "t", "u"} {
		s.txn(store.Set(key, []byte("of "+key)))
	}
	s.txn(store.DeleteTree("t/"), store.DeleteTree("none/"))
	s.wantKeys("t", "t")
	read := s.txn(store.Read("t"), store.Read("none"), store.Read("l"), store.Read("u"))
	if string(read[0].Value) != "of t" || read[0].Create == 0 || read[1].Create != 0 || read[1].Value != nil ||
		read[2].Session != other || string(read[3].Value) != "of u" {
		s.Fatalf("read %+v", read)
	}
	s.same(read[0], s.get("t"))
	// An operation sees the writes of those before it.
	both := s.txn(store.Set("v", []byte("new")), store.Read("v"), store.Delete("v"), store.CheckNotExists("v"))
	if string(both[1].Value) != "new" {
		s.Fatalf("read within the transaction: %+v", both[1])
	}
	s.absent("v")
}

func (s *suite) allOrNothing() {
	ses := s.session("one")
	s.txn(store.Set("keep", []byte("1")), store.Set("t/1", nil), store.Lock("mine", nil, ses))
	before, index := s.list("")
	s.refused(6,
		store.Set("new", []byte("x")), store.Set("keep", []byte("2")), store.Delete("keep"), store.DeleteTree("t/"),
		store.Lock("other", nil, ses), store.Unlock("mine", []byte("y"), ses), store.CheckIndex("keep", 1))
	s.refused(1, store.Set("new", nil), store.CheckNotExists("mine"), store.Set("later", nil))
	after, now := s.list("")
	if now != index || len(before) != len(after) {
		s.Fatalf("refused transactions left %+v at %d, want %+v at %d", after, now, before, index)
	}
	for i := range before {
		s.same(after[i], before[i])
	}
	// 64 operations at once, all of them there, all of one index.
	ops := make([]store.Op, store.MaxTxnOps)
	for i := range ops {
		ops[i] = store.Set(fmt.Sprintf("many/%02d", i), value(i))
	}
	s.txn(ops...)
	many, _ := s.list("many/")
	for i, p := range many {
		if p.Modify != many[0].Modify || !bytes.Equal(p.Value, value(i)) {
			s.Fatalf("pair %d of one transaction: %+v, the first %+v", i, p, many[0])
		}
	}
	if len(many) != len(ops) {
		s.Fatalf("%d of %d pairs", len(many), len(ops))
	}
}

func (s *suite) sameValue() {
	a := s.txn(store.Set("a", []byte("x")))[0]
	s.txn(store.Set("b", nil))
	if again := s.txn(store.Set("a", []byte("x")))[0]; again.Modify != a.Modify {
		s.Fatalf("set to what it was: %+v after %+v", again, a)
	}
}

func (s *suite) limits() {
	full := make([]byte, store.MaxTxnBytes-1)
	for i := range full {
		full[i] = byte(i * 7)
	}
	s.txn(store.Set("a", full))
	if !bytes.Equal(s.get("a").Value, full) {
		s.Fatal("the largest value did not come back")
	}
	tooLarge := func(ops ...store.Op) {
		s.Helper()
		if _, err := s.kv.Txn(s.ctx, ops); !errors.Is(err, store.ErrTooLarge) {
			s.Fatalf("%d operations: %v, want ErrTooLarge", len(ops), err)
		}
	}
	tooLarge(store.Set("ab", full))
	tooLarge()
	ops := make([]store.Op, store.MaxTxnOps+1)
	for i := range ops {
		ops[i] = store.Set(strings.Repeat("k", store.MaxKeyBytes-5)+fmt.Sprintf("%05d", i), make([]byte, 4900))
	}
	tooLarge(ops...)
	s.txn(ops[:store.MaxTxnOps]...) // the longest keys, and nearly the most bytes
	s.wantKeys("b")
}

func (s *suite) badKeys() {
	for _, key := range []string{"", "/a", "a\xff", "a//b", "a/../b", "./a", "a/.", strings.Repeat("k", store.MaxKeyBytes+1)} {
		for _, op := range []store.Op{store.Set(key, nil), store.Delete(key), store.DeleteTree(key), store.Read(key)} {
			if _, err := s.kv.Txn(s.ctx, []store.Op{op}); !errors.Is(err, store.ErrBadKey) {
				s.Fatalf("%.20q: %v, want ErrBadKey", op, err)
			}
		}
		if _, err := s.kv.Get(s.ctx, key); !errors.Is(err, store.ErrBadKey) {
			s.Fatalf("get %.20q: %v, want ErrBadKey", key, err)
		}
	}
	for _, op := range []store.Op{{Key: "a"}, {Verb: 99, Key: "a"}, store.Lock("a", nil, ""), store.CheckSession("a", "")} {
		if _, err := s.kv.Txn(s.ctx, []store.Op{op}); !errors.Is(err, store.ErrBadOp) {
			s.Fatalf("%v: %v, want ErrBadOp", op, err)
		}
	}
}

// counter adds from several goroutines by check-and-set: no increment is lost.
func (s *suite) counter() {
	s.txn(store.Set("n", []byte("0")))
	var wg sync.WaitGroup
	const each, goroutines = 25, 4
	for range goroutines {
		wg.Go(func() {
			for done := 0; done < each; {
				p, err := s.kv.Get(s.ctx, "n")
				if err != nil {
					s.Error(err)
					return
				}
				var n int
				_, _ = fmt.Sscan(string(p.Value), &n)
				_, err = s.kv.Txn(s.ctx, []store.Op{store.CheckAndSet("n", fmt.Append(nil, n+1), p.Modify)})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrRefused):
					s.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := string(s.get("n").Value); got != fmt.Sprint(each*goroutines) {
		s.Fatalf("counted %s, want %d", got, each*goroutines)
	}
}

func (s *suite) endedContext() {
	ctx, cancel := context.WithCancelCause(s.ctx)
	why := errors.New("reason of its own")
	cancel(why)
	_, err1 := s.kv.Txn(ctx, []store.Op{store.Set("a", nil)})
	_, err2 := s.kv.Get(ctx, "a")
	_, _, err3 := s.kv.List(ctx, "a", store.Stale)
	_, err4 := s.kv.NewSession(ctx, "x", s.TTL)
	_, _, err5 := s.kv.Watch(ctx, "a", 0)
	err6 := s.kv.Renew(ctx, "x")
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		if !errors.Is(err, why) || errors.Is(err, store.ErrUnknownOutcome) {
			s.Errorf("call %d under a context that had ended: %v, want its cause and a known outcome", i+1, err)
		}
	}
	s.absent("a")
}

func (s *suite) closed() {
	s.txn(store.Set("a", nil))
	kv := s.Open(s.T)
	if err := errors.Join(kv.Close(), kv.Close()); err != nil {
		s.Fatal(err)
	}
	_, err1 := kv.Txn(s.ctx, []store.Op{store.Set("a", nil)})
	_, err2 := kv.Get(s.ctx, "a")
	_, _, err3 := kv.List(s.ctx, "", store.Consistent)
	_, err4 := kv.Keys(s.ctx, "")
	_, err5 := kv.NewSession(s.ctx, "x", s.TTL)
	_, _, err6 := kv.Watch(s.ctx, "", 0)
	_, err7 := kv.Session(s.ctx, "x")
	errs := []error{err1, err2, err3, err4, err5, err6, err7, kv.Renew(s.ctx, "x"), kv.Destroy(s.ctx, "x")}
	if i := slices.IndexFunc(errs, func(err error) bool { return !errors.Is(err, store.ErrClosed) }); i >= 0 {
		s.Fatalf("call %d after Close: %v, want ErrClosed", i+1, errs[i])
	}
}
