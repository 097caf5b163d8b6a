package jetbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/stream/internal/bus"
)

const (
	// maxBatch is how many messages one batch has; a server takes 1,000.
	maxBatch = 500
	// minBatch is how many have to be there for one: on a stream without replicas the server makes a file for each, which takes as long as
	// some messages do.
	minBatch = 8
	// openBatches bounds the batches under way; a stream takes 50 and refuses others.
	openBatches = 32
)

// batches reports whether the server takes atomic batches, which version 2.12 brought.
func (b *Bus) batches() bool {
	var major, minor int
	_, err := fmt.Sscanf(b.conn().ConnectedServerVersion(), "%d.%d", &major, &minor)
	return err == nil && (major > 2 || major == 2 && minor >= 12)
}

// publishBatch stores all of list or nothing: a list that was stored in part and sent again would not be in its order.
func (b *Bus) publishBatch(ctx context.Context, stream string, list []bus.Message) (seq uint64, err error) {
	messages := make([]*nats.Msg, len(list))
	for i, m := range list {
		messages[i] = outgoing(stream, m)
	}
	err = b.insist(ctx, answerWithin, []string{messages[0].Subject}, func(ctx context.Context) error {
		select {
		case b.batch <- struct{}{}:
			defer func() { <-b.batch }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		id := strings.ReplaceAll(nats.NewInbox(), ".", "-")
		for i, m := range messages {
			m.Header.Set("Nats-Batch-Id", id)
			m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		}
		last, nc := len(messages)-1, b.conn()
		for _, m := range messages[:last] {
			if err := nc.PublishMsg(m); err != nil {
				return err
			}
		}
		messages[last].Header.Set("Nats-Batch-Commit", "1")
		reply, err := nc.RequestMsgWithContext(ctx, messages[last])
		if err != nil {
			return b.refused(ctx, stream, err)
		}
		var ack struct {
			Error    *jetstream.APIError `json:"error"`
			Sequence uint64              `json:"seq"`
		}
		switch err := json.Unmarshal(reply.Data, &ack); {
		case err != nil:
			return fmt.Errorf("the answer of NATS to a batch: %w", err)
		case ack.Error != nil && ack.Error.ErrorCode == codeDuplicate: // an attempt before this one was stored, and its answer was lost
			return nil
		case ack.Error != nil:
			return b.refused(ctx, stream, ack.Error)
		}
		seq = ack.Sequence
		return nil
	})
	return seq, err
}
