//go:build second

package main

// total has a field more than that of the first build.
type total struct {
	N    int
	Note string
}
