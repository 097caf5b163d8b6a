//go:build !linux

package objectstore

// Reserve leaves it to the writes to notice a full disk.
func (f diskFile) Reserve(int64) error { return nil }
