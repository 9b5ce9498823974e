package playbooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/windows/civil"
)

func (d *decoder) readSchedule(n *yaml.Node, p *Playbook) {
	before := len(d.diags)
	s := Schedule{Timezone: "UTC", CatchUp: "skip", Overlap: "skip"}
	readFields(d, n, "schedule", scheduleFields(), scheduleWords(), &s)
	if len(d.diags) > before || s.Cron == "" {
		return
	}
	p.Schedule = &s
	gap, at := recurrence(s.Cron, s.Timezone)
	if gap > 0 {
		d.checkRecurrence(n, p, gap, at)
	}
	switch {
	case s.StartWithin > 0 && s.Jitter > s.StartWithin:
		d.reportNode(d.child(n, "jitter"), problem{message: fmt.Sprintf("jitter %s is longer than start_within %s", short(s.Jitter), short(s.StartWithin)),
			expected: "launches that are not too late because of their own jitter"})
	case gap > 0 && s.Jitter >= gap:
		d.reportNode(d.child(n, "jitter"), problem{message: fmt.Sprintf("jitter %s is not shorter than the recurrence of %s", short(s.Jitter), short(gap)),
			expected: "launches that stay in order"})
	}
}

// maxScheduleVars bounds what a schedule keeps beside its times.
const maxScheduleVars = 8 << 10

// launchVarsOf reads the vars that a schedule launches with.
func (d *decoder) launchVarsOf(n *yaml.Node) map[string]any {
	if !d.IsMapping(n, "vars") {
		return nil
	}
	vars, _ := d.plain(n, 1).(map[string]any)
	if text, err := json.Marshal(vars); err != nil || len(text) > maxScheduleVars {
		d.reportNode(n, problem{message: fmt.Sprintf("these vars have %d bytes", len(text)), expected: fmt.Sprintf("%d at most", maxScheduleVars)})
	}
	return vars
}

// checkScheduleVars rejects vars of a schedule that no launch of the playbook takes.
func (d *decoder) checkScheduleVars(root *yaml.Node, p *Playbook) {
	if p.Schedule == nil {
		return
	}
	for _, name := range sortedKeys(p.Schedule.Vars) {
		if d.read[name] && !d.params[name] {
			d.checkVar(d.scheduled(d.child(root, "schedule"), name), name, p.Schedule.Vars[name])
		}
		if !d.read[name] {
			d.reportNode(d.scheduled(d.child(root, "schedule"), name), problem{message: "the playbook has no var or param " + quote(name),
				expected: "a name in its params or vars, or a var that it reads", hint: yamlread.DidYouMean(name, sortedKeys(d.read))})
		}
	}
}

const wantLimit = "host patterns such as web*,!web3, or a list of them"

func limitForm() form {
	text := textForm(wantLimit).schema
	return form{wantLimit, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text, {Type: "array", Items: text, MinItems: new(1)}}}}
}

// limitOf reads host patterns as --limit has them, in one text or a list.
func (d *decoder) limitOf(n *yaml.Node) (out []string) {
	items, size := []*yaml.Node{n}, 0
	if target, ok := d.Follow(n); ok && target.Kind == yaml.SequenceNode {
		if items = target.Content; len(items) == 0 {
			d.noLimit(n)
		}
	}
	for _, item := range items {
		text := d.textOf(item, maxScheduleVars-size)
		size += len(text)
		if strings.Contains(text, "@") {
			d.reportNode(item, problem{message: "@FILE cannot stand here", expected: "names, groups and globs of hosts"})
		}
		if target, ok := d.Follow(item); ok && target.Kind == yaml.ScalarNode && !yamlread.IsNull(target) && strings.Trim(target.Value, ",: ") == "" {
			d.noLimit(item)
		}
		out = append(out, text)
	}
	return out
}

func (d *decoder) noLimit(n *yaml.Node) {
	d.reportNode(n, problem{message: "limit names no host", expected: "names, groups and globs of hosts", hint: "leave it out for all hosts"})
}

// checkRecurrence rejects a schedule that would come again while the last run may still retry. at
// names the night of a clock change if only there it comes again so soon.
func (d *decoder) checkRecurrence(n *yaml.Node, p *Playbook, gap time.Duration, at string) {
	sum, worst := p.worstRetries()
	if sum <= gap {
		return
	}
	d.reportNode(d.child(n, "cron"), problem{
		message:  fmt.Sprintf("the schedule comes again after %s%s, but the retries of the steps may take %s", short(gap), at, short(sum)),
		expected: "a recurrence that is not shorter than the worst case of all retries",
		hint: fmt.Sprintf("launch less often, or retry less: step %q alone may wait %s (line %d)", worst.Name,
			short(worst.Retry.Worst(worst.Retry.Attempts-1)), worst.Line)})
}

