package shardlog

// EncodeSegment returns a segment without records, for tests that meddle with a log.
func EncodeSegment(epoch, seq uint64) []byte {
	b := block{kind: blockSegment, epoch: epoch, seq: seq, id: newNonce()}
	return b.encode()
}

// SegmentKey is where a segment lies.
var SegmentKey = segmentKey
