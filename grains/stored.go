package grains

import (
	"context"
	"iter"

	"github.com/raysys/raysys/internal/grainengine"
)

// StoredGrain is a grain as it is stored.
type StoredGrain[G any] struct {
	Key   string
	State *G     // its States and Maps are read, its other fields are zero; nil beside an error
	Turn  uint64 // how many turns of the grain had been stored
}

// Stored gives all grains of a Durable kind whose keys begin with prefix, "" for all, as they are stored:
//
//	for s, err := range grains.Stored(ctx, purses, "eu/") {
//		if err != nil { .. }
//		fmt.Println(s.Key, s.State.Money.Value)
//	}
//
// No turn runs and no grain is activated. Grains come shard by shard, those of a shard in the order of their keys. Each
// record was committed at some moment of the walk: a grain that changes meanwhile is there once, and those with many
// records may have some from before a turn and others from after it. What is in State is the caller's own: it is not
// stored.
//
// A grain that cannot be read comes with its Key and the error (ErrUnreadable), and the loop goes on; one with a State
// that may hold references is such a grain. An error without a Key ends the loop: a kind that is not Durable
// (raysys.ErrBadOption), a store that does not answer, or the end of ctx. A node of any role may ask.
func Stored[G any](ctx context.Context, k Kind[G], prefix string) iter.Seq2[StoredGrain[G], error] {
	return func(yield func(StoredGrain[G], error) bool) {
		grainengine.EachStored(ctx, k.k, prefix, func(key string, g any, turn uint64, err error) bool {
			of, _ := g.(*G)
			return yield(StoredGrain[G]{Key: key, State: of, Turn: turn}, err)
		})
	}
}
