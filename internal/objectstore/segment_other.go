//go:build !linux

package objectstore

func newSegment(int64) (*segment, error) { return nil, errNoSegments }

func segmentLimit() int { return 0 }

func (s *segment) destroy() {}
