package node

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// TestStoreTimes: each use of the store is counted under its name; only a store that is away has failed.
func TestStoreTimes(t *testing.T) {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	broken := flaky.Wrap(kv)
	s := &StoreTimes{KV: broken}
	ctx := t.Context()
	use := func() {
		_, _ = s.Get(ctx, "there is none")
		_, _, _ = s.List(ctx, "", store.Consistent)
		_, _ = s.Keys(ctx, "")
		_, _ = s.Txn(ctx, []store.Op{store.CheckIndex("there is none", 7)})
		_, _ = s.NewSession(ctx, "n", time.Minute)
		_ = s.Renew(ctx, "there is none")
	}
	check := func(errors uint64) {
		t.Helper()
		all := s.Times()
		for name, uses := range map[string]uint64{"get": 1, "list": 1, "keys": 1, "txn": 1, "session": 2} {
			if got, n := all[name], 1+min(errors, 1); got.Count != n*uses || got.Errors != errors*uses || got.Took <= 0 {
				t.Errorf("%s: %+v; want %d, %d of them failed", name, got, n*uses, errors*uses)
			}
		}
		if len(all) != 5 {
			t.Errorf("%v", all)
		}
	}
	use()
	check(0)
	broken.Hook(func(flaky.Call) flaky.Fault { return flaky.Refuse })
	use()
	check(1)
}
