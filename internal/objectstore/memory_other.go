//go:build !linux

package objectstore

// memory is assumed where the system is not asked: give Config.Budget.
func memory() int64 { return 4 << 30 }
