package objectstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// maxSpare bounds how many chunk buffers an Incoming keeps between two chunks.
const maxSpare = 8

// Object returns the object, which can be read as far as it came.
func (in *Incoming) Object() *Object { return in.object }

// Version returns the version that is being received.
func (in *Incoming) Version() Version { return in.version }

// Form returns where the bytes go.
func (in *Incoming) Form() Form { return in.form }

// Buffer lends the memory for chunk i, to one caller at a time: it must end with Filled or Return. It is nil when the
// chunk came already, is lent, or nothing more is wanted.
func (in *Incoming) Buffer(i int) []byte {
	s := in.object.store
	s.mu.Lock()
	defer s.unlock()
	if in.ended || i < 0 || i >= len(in.state) || in.state[i] != open {
		return nil
	}
	in.state[i] = lentChunk
	in.object.use()
	at, n := in.version.Section(i)
	if in.form != Disk {
		return in.mem[at : at+int64(n) : at+int64(n)]
	}
	var b []byte
	if last := len(in.spare) - 1; last >= 0 {
		b, in.spare = in.spare[last][:n], in.spare[:last]
	} else {
		b = make([]byte, n, min(ChunkSize, in.version.Size))
	}
	in.buffers[i] = b
	in.object.settle()
	return b
}

// Filled says that the buffer of chunk i holds it, and with which sum it came. The sum decides, and is kept for those
// to whom the chunk is given: with wrong bytes the chunk is open again and a ChunkError is returned. An error of the
// disk ends the whole transfer.
func (in *Incoming) Filled(i int, sum uint32) error {
	s := in.object.store
	s.mu.Lock()
	if i < 0 || i >= len(in.state) || in.state[i] != lentChunk {
		s.unlock()
		return fmt.Errorf("chunk %d of object %s was not lent: take its Buffer first", i, in.version.ID)
	}
	at, n := in.version.Section(i)
	b := in.buffers[i]
	if in.form != Disk {
		b = in.mem[at : at+int64(n)]
	}
	s.unlock()

	err := in.version.verify(i, sum, b)
	var broken error
	if err == nil && in.form == Disk {
		broken = in.writer.write(b, at)
	}
	if broken != nil {
		err = fmt.Errorf("%w: receive object %s: %w", raysys.ErrStoreFull, in.version.ID, broken)
		in.Abort(err)
	}

	s.mu.Lock()
	defer s.unlock()
	in.takeBack(i)
	if in.ended { // by this call, or by another that knew better
		err = in.err
	}
	if o := in.object; err == nil && !o.sums.note(i, sum) { // the chunk was here before, and was lost
		err = &ChunkError{Version: in.version, Chunk: i, Want: o.sums.crc[i], Got: sum}
	}
	if err != nil {
		in.state[i] = open
		in.object.settle()
		return err
	}
	in.state[i] = filled
	in.left--
	if ch := in.waits[i]; ch != nil {
		close(ch)
		delete(in.waits, i)
	}
	if in.left == 0 {
		in.finish()
		return in.err
	}
	in.object.settle()
	return nil
}

// Return gives the buffer of chunk i back without its bytes.
func (in *Incoming) Return(i int) {
	s := in.object.store
	s.mu.Lock()
	defer s.unlock()
	if i >= 0 && i < len(in.state) && in.state[i] == lentChunk {
		in.takeBack(i)
		in.state[i] = open
		in.object.settle()
	}
}

// takeBack ends the use of a lent buffer. The mutex is held.
func (in *Incoming) takeBack(i int) {
	in.object.users--
	if b := in.buffers[i]; b != nil {
		delete(in.buffers, i)
		if len(in.spare) < maxSpare {
			in.spare = append(in.spare, b[:0])
		}
	}
}

// Done waits until every chunk came, and returns why nothing more will.
func (in *Incoming) Done(ctx context.Context) error {
	select {
	case <-in.done:
		return in.err
	case <-ctx.Done():
		return fmt.Errorf("receive object %s: %w", in.version.ID, context.Cause(ctx))
	}
}

// finish makes the object complete: every chunk was verified. The mutex is held; it is given up while the header of a
// file is written.
func (in *Incoming) finish() {
	in.ended = true
	o, s := in.object, in.object.store
	if !s.closed {
		s.busy.Add(1)
		defer s.busy.Done()
	}
	var err error
	switch in.form {
	case Heap:
		o.heap = &heap{in.mem}
	case Disk:
		var f *spillFile
		s.unlock()
		f, err = in.writer.publish(in.writer.seal(in.version, o.sums.crc))
		s.mu.Lock()
		s.closeFile(in.part, in.part.open)
		if err == nil {
			o.file = f
		} else {
			s.diskUsed -= in.writer.length
			err = fmt.Errorf("%w: receive object %s: %w", raysys.ErrStoreFull, in.version.ID, err)
		}
	}
	s.count.received++
	s.count.receivedBytes += in.version.Size
	in.end(err)
}

