package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys/store"
)

// ErrOnAgent: the session was made on the catalog node of Consul's agent, not on one of its own.
var ErrOnAgent = errors.New("the session lies on the agent's node")

// tryTTL is that of a node's session, the shortest that Consul offers.
const tryTTL = 10 * time.Second

// TryWrite does with kv what a node does: it makes a session, holds a key with it, reads the key, and destroys the
// session, which takes the key along. What it could not take away goes with the session's TTL.
func TryWrite(ctx context.Context, kv store.KV, cluster string) (err error) {
	session, err := kv.NewSession(ctx, "raysys "+cluster+" doctor", tryTTL) // named as a node's, whose name the policy allows
	if err != nil {
		return fmt.Errorf("make a session: %w", err)
	}
	key := "doctor/" + rand.Text()
	held := func() error {
		if _, err := kv.Txn(ctx, []store.Op{store.Lock(key, []byte("raysys doctor"), session)}); err != nil {
			return fmt.Errorf("hold %s: %w", key, err)
		}
		p, err := kv.Get(ctx, key)
		if err == nil && p.Session != session {
			err = fmt.Errorf("session %q holds it", p.Session)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		return nil
	}()
	if err := kv.Destroy(ctx, session); err != nil {
		return errors.Join(held, fmt.Errorf("destroy the session: %w", err))
	}
	if held != nil {
		return held
	}
	switch _, err := kv.Get(ctx, key); {
	case err == nil:
		return fmt.Errorf("%s outlived its session: the store does not delete with it", key)
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("read %s again: %w", key, err)
	}
	return nil
}
