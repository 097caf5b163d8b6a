//go:build !race

package tally

// set stores a word that other goroutines read by get, and that they bear to see late. On the machines that Go runs on it is not torn, and
// an atomic store for each task costs too much: up to 13 % of one.
func set[T any](p **T, v *T) { *p = v }

// setTime is set for a time.
func setTime(p *int64, v int64) { *p = v }
