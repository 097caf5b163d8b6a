//go:build !unix

package bench

// fresh is memory that is new to this process.
func fresh(n int) ([]byte, error) { return make([]byte, n), nil }

// giveBack returns memory of fresh.
func giveBack([]byte) error { return nil }