// WorstRetries returns how long the retries of all steps may take.
func (p *Playbook) WorstRetries() time.Duration {
	sum, _ := p.worstRetries()
	return sum
}

// worstRetries also returns the step whose retries take longest, nil if none is tried again.
func (p *Playbook) worstRetries() (sum time.Duration, worst *Step) {
	calls := p.Calls()
	for i := range calls {
		w := calls[i].Retry.Worst(calls[i].Retry.Attempts - 1)
		sum += min(w, 1<<62-sum)
		if w > 0 && (worst == nil || w > worst.Retry.Worst(worst.Retry.Attempts-1)) {
			worst = &calls[i]
		}
	}
	return sum, worst
}

// child is the value of a key, or the mapping itself.
func (d *decoder) child(n *yaml.Node, key string) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return n
}

// short writes a duration as people do: 1h30m, 2d, not 48h0m0s.
func short(d time.Duration) string {
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.size
		}
	}
	if b.Len() == 0 {
		return d.String()
	}
	return b.String()
}

func (d *decoder) cronOf(n *yaml.Node) string {
	const want = "five fields: minute hour day-of-month month day-of-week, as in \"30 2 * * 1-5\""
	target, ok := d.Scalar(n, want)
	if !ok {
		return ""
	}
	spec, err := cronSpec(target.Value)
	if err == nil {
		return spec
	}
	p := problem{message: fmt.Sprintf("cron %s: %v", quote(target.Value), err), expected: want}
	switch {
	case strings.Contains(target.Value, "TZ="):
		p.hint = `the zone has a key of its own: timezone: Europe/Zurich`
	case strings.HasPrefix(target.Value, "@"):
		p.hint = map[string]string{"@hourly": `write "0 * * * *"`, "@daily": `write "0 0 * * *"`, "@midnight": `write "0 0 * * *"`,
			"@weekly": `write "0 0 * * 0"`, "@monthly": `write "0 0 1 * *"`, "@yearly": `write "0 0 1 1 *"`}[target.Value]
	case len(strings.Fields(target.Value)) == 6:
		p.hint = "there is no field for seconds"
	}
	d.reportNode(n, p)
	return ""
}

// cronSpec is the expression with single blanks. The shape is checked here, in a playbook's words,
// the rest is civil's.
func cronSpec(text string) (string, error) {
	fields := strings.Fields(text)
	switch {
	case strings.Contains(text, "="):
		return "", errors.New("a time zone cannot stand here")
	case strings.HasPrefix(text, "@"):
		return "", errors.New("words are not supported")
	case len(fields) != 5:
		return "", fmt.Errorf("%d fields", len(fields))
	}
	c, err := civil.ParseCron(text)
	if err != nil { // the caller quotes the expression
		_, reason, found := strings.Cut(err.Error(), strconv.Quote(strings.Join(fields, " "))+": ")
		if !found {
			reason = err.Error()
		}
		return "", errors.New(reason)
	}
	if _, ok := c.NextWall(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return "", errors.New("there is no such day")
	}
	return c.String(), nil
}

// recurrence is the shortest time between two launches, over the clock changes of ten years; 0 when
// it launches once in them. on names the day, if that is next to a clock change only.
func recurrence(cron, zone string) (gap time.Duration, on string) {
	c, err := civil.ParseCron(cron)
	if err != nil {
		return 0, ""
	}
	z, err := civil.LoadZone(zone)
	if err != nil {
		return 0, ""
	}
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(10, 0, 0)
	gap, at := c.ShortestGap(z, from, to)
	if usual, _ := c.ShortestGap(time.UTC, from, to); gap < usual {
		on = " at the clock change after " + at.In(z).Format("2006-01-02 15:04")
	}
	return gap, on
}

func (d *decoder) zoneOf(n *yaml.Node) string {
	const want = "an IANA time zone such as Europe/Zurich or UTC"
	target, ok := d.Scalar(n, want)
	if !ok {
		return ""
	}
	name := target.Value
	if name == "" || name == "Local" || len(name) > 64 {
		d.Mismatch(n, target, want, "")
		return ""
	}
	if _, err := time.LoadLocation(name); err != nil {
		common := []string{"UTC", "Europe/Zurich", "Europe/Berlin", "Europe/London", "Europe/Paris", "Europe/Madrid", "Europe/Rome", "Europe/Vienna",
			"Europe/Amsterdam", "Europe/Stockholm", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Sao_Paulo",
			"Asia/Tokyo", "Asia/Singapore", "Asia/Kolkata", "Asia/Shanghai", "Australia/Sydney"}
		d.reportNode(n, problem{message: "unknown time zone " + quote(name), expected: want, hint: yamlread.DidYouMean(name, common)})
		return ""
	}
	return name
}
