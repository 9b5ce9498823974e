package cron

import (
	"context"
	"fmt"
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

// A command keeps its quotes, backslashes, %, $ and line ends in a unit file.
func TestUnits(t *testing.T) {
	t.Parallel()
	p := Params{Calendar: "Mon *-*-* 03:00", User: "app", Command: "echo \"$HOME\" 'a\\b'\tx;\ndate +%F\n", Env: map[string]string{"PATH": "/bin", "A": `50%\$`}}
	const service = header + `[Service]
Type=oneshot
User=app
WorkingDirectory=-~
Environment="A=50%%\\$"
Environment="PATH=/bin"
ExecStart=/bin/sh -c "echo \"$$HOME\" 'a\\b'\tx;\ndate +%%F\n"
`
	if got := p.service(); got != service {
		t.Errorf("%s, expected %s", got, service)
	}
	if got := p.timer(); got != header+"[Timer]\nOnCalendar=Mon *-*-* 03:00\nAccuracySec=1s\n[Install]\nWantedBy=timers.target\n" {
		t.Error(got)
	}
}

// A timer on hosts in each state: in check mode and in a run, with the same outcome.
func TestTimer(t *testing.T) {
	t.Parallel()
	p := Params{Name: "a", Calendar: "daily", User: "root", Command: "true"}
	file := func(word, content string) string { return fmt.Sprintf("%s %d\n%s", word, len(content), content) }
	units := file("service", p.service()) + file("timer", p.timer())
	timer := sdk.With{"name": "a", "calendar": "daily", "command": "true"}
	for name, c := range map[string]struct {
		with    sdk.With
		answer  string // of the host
		outcome string
		diffs   int
		says    string // the reason, or the command that changes the host
	}{
		"new":                        {timer, "systemd\n", "changed", 2, "units='' gone=''\n"},
		"as wanted":                  {timer, units + "systemd\nruns\n", "unchanged", 0, ""},
		"written, not started":       {timer, units + "systemd\n", "changed", 1, "units=1 gone=''\n"},
		"the service is missing":     {timer, file("timer", p.timer()) + "systemd\nruns\n", "changed", 1, "units=1 gone=''\n"},
		"the timer is missing":       {timer, file("service", p.service()) + "systemd\n", "changed", 1, "units=1 gone=''\n"},
		"a file of cron of ours":     {timer, file("cron", p.text()) + units + "systemd\nruns\n", "changed", 1, "units=1 gone=/etc/cron.d/a\n"},
		"a file of cron of others":   {timer, file("cron", "x") + units + "systemd\nruns\n", "unchanged", 0, ""},
		"a service of others":        {timer, file("service", "x") + "systemd\n", "failed", 0, "/etc/systemd/system/a.service is there, and Turnus did not write it"},
		"a mask":                     {timer, "timer a link to /dev/null\nsystemd\n", "failed", 0, "/etc/systemd/system/a.timer is there"},
		"a unit of a package":        {timer, "systemd\ntaken /usr/lib/systemd/system/a.timer\n", "failed", 0, "the host has /usr/lib/systemd/system/a.timer"},
		"a calendar that is none":    {timer, "systemd\nbad Failed to parse 'daily': Invalid argument\n", "failed", 0, "timer a: systemd rejects the calendar: Failed to parse 'daily'"},
		"no systemd":                 {timer, "nofolder\n", "failed", 0, "timer a: systemd does not run on the host"},
		"a file that is cut":         {timer, "timer 9\nshort", "failed", 0, "/etc/systemd/system/a.timer: the file is larger than 1 MiB"},
		"back to cron":               {sdk.With{"name": "a", "special": "@daily", "command": "true"}, units, "changed", 3, "units=1 gone=''\n"},
		"cron, and units of others":  {sdk.With{"name": "a", "special": "@daily", "command": "true"}, file("cron", header+"@daily root true\n") + file("timer", "x") + file("service", p.service()), "unchanged", 0, ""},
		"cron, and a link":           {sdk.With{"name": "a", "special": "@daily", "command": "true"}, "cron a link to x\n", "failed", 0, "/etc/cron.d/a: it is a link to x"},
		"no such user":               {timer, "nouser\nsystemd\n", "failed", 0, "job a: the host has no user root: add a step of the type user"},
		"a user who is gone":         {timer, units + "nouser\nsystemd\nruns\n", "failed", 0, "the host has no user root"},
		"gone":                       {sdk.With{"name": "a", "state": "absent"}, file("cron", "x") + units, "changed", 3, "units=1 gone=/etc/cron.d/a\n"},
		"gone, only a part is there": {sdk.With{"name": "a", "state": "absent"}, file("timer", p.timer()), "changed", 1, "units=1 gone=''\n"},
		"gone, of others":            {sdk.With{"name": "a", "state": "absent"}, file("timer", "x"), "unchanged", 0, ""},
	} {
		kit := plugintest.New(t, Def())
		kit.Host("m1").Handle(func(_ context.Context, call plugintest.Call) plugintest.Reply {
			if !call.ReadOnly {
				return plugintest.Reply{}
			}
			return plugintest.Reply{Stdout: c.answer}
		})
		checked := kit.Check(c.with)
		got := kit.Run(c.with)
		calls := kit.Host("m1").Calls()[1:]
		if checked.Outcome != c.outcome || got.Outcome != c.outcome || len(checked.Diffs) != c.diffs {
			t.Errorf("%s: check mode %s with %d differences, the run %s (%s)", name, checked.Outcome, len(checked.Diffs), got.Outcome, got.Reason)
			continue
		}
		said := got.Reason
		if c.outcome == "changed" && len(calls) > 1 {
			said = calls[1].Command
		}
		if most := map[string]int{"changed": 3}[c.outcome]; !strings.Contains(said, c.says) || len(calls) > max(most, 1) {
			t.Errorf("%s: %d round trips: %s", name, len(calls), said)
		}
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
		"both":                    {sdk.With{"name": "a", "schedule": "* * * * *", "special": "@daily", "command": "true"}, ": expected schedule, special or calendar"},
		"neither":                 {sdk.With{"name": "a", "command": "true"}, ": expected schedule, special or calendar"},
		"no such special":         {sdk.With{"name": "a", "special": "@often", "command": "true"}, "/special: "},
		"a command of two lines":  {sdk.With{"name": "a", "special": "@daily", "command": "true\nfalse"}, "/command: "},
		"a variable of two lines": {sdk.With{"name": "a", "special": "@daily", "command": "true", "env": sdk.With{"A": "1\n* * * * * root x"}}, "/env/A: "},
		"no variable":             {sdk.With{"name": "a", "special": "@daily", "command": "true", "env": sdk.With{"A B": "1"}}, "/env/A B: "},
		"gone, with a command":    {sdk.With{"name": "a", "command": "true", "state": "absent"}, "/state: "},
		"a timer":                 {sdk.With{"name": "a", "calendar": "Mon..Fri *-*~1 03:00 Europe/Berlin", "command": "true\nfalse"}, ""},
		"a timer and a schedule":  {sdk.With{"name": "a", "calendar": "daily", "special": "@daily", "command": "true"}, ": expected schedule, special or calendar"},
		"a calendar of two lines": {sdk.With{"name": "a", "calendar": "daily\nUnit=x", "command": "true"}, "/calendar: "},
		"a calendar that goes on": {sdk.With{"name": "a", "calendar": "daily\\", "command": "true"}, "/calendar: "},
		"a calendar of nothing":   {sdk.With{"name": "a", "calendar": "", "command": "true"}, "/calendar: "},
		"gone, with a calendar":   {sdk.With{"name": "a", "calendar": "daily", "state": "absent"}, "/state: "},
		"gone":                    {sdk.With{"name": "a", "state": "absent"}, ""},
	} {
		if got := kit.Validate(c.with); (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
