package scaffold

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// pythonWire is the messages of the wire for Python's protobuf, as protoc writes them: the file's
// descriptor, and two calls that make classes of it.
func pythonWire() ([]byte, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(protodesc.ToFileDescriptorProto(wire.File_plugin_proto))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(`"""The messages between a Turnus worker and its plugins. Made by turnus plugins init; do not edit."""
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(
`)
	for len(raw) > 0 {
		n := min(len(raw), 24)
		out.WriteString(`    b"`)
		for _, b := range raw[:n] {
			fmt.Fprintf(&out, `\x%02x`, b)
		}
		out.WriteString("\"\n")
		raw = raw[n:]
	}
	out.WriteString(`)
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "turnus_pb2", globals())
`)
	return out.Bytes(), nil
}
