// Package nodetest starts single nodes for tests, and waits with a limit.
//
//	n, ctx := nodetest.Start(t, system.Config{Table: table}) // closed with the test
//	nodetest.Want(t, ctx, square.Go(ctx, 7), 49)
//
// It is for packages below testkit, whose tests cannot use that: a [Patience] bounds every wait of a test that should not
// wait at all, so a test that hangs says what did not happen.
package nodetest
