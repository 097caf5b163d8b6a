package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
)

// FindConsul returns the path of the Consul server of the cross-process tier.
func FindConsul() (string, error) {
	path, err := consulserver.Find()
	if err != nil {
		return "", &SelectionError{fmt.Sprintf("tier cross-process needs a Consul server: %v, or run make consul in a checkout, or give a server that runs with --consul HOST:PORT", err)}
	}
	return path, nil
}

// reachPatience bounds the look at a server that is said to run.
const reachPatience = 5 * time.Second

// ReachConsul looks whether a server answers at address. Nodes go on trying for ever, which would say nothing.
func ReachConsul(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	kv, err := openStore(address, "raysys/")
	if err != nil {
		return err
	}
	defer kv.Close()
	if _, err := kv.Keys(ctx, "bench"); err != nil {
		return fmt.Errorf("no Consul answers at %s: %w: give the address of one that runs, or none, to have one started", address, err)
	}
	return nil
}
