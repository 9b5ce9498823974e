package console

import (
	"bytes"
	"strings"
	"testing"
)

func TestYAMLHasTheKeysAndTypesOfJSON(t *testing.T) {
	var out bytes.Buffer
	c := New(strings.NewReader(""), &out, &bytes.Buffer{})
	if got := c.Out.Format("yaml"); got != "json" {
		t.Errorf("yaml is %q to commands", got)
	}
	type doc struct {
		Name string   `json:"name"`
		Took float64  `json:"took"`
		List []string `json:"list"`
	}
	if err := PrintJSON(c.Out, doc{"12", 1.5, []string{"a\nb", "<&>"}}); err != nil {
		t.Fatal(err)
	}
	want := "---\nname: \"12\"\ntook: 1.5\nlist:\n  - |-\n    a\n    b\n  - <&>\n"
	if out.String() != want {
		t.Errorf("got\n%s\nexpected\n%s", out.String(), want)
	}
}

func TestFormsOfTables(t *testing.T) {
	long := strings.Repeat("x", 100)
	for form, want := range map[string]string{"text": "NAME  WHY\nweb   " + long[:79] + "…\n", "wide": "NAME  WHY\nweb   " + long + "\n", "name": "web\n"} {
		var out bytes.Buffer
		c := New(strings.NewReader(""), &out, &bytes.Buffer{})
		if got := c.Out.Format(form); got != "text" {
			t.Errorf("%s is %q to commands", form, got)
		}
		Table(c.Out, [][]string{{"NAME", "WHY"}, {"web", c.Out.Cell(long + "\nmore")}})
		if out.String() != want {
			t.Errorf("%s: got\n%s", form, out.String())
		}
	}
}

func TestASilentConsolePrintsWarnings(t *testing.T) {
	var errs bytes.Buffer
	c := New(strings.NewReader(""), &bytes.Buffer{}, &errs)
	c.Silence()
	c.Message("progress")
	c.Report("warning: x")
	if errs.String() != "warning: x\n" {
		t.Errorf("stderr is %q", errs.String())
	}
}

func TestColoursAreChosen(t *testing.T) {
	var errs bytes.Buffer
	c := New(strings.NewReader(""), &bytes.Buffer{}, &errs)
	c.Colored(true)
	c.Report(c.Paint(Red, "a"))
	c.Colored(false)
	c.Report(c.Paint(Red, "b"))
	if errs.String() != "\x1b[31ma\x1b[0m\nb\n" {
		t.Errorf("stderr is %q", errs.String())
	}
}
