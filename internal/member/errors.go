package member

import "errors"

// Sentinels name states. Match them with errors.Is; the error a verb returns adds what, where and what to do. What ends or
// suspends a member is in the root package: ErrSuspended, ErrFenced, ErrStoreReplaced.
var (
	// ErrNameTaken: another live node has this name.
	ErrNameTaken = errors.New("node name taken")
	// ErrNotListening is a Prober's answer when the host is reached and no process listens at the address: the
	// process is gone.
	ErrNotListening = errors.New("no process listens at the address")

	// errHeard: the monitors do not agree that a node is silent.
	errHeard = errors.New("not enough monitors agree")
	// errHalf: one more eviction would be more than half the members within a lease.
	errHalf = errors.New("more than half of the members would be evicted within one lease")
	// errUnread: the own key is not among the nodes that the store listed.
	errUnread = errors.New("the list of nodes lacks this one")
)
