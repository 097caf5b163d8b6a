package shardlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/raysys/raysys/store"
)

// ErrOtherCluster: the keys belong to a cluster of another name.
var ErrOtherCluster = errors.New("keys of another cluster")

// ErrBadLayout: the record of the cluster's layout cannot be used.
var ErrBadLayout = errors.New("bad cluster layout")

const (
	// DefaultShards is how many shards a new cluster has.
	DefaultShards = 32
	// MaxShards keeps a slot in every shard.
	MaxShards = Slots

	// FormatVersion is the version of all records that this program writes.
	FormatVersion = 1
)

// Layout is what all nodes of a cluster agree on. It is written once, by the first node; a layout of an earlier program
// gets its secret later.
type Layout struct {
	Name         string      `json:"name,omitempty"` // as the first node had it; records of earlier programs have none
	ID           string      `json:"id"`             // random: tells a store from another that was put in its place
	Format       int         `json:"format"`         // of the records
	Lowest       int         `json:"lowest"`         // the lowest version among the nodes: newer record types wait for it
	SlotFunction string      `json:"slot_function"`
	Seed         uint64      `json:"seed,string"` // of the slot function
	Shards       int         `json:"shards"`
	Slots        []SlotRange `json:"slots"`
	Secret       Secret      `json:"secret,omitempty"`
}

// SlotRange gives the slots from From up to the next range's to a shard.
type SlotRange struct {
	From  int `json:"from"`
	Shard int `json:"shard"`
}

// NewLayout returns the layout of a new cluster. shards 0 means DefaultShards.
func NewLayout(shards int) (Layout, error) {
	if shards == 0 {
		shards = DefaultShards
	}
	if shards < 1 || shards > MaxShards {
		return Layout{}, fmt.Errorf("%w: %d shards, there may be 1 to %d", ErrBadLayout, shards, MaxShards)
	}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	c := Layout{
		ID:           rand.Text(),
		Format:       FormatVersion,
		Lowest:       FormatVersion,
		SlotFunction: SlotFunction,
		Seed:         binary.LittleEndian.Uint64(seed[:]),
		Shards:       shards,
		Secret:       newSecret(),
	}
	for i := range shards {
		c.Slots = append(c.Slots, SlotRange{From: i * Slots / shards, Shard: i})
	}
	return c, nil
}

// ShardOf returns the shard of a key.
func (c *Layout) ShardOf(key string) int {
	slot := Slot(c.Seed, key)
	// The last range that begins at or before the slot.
	lo, hi := 0, len(c.Slots)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; c.Slots[mid].From <= slot {
			lo = mid
		} else {
			hi = mid
		}
	}
	return c.Slots[lo].Shard
}

func (c *Layout) check() error {
	switch {
	case c.Format > FormatVersion:
		return fmt.Errorf("%w: format %d, this program knows %d: run a newer one", store.ErrTooNew, c.Format, FormatVersion)
	case c.SlotFunction != SlotFunction:
		return fmt.Errorf("%w: slot function %q, this program knows %q: run a newer one", store.ErrTooNew, c.SlotFunction, SlotFunction)
	case c.ID == "" || c.Format < 1 || c.Shards < 1 || c.Shards > MaxShards || len(c.Slots) == 0 || c.Slots[0].From != 0:
		return fmt.Errorf("%w: %+v", ErrBadLayout, *c)
	case len(c.Secret) > 0 && len(c.Secret) < leastSize:
		return fmt.Errorf("%w: its secret has %d bytes, it needs %d: stop the nodes and remove the field, the next that starts makes another", ErrBadLayout, len(c.Secret), leastSize)
	}
	for i, r := range c.Slots {
		if r.Shard < 0 || r.Shard >= c.Shards || r.From >= Slots || i > 0 && r.From <= c.Slots[i-1].From {
			return fmt.Errorf("%w: slots from %d belong to shard %d of %d", ErrBadLayout, r.From, r.Shard, c.Shards)
		}
	}
	return nil
}

// OpenLayout reads the cluster's layout and makes it where there is none, or its secret: of several nodes that do so at
// once, one wins and all get its layout. shards counts only for a new cluster. ErrOtherCluster when the keys were made for a cluster
// of another name, as they may be where RAYSYS_CONSUL_PREFIX says where keys lie; an empty name is not compared.
func OpenLayout(ctx context.Context, kv store.KV, name string, shards int) (Layout, error) {
	fresh, err := NewLayout(shards)
	if err != nil {
		return Layout{}, err
	}
	fresh.Name = name
	value, err := json.MarshalIndent(fresh, "", " ")
	if err != nil {
		return Layout{}, err
	}
	for {
		c, p, err := readLayout(ctx, kv)
		if err == nil && name != "" && c.Name != "" && c.Name != name {
			return Layout{}, fmt.Errorf("%w: they were made for cluster %q, this node is of cluster %q: set RAYSYS_CLUSTER=%s, or give this cluster keys of its own with another RAYSYS_CONSUL_PREFIX (unset, it follows from the name)", ErrOtherCluster, c.Name, name, c.Name)
		}
		if err == nil && len(c.Secret) == 0 {
			if err := addSecret(ctx, kv, p); err != nil {
				return Layout{}, err
			}
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return c, err
		}
		_, err = kv.Txn(ctx, []store.Op{store.CheckNotExists(LayoutKey), store.Set(LayoutKey, value)})
		if err != nil && !errors.Is(err, store.ErrRefused) && (!errors.Is(err, store.ErrUnknownOutcome) || ctx.Err() != nil) {
			return Layout{}, fmt.Errorf("make the cluster's layout: %w", err)
		}
	}
}

func readLayout(ctx context.Context, kv store.KV) (c Layout, p store.Pair, err error) {
	p, err = kv.Get(ctx, LayoutKey)
	if err != nil {
		return c, p, fmt.Errorf("read the cluster's layout: %w", err)
	}
	if err := json.Unmarshal(p.Value, &c); err != nil {
		return c, p, fmt.Errorf("read the cluster's layout: %w: %w", ErrBadLayout, err)
	}
	if err := c.check(); err != nil {
		return c, p, fmt.Errorf("read the cluster's layout: %w", err)
	}
	return c, p, nil
}
