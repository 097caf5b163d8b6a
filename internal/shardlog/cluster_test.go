package shardlog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
)

// A key's slot is for ever: testdata holds some of them.
func TestSlotsAreWhatTheyWere(t *testing.T) {
	type golden struct {
		Seed uint64
		Key  string
		Slot int
	}
	b, err := os.ReadFile(filepath.Join("testdata", "slots.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(b, &all); err != nil || len(all) < 8 {
		t.Fatal(len(all), err)
	}
	for _, g := range all {
		if got := shardlog.Slot(g.Seed, g.Key); got != g.Slot {
			t.Errorf("slot of %q under seed %d is %d, it was %d", g.Key, g.Seed, got, g.Slot)
		}
	}
}

// Slots are even, for the keys that people choose and under any seed: chi-square over all slots within five standard
// deviations of what is expected of a random function.
func TestSlotsAreEven(t *testing.T) {
	for _, form := range []string{"counter/%d", "user/%08d", "k/%x", "session/a%db", "%d"} {
		for _, seed := range []uint64{0, 1, 1 << 63, 0xdeadbeef} {
			const n = 200_000
			var counts [shardlog.Slots]int
			for i := range n {
				slot := shardlog.Slot(seed, fmt.Sprintf(form, i))
				if slot < 0 || slot >= shardlog.Slots {
					t.Fatalf("slot %d", slot)
				}
				counts[slot]++
			}
			expected, chi := float64(n)/shardlog.Slots, 0.0
			for _, c := range counts {
				chi += (float64(c) - expected) * (float64(c) - expected) / expected
			}
			if d := math.Abs(chi-shardlog.Slots) / math.Sqrt(2*shardlog.Slots); d > 5 {
				t.Errorf("%s under seed %d: chi-square %.0f, %.1f standard deviations off", form, seed, chi, d)
			}
		}
	}
	if shardlog.Slot(1, "a/b") == shardlog.Slot(2, "a/b") && shardlog.Slot(1, "a/c") == shardlog.Slot(2, "a/c") {
		t.Error("the seed makes no difference")
	}
}

func TestShardOf(t *testing.T) {
	for _, shards := range []int{1, 3, 32, shardlog.MaxShards} {
		c, err := shardlog.NewLayout(shards)
		if err != nil {
			t.Fatal(err)
		}
		owner := make([]int, shardlog.Slots)
		for i, r := range c.Slots {
			to := shardlog.Slots
			if i+1 < len(c.Slots) {
				to = c.Slots[i+1].From
			}
			for s := r.From; s < to; s++ {
				owner[s] = r.Shard
			}
		}
		for i := range 5000 {
			key := fmt.Sprint("k/", i)
			if got, want := c.ShardOf(key), owner[shardlog.Slot(c.Seed, key)]; got != want {
				t.Fatalf("shard of %q is %d, its slot belongs to %d", key, got, want)
			}
		}
	}
	for _, shards := range []int{-1, shardlog.MaxShards + 1} {
		if _, err := shardlog.NewLayout(shards); !errors.Is(err, shardlog.ErrBadLayout) {
			t.Errorf("%d shards: %v", shards, err)
		}
	}
}

func TestOneConfig(t *testing.T) {
	kv := memory(t)
	var wg sync.WaitGroup
	var got [4]shardlog.Layout
	for i := range got {
		wg.Go(func() {
			node := flaky.Wrap(kv)
			node.FailNext(i, flaky.LoseAnswer)
			var err error
			if got[i], err = shardlog.OpenLayout(within(t), node, "", 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, c := range got {
		if d := cmp.Diff(got[0], c); d != "" || c.Shards != shardlog.DefaultShards || len(c.ID) < 20 {
			t.Fatalf("nodes have different configs: %s", d)
		}
	}
	again, err := shardlog.OpenLayout(within(t), kv, "", 5)
	if err != nil || again.ID != got[0].ID || again.Shards != shardlog.DefaultShards {
		t.Fatalf("opened again: %+v, %v", again, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good, err := shardlog.NewLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*shardlog.Layout)
		want   error
	}{
		"format":        {func(c *shardlog.Layout) { c.Format++ }, store.ErrTooNew},
		"slot function": {func(c *shardlog.Layout) { c.SlotFunction = "other/2" }, store.ErrTooNew},
		"id":            {func(c *shardlog.Layout) { c.ID = "" }, shardlog.ErrBadLayout},
		"shards":        {func(c *shardlog.Layout) { c.Shards = 0 }, shardlog.ErrBadLayout},
		"no slots":      {func(c *shardlog.Layout) { c.Slots = nil }, shardlog.ErrBadLayout},
		"gap":           {func(c *shardlog.Layout) { c.Slots[0].From = 1 }, shardlog.ErrBadLayout},
		"order":         {func(c *shardlog.Layout) { c.Slots[1].From = 0 }, shardlog.ErrBadLayout},
		"range":         {func(c *shardlog.Layout) { c.Slots[1].From = shardlog.Slots }, shardlog.ErrBadLayout},
		"shard":         {func(c *shardlog.Layout) { c.Slots[1].Shard = 2 }, shardlog.ErrBadLayout},
	} {
		bad := good
		bad.Slots = append([]shardlog.SlotRange(nil), good.Slots...)
		c.change(&bad)
		value, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		kv := memory(t)
		if _, err := kv.Txn(within(t), []store.Op{store.Set(shardlog.LayoutKey, value)}); err != nil {
			t.Fatal(err)
		}
		if _, err := shardlog.OpenLayout(within(t), kv, "", 0); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	kv := memory(t)
	if _, err := kv.Txn(within(t), []store.Op{store.Set(shardlog.LayoutKey, []byte("{"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := shardlog.OpenLayout(within(t), kv, "", 0); !errors.Is(err, shardlog.ErrBadLayout) {
		t.Errorf("no JSON: %v", err)
	}
}

// The keys of one cluster are not those of another, whatever prefix they lie under.
func TestClusterOfAnotherName(t *testing.T) {
	kv := memory(t)
	made, err := shardlog.OpenLayout(within(t), kv, "prod", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shardlog.OpenLayout(within(t), kv, "test", 0); !errors.Is(err, shardlog.ErrOtherCluster) || !strings.Contains(err.Error(), `"prod"`) || !strings.Contains(err.Error(), "RAYSYS_CONSUL_PREFIX") {
		t.Errorf("cluster test opened the keys of cluster prod: %v", err)
	}
	for _, name := range []string{"prod", ""} {
		if again, err := shardlog.OpenLayout(within(t), kv, name, 0); err != nil || again.ID != made.ID {
			t.Errorf("name %q: %v, %v", name, again.ID, err)
		}
	}
	// A record without a name is anybody's.
	unnamed := memory(t)
	if _, err := shardlog.OpenLayout(within(t), unnamed, "", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := shardlog.OpenLayout(within(t), unnamed, "prod", 0); err != nil {
		t.Errorf("a record without a name: %v", err)
	}
}
