package object

// RealFS is the file system that a nil Config.FS stands for.
var RealFS FS = disk{}

// WithoutSegments makes s behave as on a platform without memory files.
func WithoutSegments(s *Store) {
	s.mu.Lock()
	s.noSegments = true
	s.mu.Unlock()
}

// DirOf returns where s spills: the directory of its incarnation, or Config.Dir before there is one.
func DirOf(s *Store) string {
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	if s.dir.dir == "" {
		return s.dir.base
	}
	return s.dir.dir
}
