package grainengine

import "context"

// InTransaction reports whether ctx is of a turn that is a transaction: one of a Durable kind that may change States.
func InTransaction(ctx context.Context) bool { return transactionOf(ctx) != nil }
