package shardlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/raysys/raysys/store"
)

// Secret is what only those know who can read the cluster's keys. Nodes prove to each other that they have it. It does not
// print itself: errors and logs show layouts.
type Secret []byte

const (
	secretSize = 32
	leastSize  = 16 // of a secret that another program made
)

func newSecret() Secret {
	s := make(Secret, secretSize)
	_, _ = rand.Read(s) // never fails
	return s
}

// String implements fmt.Stringer.
func (s Secret) String() string { return fmt.Sprintf("(%d bytes)", len(s)) }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// addSecret gives a layout of an earlier program a secret. Of several nodes that do so at once one wins, and the others
// find its secret when they read again. What else is in the record stays as it is, whatever program wrote it.
func addSecret(ctx context.Context, kv store.KV, p store.Pair) error {
	record := map[string]json.RawMessage{}
	if err := json.Unmarshal(p.Value, &record); err != nil {
		return fmt.Errorf("add a secret to the cluster's layout: %w: %w", ErrBadLayout, err)
	}
	secret, err := json.Marshal(newSecret())
	if err != nil {
		return err
	}
	record["secret"] = secret
	value, err := json.MarshalIndent(record, "", " ")
	if err != nil {
		return err
	}
	_, err = kv.Txn(ctx, []store.Op{store.CheckAndSet(p.Key, value, p.Modify)})
	if err != nil && !errors.Is(err, store.ErrRefused) && (!errors.Is(err, store.ErrUnknownOutcome) || ctx.Err() != nil) {
		return fmt.Errorf("add a secret to the cluster's layout: %w", err)
	}
	return nil
}
