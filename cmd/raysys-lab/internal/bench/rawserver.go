package bench

import (
	"net"
	"sync"
)

// rawServer is the answering end of raw connections.
type rawServer struct {
	ln   net.Listener
	talk func(conn net.Conn) error // its error shows at the asking end, which sees the connection close
	all  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	conns []net.Conn
	shut  bool
}

func newRawServer(ln net.Listener, talk func(conn net.Conn) error) *rawServer {
	s := &rawServer{ln: ln, talk: talk}
	s.all.Go(s.accept)
	return s
}

func (s *rawServer) address() string { return s.ln.Addr().String() }

func (s *rawServer) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.shut {
			s.mu.Unlock()
			conn.Close()
			return
		}
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		s.all.Go(func() {
			defer conn.Close()
			_ = s.talk(conn)
		})
	}
}

func (s *rawServer) close() {
	s.ln.Close()
	s.mu.Lock()
	s.shut = true
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}
