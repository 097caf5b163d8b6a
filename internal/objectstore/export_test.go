package objectstore

// RealFS is the file system that a nil Config.FS stands for.
var RealFS = RealFiles()

// WithoutSegments makes s behave as on a platform without memory files.
func WithoutSegments(s *Store) {
	s.mu.Lock()
	s.noSegments = true
	s.mu.Unlock()
}

// Segments returns how many s holds, and sets how many it may hold.
func Segments(s *Store, limit int) int {
	s.mu.Lock()
	defer s.unlock()
	s.maxSegments = limit
	return s.segments
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

// Idle returns how many files are mapped and nobody looks at.
func Idle(s *Store) int {
	s.mu.Lock()
	defer s.unlock()
	return len(s.idle)
}

// Spill writes o out as if its room were needed.
func Spill(o *Object) error {
	o.store.mu.Lock()
	defer o.store.unlock()
	return o.store.spill(o.store.ctx, o)
}

// Thin drops a form of o that another makes needless.
func Thin(o *Object) {
	o.store.mu.Lock()
	defer o.store.unlock()
	o.store.thin(o)
}

// FileHeader returns a header with its padding.
func FileHeader(cluster, label string, v Version, sums []uint32) []byte {
	b := appendHeader(nil, cluster, label, v, sums)
	return append(b, make([]byte, int(bodyOffset(cluster, label, v.Size))-len(b))...)
}

// ReadFileHeader is readHeader for tests.
var ReadFileHeader = readHeader

// SumsAsTheyCome computes the sums of chunks whose bytes come in pieces.
func SumsAsTheyCome(pieces [][]byte) []uint32 {
	var r running
	for _, p := range pieces {
		r.add(p)
	}
	return r.all()
}

// SumsOf computes them chunk by chunk.
func SumsOf(b []byte) (out []uint32) {
	for at := 0; at < len(b); at += ChunkSize {
		out = append(out, Checksum(b[at:min(len(b), at+ChunkSize)]))
	}
	return out
}

// Touch makes the object the one that was used last: its value was read without the store. Chunk, Bytes, Map and Share do it
// by themselves.
func (o *Object) Touch() {
	o.store.mu.Lock()
	o.touch()
	o.store.unlock()
}

// Primary reports what SetPrimary said last.
func (o *Object) Primary() bool {
	o.store.mu.Lock()
	defer o.store.unlock()
	return o.primary
}

// Missing returns the chunks that did not come yet and whose buffers are not lent.
func (in *Incoming) Missing() (chunks []int) {
	s := in.object.store
	s.mu.Lock()
	defer s.unlock()
	if in.ended {
		return nil
	}
	for i, st := range in.state {
		if st == open {
			chunks = append(chunks, i)
		}
	}
	return chunks
}
