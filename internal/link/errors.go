package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/raysys/raysys"
)

// Why a peer cannot be reached or is down. Match with errors.Is.
var (
	// ErrRefused: the host answers, and no process listens at the address. After a reset it proves that the process
	// is dead (rule C17).
	ErrRefused = errors.New("connection refused")
	// ErrUnreachable: the address does not answer, which says nothing about the process behind it.
	ErrUnreachable = errors.New("no answer")
	// ErrReset: the connection ended without a word, as it does when a process dies.
	ErrReset = errors.New("connection reset")
	// ErrLeft: the peer closed the session and said why.
	ErrLeft = errors.New("closed by the peer")
	// ErrReplaced: another session with the same node took this one's place.
	ErrReplaced = errors.New("session replaced")
	// ErrCorrupt: what came over the connection is no frame that the protocol allows.
	ErrCorrupt = errors.New("corrupt frame")
	// ErrHandler: a handler panicked.
	ErrHandler = errors.New("handler panicked")
	// ErrStuck: the peer takes no replies or control frames any more, though their queue was given its reserve.
	ErrStuck = errors.New("peer takes nothing")
	// ErrClosed: this link was closed.
	ErrClosed = fmt.Errorf("link closed: %w", raysys.ErrClosed)
)

// Code says why a handshake was rejected. The numbers are on the wire.
type Code uint8

// The codes.
const (
	CodeUnknown    Code = 0
	CodeMalformed  Code = 1 // not a handshake
	CodeProtocol   Code = 2 // no protocol version in common
	CodeCluster    Code = 3 // another cluster
	CodeNode       Code = 4 // not the node that was meant
	CodeSelf       Code = 5 // the node's own name
	CodeIdentity   Code = 6 // the certificate names another node
	CodeNotAllowed Code = 7 // Config.Admit said no, or Config.Secret was not proved
	CodeDuplicate  Code = 8 // a session with that incarnation exists
	CodeClosing    Code = 9 // the node leaves
)

var codeTexts = map[Code]string{
	CodeUnknown:    "rejected",
	CodeMalformed:  "malformed handshake",
	CodeProtocol:   "no common protocol version",
	CodeCluster:    "wrong cluster",
	CodeNode:       "wrong node",
	CodeSelf:       "own node",
	CodeIdentity:   "wrong certificate",
	CodeNotAllowed: "not admitted",
	CodeDuplicate:  "session exists",
	CodeClosing:    "node is closing",
}

func (c Code) String() string {
	if s, ok := codeTexts[c]; ok {
		return s
	}
	return fmt.Sprintf("rejected with code %d", uint8(c))
}

// Error makes a code a target for errors.Is.
func (c Code) Error() string { return c.String() }

// Rejection is why two nodes that could talk do not. Both sides get it.
type Rejection struct {
	Code   Code
	Text   string
	Remote bool  // the other side said it
	Err    error // of Config.Admit or Unproven, on the side where it said no

	session uint64 // of CodeDuplicate: the one that exists
}

func (r *Rejection) Error() string {
	by := ""
	if r.Remote {
		by = "peer says "
	}
	return fmt.Sprintf("handshake rejected: %s%s: %s", by, r.Code, r.Text)
}

// Is makes errors.Is(err, link.CodeCluster) true.
func (r *Rejection) Is(target error) bool { return target == error(r.Code) }

func (r *Rejection) Unwrap() error { return r.Err }

func reject(code Code, format string, args ...any) *Rejection {
	return &Rejection{Code: code, Text: fmt.Sprintf(format, args...)}
}

// dialError names the state behind what a dial returned.
func dialError(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrUnreachable):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, syscall.EHOSTDOWN):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// brokenError names the state behind what a read or write on an established connection returned.
func brokenError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNABORTED), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed), errors.Is(err, fs.ErrClosed):
		return fmt.Errorf("%w: %w", ErrReset, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}
