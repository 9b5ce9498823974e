package wire_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// A plugin that was generated from a former plugin.proto has other names for these fields and the
// same numbers: a worker reads its bytes.
func TestFormerNamesHaveTheSameNumbers(t *testing.T) {
	var raw []byte
	raw = protowire.AppendString(protowire.AppendTag(raw, 3, protowire.BytesType), "image") // wake_on
	raw = protowire.AppendVarint(protowire.AppendTag(raw, 6, protowire.VarintType), 1)      // held
	var s wire.Suspended
	if err := proto.Unmarshal(raw, &s); err != nil || s.GetUntilSignal() != "image" || !s.GetWindowClosed() {
		t.Errorf("got %v, %v, expected until_signal and window_closed", &s, err)
	}
	raw = protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.VarintType), 1) // fresh
	var e wire.ExecStart
	if err := proto.Unmarshal(raw, &e); err != nil || !e.GetNewConnection() {
		t.Errorf("got %v, %v, expected new_connection", &e, err)
	}
}
