package object

// RealFS is the file system that a nil Config.FS stands for.
var RealFS FS = disk{}

// WithoutSegments makes s behave as on a platform without memory files.
func WithoutSegments(s *Store) {
	s.mu.Lock()
	s.noSegments = true
	s.mu.Unlock()
}
