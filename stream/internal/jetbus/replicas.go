package jetbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/stream/internal/bus"
)

// Replicate implements bus.Bus. What else the stream is configured to is sent back as it came, also what this client does not know.
func (b *Bus) Replicate(ctx context.Context, stream string, n int) (have, want int, err error) {
	name := bus.Escape(stream)
	err = b.insist(ctx, answerWithin, questions(name, "STREAM.INFO", "STREAM.UPDATE"), func(ctx context.Context) error {
		want = n
		if b.conn().ConnectedClusterName() == "" {
			want = 1
		}
		config, err := b.api(ctx, "STREAM.INFO."+name, nil)
		if err != nil {
			return b.missing(stream, err)
		}
		if err := json.Unmarshal(config["num_replicas"], &have); err != nil || have >= want {
			return err
		}
		config["num_replicas"] = json.RawMessage(strconv.Itoa(want))
		if _, err := b.api(ctx, "STREAM.UPDATE."+name, config); err != nil {
			if codeOf(err) != 0 {
				return fmt.Errorf("%w: %w", bus.ErrRefused, err)
			}
			return err
		}
		have = want
		return nil
	})
	return have, want, err
}

// api asks JetStream, and returns the configuration of a stream.
func (b *Bus) api(ctx context.Context, subject string, question map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	var data []byte
	if question != nil {
		var err error
		if data, err = json.Marshal(question); err != nil {
			return nil, err
		}
	}
	reply, err := b.conn().RequestWithContext(ctx, "$JS.API."+subject, data)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error  *jetstream.APIError        `json:"error"`
		Config map[string]json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("the answer of NATS to %s: %w", subject, err)
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	return answer.Config, nil
}
