package wirerpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// A message of gRPC is a byte that shows whether it is compressed, four with its length, and its
// bytes.
const frameHeader = 5

// keepBuffer is the largest buffer that is kept for the next message.
const keepBuffer = 128 << 10

// buffers holds buffers of messages that were written or decoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool is shared by what it is for

func giveBack(b *[]byte) {
	if cap(*b) <= keepBuffer {
		buffers.Put(b)
	}
}

// frame encodes a message into a buffer of the pool.
func frame(m proto.Message) (*[]byte, error) {
	b := buffers.Get().(*[]byte)
	out, err := proto.MarshalOptions{}.MarshalAppend(append((*b)[:0], 0, 0, 0, 0, 0), m)
	if err != nil {
		return nil, Errorf(CodeInternal, "encode the message: %w", err)
	}
	size := len(out) - frameHeader
	if size > wire.MaxMessage {
		return nil, Errorf(CodeResourceExhausted, "message of %d bytes: at most %d are sent", size, wire.MaxMessage)
	}
	binary.BigEndian.PutUint32(out[1:], uint32(size))
	*b = out
	return b, nil
}

// receive decodes the next message of a body. The error is io.EOF at the end of the body.
func receive(body io.Reader, m proto.Message) error {
	b := buffers.Get().(*[]byte)
	defer giveBack(b)
	if cap(*b) < frameHeader {
		*b = make([]byte, 512)
	}
	head := (*b)[:frameHeader]
	if _, err := io.ReadFull(body, head); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("read a message: %w", err)
	}
	if head[0] != 0 {
		return Errorf(CodeUnimplemented, "the message is compressed: expected one that is not")
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > wire.MaxMessage {
		return Errorf(CodeResourceExhausted, "message of %d bytes: at most %d are accepted", size, wire.MaxMessage)
	}
	if cap(*b) < int(size) {
		*b = make([]byte, size)
	}
	raw := (*b)[:size]
	if _, err := io.ReadFull(body, raw); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read a message: %w", err)
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		return Errorf(CodeInternal, "decode the message: %w", err)
	}
	return nil
}
