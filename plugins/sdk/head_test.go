package sdk_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/plugins/sdk"
)

// Whatever a host prints, the text kept of it fits the bound as JSON, is valid, and is the beginning.
func TestOutputTextFitsItsBoundAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\"\\\n<>&\x00\xe2\x80\xa8"))), 0, 400).Draw(t, "raw")
		limit := rapid.IntRange(0, 500).Draw(t, "limit")
		got := sdk.OutputText(string(raw), limit)
		encoded, err := json.Marshal(got)
		whole := strings.ToValidUTF8(string(raw), "\uFFFD")
		if err != nil || len(encoded)-2 > limit || !utf8.ValidString(got) || !strings.HasPrefix(whole, got) {
			t.Fatalf("%q in %d bytes: %q, as JSON %d", raw, limit, got, len(encoded)-2)
		}
		if all, _ := json.Marshal(whole); len(all)-2 <= limit && got != whole {
			t.Fatalf("%q fits %d bytes, and was cut to %q", raw, limit, got)
		}
	})
}
