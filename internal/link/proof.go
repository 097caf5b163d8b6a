package link

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"

	"github.com/raysys/raysys"
)

// On a plain connection a process can say anything of itself. Both sides therefore prove that they know Config.Secret,
// before the connection may change anything here, the slot of the node included:
//
//	hello with a nonce ──▶
//	                   ◀── challenge: nonce, incarnation, MAC
//	proof: MAC         ──▶
//	                   ◀── the answer to the hello
//
// The hello of a bulk connection is proved in the same way. A program from before sends no nonce, skips that of others and
// answers a hello at once: whether such a peer may come, Config.Unproven says.
const (
	typeChallenge messageType = 5
	typeProof     messageType = 6

	nonceSize = 16
)

// proof is the body of a challenge, and with a MAC alone that of the answer to it.
type proof struct {
	incarnation uint64 // of the accepting side
	nonce       string // of the accepting side
	mac         string
}

// Tags of a proof.
const (
	tagProofIncarnation = 1
	tagProofNonce       = 2
	tagProofMAC         = 3
)

func (p *proof) fields() []field {
	return []field{{tagProofIncarnation, &p.incarnation}, {tagProofNonce, &p.nonce}, {tagProofMAC, &p.mac}}
}

func (p *proof) append(dst []byte) []byte { return appendFields(dst, p.fields()) }

func (p *proof) read(b []byte) error { return readFields(b, p.fields()) }

// side is who makes a MAC: that of one side is no proof of the other.
type side string

const (
	dialingSide   side = "raysys proof 1, dialing side"
	acceptingSide side = "raysys proof 1, accepting side"
)

// mac is what a side that knows the secret makes of a dialer's first message and the challenge to it. The message names the
// cluster, both nodes and the session; a field that is new in it must be added here where the proof is to cover it.
func (l *Link) mac(by side, first messageType, h *hello, challenge *proof) string {
	kind := uint64(first) // a proof for an express connection opens no bulk connection
	covered := appendFields(nil, []field{
		{1, (*string)(&by)},
		{2, &kind},
		{3, &h.id.Cluster},
		{4, (*string)(&h.id.Node)},
		{5, &h.id.Incarnation},
		{6, &h.nonce},
		{7, (*string)(&h.to)},
		{8, &challenge.incarnation},
		{9, &challenge.nonce},
		{10, &h.session},
	})
	m := hmac.New(sha256.New, l.cfg.Secret)
	m.Write(covered)
	return string(m.Sum(nil))
}

// proves reports whether the two sides of conn prove themselves by the secret: with TLS their certificates do.
func (l *Link) proves(conn net.Conn) bool {
	_, encrypted := conn.(*tls.Conn)
	return len(l.cfg.Secret) > 0 && !encrypted
}

func newNonce() string {
	b := make([]byte, nonceSize)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// answered returns the answer, of type want, to own, which this node has sent as the first message. by is the challenge
// that came before it, whose MAC was right; nil when the other side asked for no proof and gave none.
func (l *Link) answered(conn net.Conn, first messageType, own *hello, want messageType) (body []byte, by *proof, err error) {
	if own.nonce == "" {
		_, body, err = receive(conn, want)
		return body, nil, err
	}
	t, body, err := receive(conn, want, typeChallenge)
	if err != nil || t == want {
		return body, nil, err
	}
	by = &proof{}
	if err := by.read(body); err != nil {
		return nil, nil, malformed(err)
	}
	if len(by.nonce) < nonceSize || !hmac.Equal([]byte(by.mac), []byte(l.mac(acceptingSide, first, own, by))) {
		return nil, nil, unproven(own.to, own.id.Cluster)
	}
	ours := proof{mac: l.mac(dialingSide, first, own, by)}
	if err := writeMessage(conn, typeProof, ours.append(nil)); err != nil {
		return nil, nil, err
	}
	_, body, err = receive(conn, want)
	return body, by, err
}

// challenge has the dialer of a plain connection, which sent h first, prove itself, and proves this node to it. It returns
// false for a dialer that offers no proof.
func (l *Link) challenge(conn net.Conn, in io.Reader, first messageType, h *hello, own *Identity) (proved bool, err error) {
	if h.nonce == "" || !l.proves(conn) {
		return false, nil
	}
	// What another node is to prove, this one must not sign.
	if h.id.Cluster != own.Cluster || h.to != own.Node {
		return false, reject(CodeNode, "node %s of cluster %q answers where %s of cluster %q was expected", own.Node, own.Cluster, h.to, h.id.Cluster)
	}
	if len(h.nonce) < nonceSize {
		return false, reject(CodeMalformed, "a nonce of %d bytes, it needs %d", len(h.nonce), nonceSize)
	}
	asked := proof{incarnation: own.Incarnation, nonce: newNonce()}
	asked.mac = l.mac(acceptingSide, first, h, &asked)
	if err := writeMessage(conn, typeChallenge, asked.append(nil)); err != nil {
		return false, err
	}
	_, body, err := receive(in, typeProof)
	if err != nil {
		return false, err
	}
	var got proof
	if err := got.read(body); err != nil {
		return false, malformed(err)
	}
	if !hmac.Equal([]byte(got.mac), []byte(l.mac(dialingSide, first, h, &asked))) {
		return false, unproven(h.id.Node, own.Cluster)
	}
	return true, nil
}

// mayLack decides about a peer that proved nothing where a proof was due.
func (l *Link) mayLack(ctx context.Context, who Identity) error {
	if l.cfg.Unproven == nil {
		return unproven(who.Node, who.Cluster)
	}
	if err := l.cfg.Unproven(ctx, who); err != nil {
		r := unproven(who.Node, who.Cluster)
		r.Text, r.Err = fmt.Sprintf("%s: %v", r.Text, err), err
		return r
	}
	return nil
}

func unproven(node raysys.NodeID, cluster string) *Rejection {
	return reject(CodeNotAllowed, "node %s did not prove that it has read the secret of cluster %q: start it with access to the cluster's keys in the store, or find out which process speaks in its name", node, cluster)
}
