package replay

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestKeys: a table finds the items that it has by their keys, and no others, whatever came and went.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb := newTable(Table{Sampler: Uniform, Remover: Uniform, MaxSize: rapid.IntRange(1, 300).Draw(t, "max"), Limiter: MinSize(1)})
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		c := &chunk{data: []byte{1}, ends: []uint32{1}}
		key := rapid.Uint64().Draw(t, "key")
		var keys []uint64
		for range 1000 {
			if r.IntN(3) > 0 || len(keys) == 0 {
				key += 1 + r.Uint64N(3) // others went to another table
				keys = append(keys, key)
				tb.insert(item{key: key, chunk: c, last: 1, priority: 1}, r)
			} else {
				k := keys[r.IntN(len(keys))]
				was, size := tb.find(k) >= 0, tb.size()
				if dropped := tb.drop([]uint64{k, k}); dropped == 1 != was || tb.size() != size-dropped || tb.find(k) >= 0 {
					t.Fatalf("key %d was there: %v; %d were dropped of %d, which leaves %d, with it in slot %d", k, was, dropped, size, tb.size(), tb.find(k))
				}
			}
		}
		found := 0
		for _, k := range keys {
			if slot := tb.find(k); slot >= 0 {
				found++
				if tb.items[slot].key != k {
					t.Fatalf("slot %d has key %d, not %d", slot, tb.items[slot].key, k)
				}
			}
		}
		if found != tb.size() || tb.find(key+1) >= 0 {
			t.Fatalf("%d keys were found of %d items", found, tb.size())
		}
	})
}
