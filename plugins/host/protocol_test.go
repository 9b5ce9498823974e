package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// A plugin of another protocol is named with its version, and so is the protocol of each side,
// whether its manifest or its handshake shows it. Red with the texts of before: "incompatible API
// version with plugin".
func TestFaultP5AnotherProtocolNamesBothSides(t *testing.T) {
	b := open(t, &fleet{}, mode("newer"))
	out, err := b.Run(t.Context(), call("echo", labParams{}))
	const newer = "speaks protocol 2, this turnus speaks 1\nhint: upgrade turnus here"
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "plugin lab 1.0.0 "+newer) || !strings.Contains(out.Reason, newer) {
		t.Errorf("by its handshake: %+v, %v", out, err)
	}
	m := labManifest()
	for protocol, want := range map[int]string{
		2: "plugin lab 1.0.0 " + newer,
		0: "plugin lab 1.0.0 speaks protocol 0, this turnus speaks 1\nhint: build the plugin with the SDK of this release",
	} {
		m.Protocol = protocol
		if err := m.Validate(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("by its manifest: %v", err)
		}
	}
}
