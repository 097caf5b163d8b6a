//go:build !linux

package object

func newSegment(int64) (*segment, error) { return nil, errNoSegments }

func (s *segment) destroy() {}
