package mesh

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/wire"
)

// admit decides about a node whose handshake was right: it must be a member, by the store's word where the own view
// does not know it yet, and with the key that its record names (rule C18).
func (m *Mesh) admit(ctx context.Context, who link.Identity, cert *x509.Certificate) error {
	select {
	case <-m.joined:
	case <-ctx.Done():
		return errors.New("this node has not joined yet")
	}
	if who.Node == m.Self().Node {
		return fmt.Errorf("node %s is this node's own name", who.Node)
	}
	n, err := m.member.Confirm(ctx, who.Node, who.Incarnation)
	if err != nil {
		return err
	}
	if cert != nil {
		if n, err = m.proves(ctx, n, cert); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.admitted[core.NodeKey{Node: who.Node, Incarnation: who.Incarnation}] = n.Info
	m.mu.Unlock()
	return nil
}

// unproven decides about a member that offered no proof of the cluster's secret on a plain connection. Its program may be
// from before the secret, and the record tells: who cannot write there cannot pass for such a program. The version would
// not tell, since builds of a working tree have none.
func (m *Mesh) unproven(ctx context.Context, who link.Identity) error {
	n, err := m.member.Confirm(ctx, who.Node, who.Incarnation)
	if err == nil && n.Proves {
		err = fmt.Errorf("the record of incarnation %d in the store says that its program does", who.Incarnation)
	}
	return err
}

// proves returns the member that a certificate proves: its role allows it, and its key is that of the record. The store
// is asked before another key is refused: a node writes a new key to its record first, and the view may be older.
func (m *Mesh) proves(ctx context.Context, n member.Node, cert *x509.Certificate) (member.Node, error) {
	print := link.KeyFingerprint(cert)
	if n.KeyPrint != print {
		var err error
		if n, err = m.member.Fetch(ctx, n.ID, n.Incarnation); err != nil {
			return n, err
		}
	}
	if n.KeyPrint != print {
		return n, fmt.Errorf("the record of node %s has another key than the certificate it shows", n.ID)
	}
	return n, m.cfg.Allow(cert, n.Info)
}

func (m *Mesh) rejected(remote string, who link.Identity, err error) {
	if m.warnOfCertificate(zap.String("remote", remote), err) {
		return
	}
	m.cfg.Log.Info("connection rejected", zap.String("remote", remote), zap.String("claims", string(who.Node)), zap.Error(err))
}

func (m *Mesh) panicked(p *link.Peer, kind wire.Kind, value any, stack []byte) {
	m.cfg.Log.Error("handler panicked", zap.String("peer", string(p.Identity().Node)), zap.Uint8("kind", uint8(kind)), zap.Any("panic", value), zap.ByteString("stack", stack))
}
