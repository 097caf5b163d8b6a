package mesh

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/link"
)

// askedAtOnce bounds the connections that EndDistrusted opens at the same time.
const askedAtOnce = 16

// EndDistrusted ends the sessions with nodes whose certificate no CA of t verifies any more. It returns when it has
// looked at all of them. A node may have another certificate since its session began: it is asked before, at the
// address of its record. A node that cannot be dialled, as some drivers, loses its session and connects anew.
func (m *Mesh) EndDistrusted(t *link.TLS) {
	var asking sync.WaitGroup
	free := make(chan struct{}, askedAtOnce)
	for _, p := range m.Connected() {
		if !t.Distrusts(p.link) {
			continue
		}
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			chain, err := m.ask(t, p)
			switch {
			case err == nil:
				p.link.Proved(chain)
			case m.cfg.Runner.Err() == nil:
				m.cfg.Log.Warn("session ended: the CA file no longer verifies the peer's certificate", zap.Stringer("peer", p.key), zap.Error(err))
				p.link.Close(fmt.Errorf("the CA file of node %s does not verify the certificate of node %s: give it a certificate of a CA in that file", m.cfg.Node, p.key.Node))
			}
		})
	}
	asking.Wait()
}

// ask returns the certificates that a peer's node shows now, if they prove that it is that node.
func (m *Mesh) ask(t *link.TLS, p *Peer) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(m.cfg.Runner.Context(), DialTimeout)
	defer cancel()
	n, err := m.member.Confirm(ctx, p.key.Node, p.key.Incarnation)
	if err != nil {
		return nil, err
	}
	chain, err := t.Ask(ctx, n.Address, p.link.Identity().Cluster, n.ID)
	if err == nil {
		_, err = m.proves(ctx, n, chain[0])
	}
	return chain, err
}

// warnOfCertificate writes a line if a handshake failed by a certificate that has expired, or because the other side
// refuses this node's, and says whether it did. It writes one a minute: a node tries again and again.
func (m *Mesh) warnOfCertificate(peer zap.Field, err error) bool {
	text, fields := "", []zap.Field{peer}
	var invalid x509.CertificateInvalidError
	var remote *net.OpError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		text = "a peer's certificate has expired, or is not valid yet: replace its files, and see its clock"
		fields = append(fields, zap.Time("expires", invalid.Cert.NotAfter))
		if name, err := link.NameOf(invalid.Cert); err == nil { // else it is the CA
			fields = append(fields, zap.String("node", string(name.Node)))
		}
	case errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate"): // a TLS alert
		text = "a peer refuses this node's certificate: see whether it has expired, and whether the peer's CA file verifies it"
	default:
		return false
	}
	now, last := m.cfg.Runner.Now(), m.certWarned.Load()
	if last != 0 && now-last < int64(time.Minute) || !m.certWarned.CompareAndSwap(last, now) {
		return false
	}
	m.cfg.Log.Warn(text, append(fields, zap.Error(err))...)
	return true
}
