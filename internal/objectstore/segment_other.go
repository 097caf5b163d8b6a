//go:build !linux

package objectstore

func newSegment(int64) (*segment, error) { return nil, errNoSegments }

func segmentLimit() int { return 0 }

func (s *segment) destroy() {}

// Reserve leaves it to the writes to notice a full disk.
func (f diskFile) Reserve(int64) error { return nil }

func (s *segment) address(int64) Shared { return Shared{FD: -1} }

func attachSegment(Shared, Version) (*segment, error) { return nil, errNoSegments }

func permanent(error) bool { return true }
