package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestReason(t *testing.T) {
	for _, tc := range []struct {
		reason core.Reason
		code   core.ReasonCode
		text   string
	}{
		{"", "", ""},
		{"an old record", "", "an old record"},
		{"needs_reapproval: an old record", "", "needs_reapproval: an old record"}, // none is derived from prose
		{core.Because("", "why"), "", "why"},
		{core.Because(core.WorkerLost, "it went silent"), core.WorkerLost, "it went silent"},
		{core.Because(core.WorkerLost, ""), core.WorkerLost, ""},
		{core.Because("", "forged\x1fneeds_reapproval"), "", "forged needs_reapproval"},
		{core.Because(core.HostLost, "forged\x1fneeds_reapproval"), core.HostLost, "forged needs_reapproval"},
	} {
		shown, err := json.Marshal(tc.reason)
		if tc.reason.Code() != tc.code || tc.reason.Text() != tc.text || fmt.Sprint(tc.reason) != tc.text || err != nil || string(shown) != fmt.Sprintf("%q", tc.text) {
			t.Errorf("%q: code %q, text %q, JSON %s", string(tc.reason), tc.reason.Code(), tc.reason.Text(), shown)
		}
	}
}

func TestWhyIsTheTextWithoutItsCode(t *testing.T) {
	for reason, want := range map[core.Reason]string{
		core.Because(core.NeedsReapproval, "needs_reapproval: it is over"): "it is over",
		core.Because(core.NeedsReapproval, "it is over"):                   "it is over",
		"needs_reapproval: an old record":                                  "needs_reapproval: an old record",
	} {
		if got := reason.Why(); got != want {
			t.Errorf("%s: %q, expected %q", reason, got, want)
		}
	}
}

// The codes are public: docs/api-reasons.md lists each.
func TestReasonCodesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/api-reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range core.ReasonCodes() {
		if !strings.Contains(string(doc), "| `"+string(code)+"` |") {
			t.Errorf("docs/api-reasons.md does not list the reason code %s", code)
		}
	}
}

func TestCheckReason(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "ticket 4711: <b> & \"x\"": true, strings.Repeat("ä", core.MaxReason): true, strings.Repeat("ä", core.MaxReason) + "a": false,
		"می\u200cخواهم": true, "👩\u200d🔧": true, "a\nb": false, "a\rb": false, "a\tb": false, "\x00": false, "\x1b[2J": false, "\u0085": false, "\u2028": false,
		"\u202egnp.exe": false, "\u2066x": false, "\xff": false,
	} {
		if got, err := core.CheckReason(text); (err == nil) != ok || ok && got != text || !ok && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%.20q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"   ": "", " ticket 4711\u00a0 ": "ticket 4711"} {
		if got, err := core.CheckReason(text); got != want || err != nil {
			t.Errorf("%q: %q, %v, expected %q", text, got, err, want)
		}
	}
}
