package cron

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSchedule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ // "" for valid
		"* * * * *":                   "",
		"0 3 * * 1":                   "",
		"*/15 8-18 * jan,MAR mon-fri": "",
		"0-30/10,45 0 1,15 */2 7":     "",
		" 5\t4 * * sun ":              "",
		"0 0 29 2 *":                  "",
		"0 0 31 2 mon":                "", // cron takes either day
		"0 0 31 2 *":                  "never comes",
		"0 0 31 apr *":                "never comes",
		"* * * *":                     "found 4",
		"0 3 * * 1 root":              "found 6",
		"* * *\n* *":                  "on one line",
		"60 * * * *":                  `minute "60": expected 0 to 59`,
		"* 24 * * *":                  `hour "24"`,
		"* * 0 * *":                   `day of month "0"`,
		"* * * 13 *":                  `month "13"`,
		"* * * * 8":                   `day of week "8"`,
		"5-1 * * * *":                 "begins after its end",
		"*/0 * * * *":                 "a step from 1 to 59",
		"5/2 * * * *":                 "a step goes with * or a range",
		"+5 * * * *":                  "expected 0 to 59",
		"1,,2 * * * *":                "expected 0 to 59",
		"1- * * * *":                  "expected 0 to 59",
		"* * * foo *":                 "expected 1 to 12",
		"@daily":                      "found 1",
	} {
		if err := checkSchedule(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	p := Params{Schedule: " 5  4 * * * ", User: "app", Command: `echo "a b"`, Env: map[string]string{"PATH": "/bin", "MAILTO": ""}}
	const want = "# Written by Turnus: changes made here are lost.\nMAILTO=\"\"\nPATH=\"/bin\"\n5 4 * * * app echo \"a b\"\n"
	if got := p.text(); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// systemd reads a changed unit file again only when it is asked to: each file of the timer in the
// description notifies a handler that asks.
func TestTimerOfTheDescriptionTakesChanges(t *testing.T) {
	t.Parallel()
	steps, handlers, _ := strings.Cut(description, "\nhandlers:\n")
	files := strings.Split(steps, "- uses: ")[1:]
	if len(files) != 3 {
		t.Fatalf("%d steps, expected two unit files and a service", len(files))
	}
	for _, step := range files[:2] {
		if !strings.HasPrefix(step, "file\n") || !strings.Contains(step, "notify: [timer]") {
			t.Errorf("a change of this file is not noticed: %s", step)
		}
	}
	if !strings.Contains(handlers, "name: timer\n") || !strings.Contains(handlers, "systemctl daemon-reload && systemctl restart backup.timer") {
		t.Errorf("no handler loads changed units: %s", handlers)
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, c := range map[string]struct {
		with sdk.With
		want string // "" for valid
	}{
		"a job":                   {sdk.With{"name": "a", "schedule": "* * * * *", "command": "true"}, ""},
		"no name":                 {sdk.With{"schedule": "* * * * *", "command": "true"}, `: parameter "name" is required`},
		"a dot":                   {sdk.With{"name": "a.b", "schedule": "* * * * *", "command": "true"}, "/name: "},
		"a path":                  {sdk.With{"name": "../a", "schedule": "* * * * *", "command": "true"}, "/name: "},
		"a schedule that is none": {sdk.With{"name": "a", "schedule": "* * * *", "command": "true"}, "/schedule: expected five fields"},
		"both":                    {sdk.With{"name": "a", "schedule": "* * * * *", "special": "@daily", "command": "true"}, ": expected schedule or special"},
		"neither":                 {sdk.With{"name": "a", "command": "true"}, ": expected schedule or special"},
		"no such special":         {sdk.With{"name": "a", "special": "@often", "command": "true"}, "/special: "},
		"a command of two lines":  {sdk.With{"name": "a", "special": "@daily", "command": "true\nfalse"}, "/command: "},
		"a variable of two lines": {sdk.With{"name": "a", "special": "@daily", "command": "true", "env": sdk.With{"A": "1\n* * * * * root x"}}, "/env/A: "},
		"no variable":             {sdk.With{"name": "a", "special": "@daily", "command": "true", "env": sdk.With{"A B": "1"}}, "/env/A B: "},
		"gone, with a command":    {sdk.With{"name": "a", "command": "true", "state": "absent"}, "/state: "},
		"gone":                    {sdk.With{"name": "a", "state": "absent"}, ""},
	} {
		if got := kit.Validate(c.with); (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
