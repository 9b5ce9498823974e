//go:build labs

package lab

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
	con := console.New(strings.NewReader(""), &out, &said)
	con.Output = "json"
	if err := Demo(t.Context(), con, 40, 7); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), said.String())
	}
	var d demoReport
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if d.AsPlanned != 40+urgentHosts || len(d.Unexpected) > 0 {
		t.Errorf("%+v", d)
	}
}
