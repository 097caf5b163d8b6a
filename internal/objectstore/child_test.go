package objectstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/raysys/raysys/internal/objectstore"
)

// childJob names, in the environment of the re-executed test binary, what it is to do.
const childJob = "RAYSYS_OBJECT_TEST_CHILD"

// offer is what an owner tells another process.
type offer struct {
	Shared  objectstore.Shared
	Version objectstore.Version
}

// runChild shares one object with the parent, and ends when its input does.
func runChild(job string) int {
	if job != "share" {
		return 3
	}
	s, err := objectstore.Open(objectstore.Config{Budget: 64 * mib})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	ctx := context.Background()
	o, err := s.Add(ctx, id(1), 1, newValue(content(1, 3*mib+17)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared, err := o.Share(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	v, err := o.Version(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(offer{shared, v}); err != nil {
		return 1
	}
	lines := bufio.NewScanner(os.Stdin)
	if lines.Scan() { // the parent says: let go
		o.Release()
		fmt.Println("released")
	}
	for lines.Scan() {
	}
	return 0
}
