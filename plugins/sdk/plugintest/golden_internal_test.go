package plugintest

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// Any recorded session is read as it was.
func TestSessionsAreReadAsTheyWereWritten(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringOfN(rapid.SampledFrom([]rune("a$|~= \n<!\tß")), 0, 12, -1).Draw(t, "text")
	})
	rapid.Check(t, func(t *rapid.T) {
		var list []exchange
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			e := exchange{
				call: Call{
					Command: text.Draw(t, "command"), Stdin: text.Draw(t, "stdin"),
					ReadOnly: rapid.Bool().Draw(t, "read-only"), Fresh: rapid.Bool().Draw(t, "fresh"),
				},
				reply: Reply{Stdout: text.Draw(t, "stdout"), Stderr: text.Draw(t, "stderr"), Code: rapid.IntRange(0, 255).Draw(t, "code")},
			}
			if rapid.Bool().Draw(t, "killed") {
				e.reply.Signal = "KILL"
			}
			list = append(list, e)
		}
		written := formatSession(list)
		got, err := parseSession(written)
		if err != nil || len(got) != len(list) || len(list) > 0 && !reflect.DeepEqual(got, list) {
			t.Fatalf("%q\nread as %+v, %v\nwritten %+v", written, got, err, list)
		}
	})
}

func FuzzParseSession(f *testing.F) {
	f.Add("== read-only\n$ uptime\n| up\n= 0\n\n")
	f.Add("==\n$~x\n< y\n!~z\n= 1 KILL\n")
	f.Add("$ uptime\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseSession(text)
		if err != nil {
			return
		}
		again, err := parseSession(formatSession(list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