// Abort gives the transfer up: the waiters for the object get err as the reason. The memory goes when the last buffer
// came back. Abort of a complete transfer does nothing.
func (in *Incoming) Abort(err error) {
	if err == nil {
		err = errors.New("given up")
	}
	s := in.object.store
	s.mu.Lock()
	defer s.unlock()
	if in.ended {
		return
	}
	in.ended = true
	if in.form == Disk {
		s.diskUsed -= in.writer.length
		s.closeFile(in.part, in.part.open)
		s.later(func() { _ = s.fs.Remove(in.writer.tmp) })
	}
	in.end(err)
}

// end wakes all waiters. The mutex is held.
func (in *Incoming) end(err error) {
	o := in.object
	in.err, in.spare = err, nil
	o.in = nil
	if err != nil {
		o.lost = fmt.Errorf("%w: object %s was not received whole: %w", raysys.ErrObjectLost, o.id, err)
		if !o.primary {
			o.unlist()
		}
	}
	for _, ch := range in.waits {
		close(ch)
	}
	in.waits = nil
	close(in.done)
	o.settle()
}

// lend lends a chunk that came; it waits for it. With ok false the object is not being received any more. The mutex is
// held, but for the wait.
func (in *Incoming) lend(ctx context.Context, i int) (c Chunk, ok bool, err error) {
	o := in.object
	for in.state[i] != filled || in.ended {
		if o.in != in {
			return c, false, nil
		}
		ch := in.waits[i]
		if in.ended { // its header is being written
			ch = in.done
		} else if ch == nil {
			ch = make(chan struct{})
			in.waits[i] = ch
		}
		if err := o.store.await(ctx, ch); err != nil {
			return c, false, fmt.Errorf("wait for chunk %d of object %s: %w", i, o.id, err)
		}
	}
	if in.form == Disk {
		c, err = o.fileChunk(ctx, in.part, in.part.body, i)
		return c, true, err
	}
	at, n := in.version.Section(i)
	return o.lend(Chunk{Pieces: [][]byte{in.mem[at : at+int64(n) : at+int64(n)]}, Size: n, sum: o.sums.crc[i]}), true, nil
}

// Form says where received bytes go.
type Form uint8

const (
	// Heap is a buffer of the collector's, for an object that is decoded.
	Heap Form = iota
	// Segment is mapped memory, which is used again while warm, for an object that is viewed. It is Heap where the
	// platform has no such memory.
	Segment
	// Disk is a spill file, for an object that shall not take memory. Receive takes it by itself when there is no room.
	Disk
	// Sent is Segment, and not the memory of another process of this host even where that could be mapped.
	Sent
)

func (f Form) String() string {
	return [...]string{"heap", "segment", "disk", "sent"}[f]
}

// Incoming is an object that is being received: chunks come in any order, from any number of goroutines.
type Incoming struct {
	object  *Object
	version Version
	form    Form
	mem     []byte      // of Heap and Segment
	writer  *fileWriter // of Disk
	part    *spillFile  // the file while it is written, for receivers that are served from it

	// The fields below are guarded by the store's mutex.

	state   []chunkState
	buffers map[int][]byte        // lent, of Disk
	waits   map[int]chan struct{} // closed when the chunk came or nothing more comes
	left    int                   // chunks that did not come yet
	spare   [][]byte              // buffers of Disk between two chunks
	ended   bool
	err     error
	done    chan struct{} // closed when the object is complete or given up
}

type chunkState uint8

const (
	open chunkState = iota
	lentChunk
	filled
)

// unless joins the reasons why neither memory nor disk has room; the first is nil where memory was not asked.
func unless(memory, disk error) error {
	if memory == nil {
		return disk
	}
	return fmt.Errorf("%w; and on disk: %w", memory, disk)
}

// memory returns the bytes that are charged to the object, which has no form of them yet.
func (in *Incoming) memory() int64 {
	n := int64(0)
	if in.form == Heap {
		n = int64(len(in.mem))
	}
	for _, b := range in.buffers {
		n += int64(len(b))
	}
	return n
}
