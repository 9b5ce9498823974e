//go:build labs

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// With seed 7 a faulty host was the canary.
func TestLabFaultW18TheSmallestDemoEndsAsPlanned(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	var out, said bytes.Buffer
	if code := Main([]string{"demo", "--hosts", "40", "--seed", "7", "-o", "json"}, strings.NewReader(""), &out, &said); code != console.ExitOK {
		t.Fatalf("exit code %d: %s%s", code, out.String(), said.String())
	}
	var d demoReport
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if d.AsPlanned != 40+urgentHosts || len(d.Unexpected) > 0 {
		t.Errorf("%+v", d)
	}
}
