package replay

import (
	"errors"
	"fmt"
	"math"
)

// Config is what a Server has: its tables, and over how many nodes they are spread.
type Config struct {
	Tables []Table
	// Shards is over how many grains items are spread, in turn: each has its part of every table, with a limiter of its own that counts its
	// items alone. 1 unless set. MaxSize and the numbers of limiters are those of one shard.
	Shards int
}

// Table is one view of the items: which are sampled, and which go.
type Table struct {
	Name    string
	Sampler Selector // Uniform unless set
	Remover Selector // FIFO unless set: which item goes when the table is full, of all with the new one
	// MaxSize is how many items the table holds.
	MaxSize int
	// MaxTimesSampled is after how many samples an item goes; 0: it stays.
	MaxTimesSampled int
	Limiter         Limiter // MinSize(1) unless set
}

const (
	maxTables = 256
	maxShards = 4096
	maxItems  = 1 << 30
)

// Endless reports whether the table may be sampled again and again while nothing is inserted: its limiter is MinSize, and items stay.
func (t Table) Endless() bool {
	return t.MaxTimesSampled == 0 && (t.Limiter.name == "" || t.Limiter.minDiff <= -math.MaxFloat64)
}

func (c Config) complete() (Config, error) {
	if c.Shards == 0 {
		c.Shards = 1
	}
	if c.Shards < 0 || c.Shards > maxShards {
		return c, fmt.Errorf("%d shards: give 1 to %d", c.Shards, maxShards)
	}
	if len(c.Tables) == 0 || len(c.Tables) > maxTables {
		return c, fmt.Errorf("%d tables: give 1 to %d", len(c.Tables), maxTables)
	}
	c.Tables = append([]Table(nil), c.Tables...)
	names := map[string]bool{}
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.Sampler.make == nil {
			t.Sampler = Uniform
		}
		if t.Remover.make == nil {
			t.Remover = FIFO
		}
		if t.Limiter.name == "" {
			t.Limiter = MinSize(1)
		}
		if err := t.check(); err != nil {
			return c, fmt.Errorf("table %q: %w", t.Name, err)
		}
		if names[t.Name] {
			return c, fmt.Errorf("two tables have the name %q", t.Name)
		}
		names[t.Name] = true
	}
	return c, nil
}

func (t *Table) check() error {
	switch {
	case t.Name == "":
		return errors.New("it has no name")
	case t.MaxSize < 1 || t.MaxSize > maxItems:
		return fmt.Errorf("MaxSize is %d: give 1 to %d", t.MaxSize, maxItems)
	case t.MaxTimesSampled < 0:
		return fmt.Errorf("MaxTimesSampled is %d", t.MaxTimesSampled)
	}
	for _, s := range []Selector{t.Sampler, t.Remover} {
		if !(s.exponent >= 0) || math.IsInf(s.exponent, 0) {
			return fmt.Errorf("an exponent of %g", s.exponent)
		}
	}
	return t.Limiter.check(t.MaxSize)
}

// table returns the number of a table.
func (c Config) table(name string) (int, error) {
	for i, t := range c.Tables {
		if t.Name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrNoTable, name)
}
