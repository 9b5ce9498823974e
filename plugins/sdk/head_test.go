package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// With any output of a host, the text kept of it fits the bound as JSON, is valid, and is the
// beginning.
func TestOutputTextFitsItsBoundAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte(" \"\\\n<>&\x00\xe2\x80\xa8"))), 0, 400).Draw(t, "raw")
		limit := rapid.IntRange(0, 500).Draw(t, "limit")
		got := sdk.OutputText(string(raw), limit)
		encoded, err := json.Marshal(got)
		whole := strings.ToValidUTF8(string(raw), "\uFFFD")
		if err != nil || len(encoded)-2 > limit || !utf8.ValidString(got) || !strings.HasPrefix(whole, got) {
			t.Fatalf("%q in %d bytes: %q, as JSON %d", raw, limit, got, len(encoded)-2)
		}
		if got != whole && got != "" && !strings.ContainsAny(whole[len(got):len(got)+1], " \t\r\n") {
			t.Fatalf("%q was cut within a word: %q", whole, got)
		}
		if all, _ := json.Marshal(whole); len(all)-2 <= limit && got != whole {
			t.Fatalf("%q fits %d bytes, and was cut to %q", raw, limit, got)
		}
	})
}

// Wherever a text is cut, a secret is in the kept text wholly or not at all: a worker takes out
// only what is whole.
func TestFaultS6SecretsAreNotCutThrough(t *testing.T) {
	const secret = "tk_9fQz7Lm2XwB4r"
	for name, cut := range map[string]func(string) string{
		"outputs": func(text string) string { return sdk.OutputText(text, 400) },
		"a head":  func(text string) string { h := sdk.Head{Limit: 400}; _, _ = h.Write([]byte(text)); return h.String() },
		"a line":  func(text string) string { var l sdk.LastLine; _, _ = l.Write([]byte(text)); return l.String() },
		"far behind": func(text string) string {
			var l sdk.LastLine
			_, _ = l.Write([]byte(strings.Repeat(" ", 200) + text))
			return l.String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			cuts := 0
			for before := range 600 {
				got := cut(strings.Repeat("ab ", before/3) + strings.Repeat(" ", before%3) + secret + " and " + strings.Repeat("more ", 150))
				if strings.Contains(got, secret[:4]) && !strings.Contains(got, secret) {
					t.Fatalf("behind %d bytes the secret shows: %q", before, got)
				}
				if !strings.Contains(got, secret) {
					cuts++
				}
			}
			if cuts == 0 {
				t.Error("no text was cut before the secret: the test is void")
			}
		})
	}
}

// A program that met a full disk need not print that last. The failure names the next
// command. Control: another failure names none.
func TestAFullDiskNamesTheNextCommand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"tar: No space left on device\nexiting": true, "Disk quota exceeded": true, "Permission denied": false} {
		half := len(text) / 2
		line := fmt.Sprintf("{ printf '%%s' '%s'; printf '%%s\\n' '%s'; } >&2; exit 3", text[:half], text[half:])
		kit := plugintest.New(t, sdk.Job("test.full", func(ctx context.Context, r *sdk.Run[struct{}, sdk.NoState]) error {
			streamed, err := r.Host().Exec(ctx, sdk.Command{Run: line})
			if err != nil {
				return err
			}
			for _, err := range []error{streamed.Err(), r.Host().Short(ctx, sdk.Command{Run: line}).Err()} {
				if err == nil || strings.Contains(err.Error(), "\nhint: is the disk full, or a quota reached? See df -h on the host") != want {
					t.Errorf("%q: %v", text, err)
				}
			}
			return nil
		}))
		kit.Host("r1").Local()
		if got := kit.Run(sdk.With{}); got.Outcome == "failed" {
			t.Error(got.Reason)
		}
	}
}
