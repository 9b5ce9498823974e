package sdk_test

import (
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
)

func TestAnswer(t *testing.T) {
	a := sdk.ReadAnswer("state armed\nstate confirmed\r\nleft 7\nstale\nlive table t {\nlive }\nlive \n")
	for word, want := range map[string]struct {
		has         bool
		value, text string
		number      int
	}{
		"state": {true, "confirmed", "armed\nconfirmed\n", 0},
		"left":  {true, "7", "7\n", 7},
		"stale": {true, "", "\n", 0},
		"live":  {true, "", "table t {\n}\n\n", 0},
		"other": {},
	} {
		if a.Has(word) != want.has || a.Value(word) != want.value || a.Text(word) != want.text || a.Number(word) != want.number {
			t.Errorf("%s: %v, %q, %q, %d; want %+v", word, a.Has(word), a.Value(word), a.Text(word), a.Number(word), want)
		}
	}
	if none := (sdk.Answer{}); none.Has("state") || none.Value("state") != "" || none.Text("state") != "" || none.Number("state") != 0 {
		t.Error("the zero value has a value")
	}
}
