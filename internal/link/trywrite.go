package link

// tryWriter is a connection that can write what fits without waiting, so that a goroutine with something better to do
// than to wait for the network may write.
type tryWriter interface {
	TryWrite(b []byte) (int, error)
}
