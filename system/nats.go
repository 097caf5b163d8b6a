package system

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/natskey"
)

// NATS says where NATS servers with JetStream are, and how a client shows who it is. The zero NATS is none.
type NATS struct {
	// URL of a server, or of several with commas between: nats://10.0.0.5:4222. It may have a user and password, or a token.
	URL string
	// Token that the servers ask for, where the URL has none. Empty: none.
	Token string
	// Creds is the path of a file with a user's credentials (JWT and seed). Empty: none.
	Creds string
	// CA is the path of a PEM file with the authorities that sign the servers' certificates. Empty: those of the host.
	CA string
}

// NATS returns where the NATS servers for this node are: those of Config.NATS when it has a URL, else those that the key "nats"
// of the cluster's store names, with what else Config.NATS has. The zero NATS and nil when nothing names any. It reads the
// store, and can be called once the node has started.
func (n *Node) NATS(ctx context.Context) (NATS, error) {
	c := n.cfg.NATS
	if c.URL != "" {
		return c, nil
	}
	if n.cluster == nil {
		return NATS{}, nil
	}
	n.mu.Lock()
	started := n.state >= stateStarted
	n.mu.Unlock()
	if !started || n.cluster.KV == nil {
		return NATS{}, fmt.Errorf("find NATS: %w: the node is not started", raysys.ErrClosed)
	}
	r, err := natskey.Read(ctx, n.cluster.KV)
	if err != nil {
		return NATS{}, fmt.Errorf("find NATS: %w", err)
	}
	if r.URL == "" {
		return NATS{}, nil
	}
	if c.URL = r.URL; c.Token == "" {
		c.Token = r.Token
	}
	return c, nil
}

// check refuses what cannot be a list of URLs.
func (c NATS) check() error {
	if c.URL == "" {
		return nil
	}
	return natskey.Check(c.URL)
}

// nats reads the variables of NATS. The files are looked at now, so that a wrong path is heard of at the start.
func (e *environment) nats() NATS {
	const creds, ca = "RAYSYS_NATS_CREDS", "RAYSYS_NATS_CA"
	n := NATS{URL: e.get("RAYSYS_NATS"), Creds: e.get(creds), CA: e.get(ca)}
	if err := n.check(); err != nil {
		e.errs = append(e.errs, fmt.Errorf("RAYSYS_NATS: %w", err)) // without the value, which may have a password in it
	}
	e.file(creds, "a file with a user's credentials", func(b []byte) bool { return len(b) > 0 })
	e.file(ca, "a PEM file with certificates", x509.NewCertPool().AppendCertsFromPEM)
	return n
}

// file reads a file that a variable names, and asks valid about what is in it.
func (e *environment) file(name, give string, valid func([]byte) bool) {
	path := e.get(name)
	if path == "" {
		return
	}
	b, err := os.ReadFile(path)
	var why *os.PathError
	switch {
	case errors.As(err, &why):
		e.bad(name, path, fmt.Sprintf("%s (%v)", give, why.Err))
	case err != nil || !valid(b):
		e.bad(name, path, give)
	}
}
