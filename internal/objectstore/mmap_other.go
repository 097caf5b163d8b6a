//go:build !unix

package objectstore

func mapBody(File, int64, int64) (*fileMapping, error) { return nil, errNotMappable }

func (m *fileMapping) destroy() {}
