package link

import (
	"crypto/rand"

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

func newNonce() string {
	b := make([]byte, nonceSize)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

func unproven(node raysys.NodeID, cluster string) *Rejection {
	return reject(CodeNotAllowed, "node %s did not prove that it has read the secret of cluster %q: start it with access to the cluster's keys in the store, or find out which process speaks in its name", node, cluster)
}
