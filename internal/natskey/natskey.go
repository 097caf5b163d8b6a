package natskey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys/store"
)

// Key is its name, relative to the cluster's prefix.
const Key = "nats"

// Record is its value.
type Record struct {
	URL   string `json:"url"` // several with commas between
	Token string `json:"token,omitempty"`
}

// Read returns the record; without one, the zero Record and no error.
func Read(ctx context.Context, kv store.KV) (Record, error) {
	p, err := kv.Get(ctx, Key)
	if errors.Is(err, store.ErrNotFound) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("read the key %s: %w", Key, err)
	}
	var r Record
	if err := json.Unmarshal(p.Value, &r); err != nil {
		return Record{}, fmt.Errorf(`read the key %s: %w: write {"url": "nats://HOST:PORT", "token": "..."}`, Key, err)
	}
	if err := Check(r.URL); err != nil {
		return Record{}, fmt.Errorf("read the key %s: %w", Key, err)
	}
	return r, nil
}

// Write replaces the record.
func Write(ctx context.Context, kv store.KV, r Record) error {
	if err := Check(r.URL); err != nil {
		return fmt.Errorf("write the key %s: %w", Key, err)
	}
	value, err := json.Marshal(r)
	if err == nil {
		_, err = kv.Txn(ctx, []store.Op{store.Set(Key, value)})
	}
	if err != nil {
		return fmt.Errorf("write the key %s: %w", Key, err)
	}
	return nil
}

// Check refuses a list of URLs with an empty one in it. It knows no schemes: those are for who connects.
func Check(url string) error {
	for u := range strings.SplitSeq(url, ",") {
		if strings.TrimSpace(u) == "" {
			return errors.New("a URL is empty: give nats://HOST:PORT, several with commas between")
		}
	}
	return nil
}
