package playbooks

import (
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/rollout"
)

// Bounds that the queue sets; it refuses a run that is over them.
const (
	maxWeight   = 1000
	maxPriority = 10
)

const maxCriticality = 1000 // the ledger's bound

// The tables below are the format: what they do not name does not exist. Their
// order is the order of reading, so vars come before what may read them.

func playbookFields() []field[Playbook] {
	return []field[Playbook]{
		{key: "playbook", doc: "Name of the playbook, unique in a tree.", form: nameForm(), required: true,
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Name = d.nameOf(n) }},
		{key: "description", doc: "Its purpose, in a sentence.", form: textForm("text"),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Description = d.textOf(n, 4096) }},
		{key: "vars", doc: "Values that expressions read as vars.NAME; -e NAME=VALUE wins over them.",
			form: form{"a mapping of names to values", &jsonschema.Schema{Type: "object"}},
			read: func(d *decoder, n *yaml.Node, p *Playbook) { d.readVars(n, p) }},
		{key: "params", doc: "Inputs of a launch, with their types: expressions read them as params.NAME; -e, the API and schedules give them.", form: paramsForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { d.readParams(n, p) }},
		{key: "targets", doc: "Expression over host that selects the hosts: host.labels.role == \"web\".",
			form: exprForm("an expression over host that is true or false"), required: true,
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Targets = d.targets(n) }},
		{key: "facts", doc: "How old the facts may be that targets, hosts() and steps read: {max_age: 1h}.", form: objectForm(factsFields()),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.FactsAge = d.factsOf(n) }},
		{key: "window", doc: "Window set for the disruptive steps: service (the host's own; a host without one is closed), own (the same; a host without one is open), none, or a name.", form: nameForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Window = d.nameOf(n) }},
		{key: "pool", doc: "Pool of workers for hosts that name none.", form: nameForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Pool = d.nameOf(n) }},
		{key: "tenant", doc: "Tenant that owns the runs.", form: nameForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Tenant = d.nameOf(n) }},
		{key: "weight", doc: "Share of worker time within the tenant; 1 when not given.", form: intForm(1, maxWeight),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Weight = d.intOf(n, 1, maxWeight) }},
		{key: "priority", doc: "Bounded head start over other runs; 0 when not given.", form: intForm(-maxPriority, maxPriority),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Priority = d.intOf(n, -maxPriority, maxPriority) }},
		{key: "criticality", doc: "Which runs a service brings back first after its queue was lost; 0 when not given.", form: intForm(0, maxCriticality),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Criticality = d.intOf(n, 0, maxCriticality) }},
		{key: "four_eyes", doc: "Each run waits until another person than its launcher approves it.", form: boolForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.FourEyes = d.boolOf(n) }},
		{key: "strategy", doc: "How carefully the hosts are gone through.", form: objectForm(strategyFields()),
			read: func(d *decoder, n *yaml.Node, p *Playbook) {
				readFields(d, n, "strategy", strategyFields(), strategyWords(), &p.Strategy)
			}},
		{key: "steps", doc: "The work on each host, in order.",
			form: stepsForm(), required: true,
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Steps = d.readSteps(n) }},
		{key: "handlers", doc: "Calls that run once after the steps that notify them, where one of those changed the host.",
			form: handlersForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Handlers = d.readHandlers(n) }},
		{key: "become", doc: "Runs the steps as root, or as a user: {user: app}. The inventory names the program, and credentials hold the password.", form: becomeForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Become = d.becomeOf(n) }},
		{key: "schedule", doc: "When a schedule launches the playbook.", form: objectForm(scheduleFields()),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { d.readSchedule(n, p) }},
		{key: "notify", doc: "Channels that a service notifies of the playbook's runs.", form: notifyForm(),
			read: func(d *decoder, n *yaml.Node, p *Playbook) { p.Notify = d.notifyOf(n) }},
	}
}

func stepsForm() form {
	either := func(key string, then, otherwise *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{If: &jsonschema.Schema{Required: []string{key}}, Then: then, Else: otherwise}
	}
	group := either("steps", objectSchema(groupFields()), &jsonschema.Schema{Ref: "#/$defs/step"})
	item := either("flush", objectSchema(flushFields()), either("include", objectSchema(includeFields()), group))
	return form{"a list of steps", &jsonschema.Schema{Type: "array", MinItems: new(1), MaxItems: new(MaxSteps), Items: item}}
}

func handlersForm() form {
	return form{"a list of handlers", &jsonschema.Schema{Type: "array", MinItems: new(1), MaxItems: new(MaxHandlers), Items: &jsonschema.Schema{Ref: "#/$defs/handler"}}}
}

func strategyFields() []field[rollout.Strategy] {
	return []field[rollout.Strategy]{
		{key: "waves", doc: "Hosts up to the end of each wave: [1, 5%, 100%]. A last wave of all hosts is implied.",
			form: form{"a list of sizes such as [1, 5%, 100%]", &jsonschema.Schema{Type: "array", MinItems: new(1), Items: sizeForm().schema}},
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.Waves = d.wavesOf(n) }},
		{key: "max_in_flight", doc: "Hosts worked on at the same time.", form: sizeForm(),
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.MaxInFlight = d.sizeOf(n) }},
		{key: "stop_after", doc: "Failed hosts after which the run stops, over all waves.", form: sizeForm(),
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.StopAfter = d.sizeOf(n) }},
		{key: "stop_unreachable", doc: "Unreachable hosts after which the run stops.", form: sizeForm(),
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.StopUnreachable = d.sizeOf(n) }},
		{key: "per_group", doc: "Hosts of one group at the same time: {ha_group: 1, \"label:rack\": 2}.",
			form: form{"a mapping of ha_group, site, customer or label:NAME to a number", &jsonschema.Schema{Type: "object",
				PropertyNames: &jsonschema.Schema{Pattern: patternGroup}, AdditionalProperties: intForm(1, maxGroup).schema}},
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.PerGroup = d.perGroupOf(n) }},
		{key: "pause_between", doc: "After each wave: approve (an operator approves) or a duration.",
			form: form{wantPause, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{enumForm("approve").schema, durationForm().schema}}},
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.PauseBetween = d.pauseOf(n) }},
		{key: "on_failed_wave", doc: "After a wave of which no host succeeded: stop the run, or continue with the next wave; stop when not given.", form: enumForm(rollout.StopRun, rollout.ContinueRun),
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) {
				s.OnFailedWave = d.enumOf(n, rollout.StopRun, rollout.ContinueRun)
			}},
		{key: "next_wave_at", doc: "The next wave begins when this share of the released hosts has finished (98%), or after this time (10m), and does not wait for the rest.",
			form: form{wantNextWave, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{percentForm().schema, durationForm().schema}}},
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.NextWaveAt = d.nextWaveOf(n) }},
		{key: "wait_for_windows", doc: "A wave is done only when its hosts that wait for their maintenance windows also are.", form: boolForm(),
			read: func(d *decoder, n *yaml.Node, s *rollout.Strategy) { s.WaitForWindows = d.boolOf(n) }},
	}
}

func scheduleFields() []field[Schedule] {
	return []field[Schedule]{
		{key: "cron", doc: "Five fields: minute, hour, day of month, month, day of week.", form: textForm("five fields such as \"30 2 * * 1-5\""), required: true,
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.Cron = d.cronOf(n) }},
		{key: "timezone", doc: "IANA name of the zone that cron is read in; UTC when not given.", form: textForm("an IANA time zone such as Europe/Zurich"),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.Timezone = d.zoneOf(n) }},
		{key: "catch_up", doc: "Launches that were missed: skip them, once for all of them, or all.", form: enumForm("skip", "once", "all"),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.CatchUp = d.enumOf(n, "skip", "once", "all") }},
		{key: "overlap", doc: "While the last run is not over: skip, queue one, or cancel what runs.", form: enumForm("skip", "queue", "cancel_running"),
			read: func(d *decoder, n *yaml.Node, s *Schedule) {
				s.Overlap = d.enumOf(n, "skip", "queue", "cancel_running")
			}},
		{key: "jitter", doc: "Launches are put off by up to this, the same for each fire time.", form: durationForm(),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.Jitter = d.durationOf(n) }},
		{key: "start_within", doc: "A launch later than this is dropped.", form: durationForm(),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.StartWithin = d.durationOf(n) }},
		{key: "limit", doc: "Only these of the playbook's hosts: names, groups, globs, !not, &and, as in --limit, or a list of them.", form: limitForm(),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.Limit = d.limitOf(n) }},
		{key: "vars", doc: "Values over the playbook's vars, as with -e.", form: form{"a mapping of names to values", &jsonschema.Schema{Type: "object"}},
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.Vars = d.launchVarsOf(n) }},
		{key: "params", doc: "Values of the playbook's params.", form: form{"a mapping of names to values", &jsonschema.Schema{Type: "object"}},
			read: func(d *decoder, n *yaml.Node, s *Schedule) { d.scheduleParams(n, s) }},
		{key: "tags", doc: "Only steps with one of these tags.", form: tagsForm(),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.Tags = d.tagsOf(n) }},
		{key: "skip_tags", doc: "No steps with one of these tags.", form: tagsForm(),
			read: func(d *decoder, n *yaml.Node, s *Schedule) { s.SkipTags = d.tagsOf(n) }},
	}
}

func retryFields() []field[Retry] {
	return []field[Retry]{
		{key: "attempts", doc: "Attempts in all, the first included.", form: intForm(1, maxAttempts), required: true,
			read: func(d *decoder, n *yaml.Node, r *Retry) { r.Attempts = d.intOf(n, 1, maxAttempts) }},
		{key: "interval", doc: fmt.Sprintf("Pause after the first attempt, doubled each time; %s when not given.", defaultInterval), form: durationForm(),
			read: func(d *decoder, n *yaml.Node, r *Retry) { r.Interval = d.durationOf(n) }},
		{key: "max_interval", doc: "Longest pause.", form: durationForm(),
			read: func(d *decoder, n *yaml.Node, r *Retry) { r.Max = d.durationOf(n) }},
		{key: "jitter", doc: "Share of the pause that is added at most, at random.", form: percentForm(),
			read: func(d *decoder, n *yaml.Node, r *Retry) { r.Jitter = d.shareOf(n) }},
	}
}

// Words of other tools, with what to write here.

func playbookWords() map[string]string {
	ofWindows := "this is a file of windows: turnus windows lint checks it, and turnus project diff a whole project"
	return map[string]string{
		"window_sets": ofWindows, "freezes": ofWindows, "holidays": ofWindows,
		"name": `the playbook's name is the key "playbook"`, "hosts": `hosts are selected by "targets", an expression`,
		"tasks": `tasks are called "steps"`, "jobs": `what is done on a host are its "steps"`, "serial": `it is called "strategy: {waves: …}"`,
		"cron": `it stands under "schedule"`, "on": `a recurring launch is called "schedule"`, "env": `values are given in "vars"`,
		"become_user": `write become: {user: NAME}`, "become_method": `the inventory says it: become: {method: doas}`, "remote_user": `the inventory says it: user`,
	}
}

func strategyWords() map[string]string {
	return map[string]string{
		"serial": `it is called "waves"`, "batch": `it is called "waves"`, "forks": `it is called "max_in_flight"`,
		"max_parallel": `it is called "max_in_flight"`, "max_fail_percentage": `it is called "stop_after"`, "max_failures": `it is called "stop_after"`,
	}
}

const includeWord = `write include: steps/NAME.yaml in place of "uses" (docs/include.md)`

func stepWords() map[string]string {
	return map[string]string{
		"if": `it is called "when"`, "loop": `it is called "foreach"`, "with_items": `it is called "foreach"`,
		"run": `write uses: command and with: {run: …}`, "register": `outputs are always kept: steps.NAME.outputs`,
		"ignore_errors": `it is called "continue_on_failure"`, "continue_on_error": `it is called "continue_on_failure"`,
		"retries": `write retry: {attempts: …}`, "delay": `write retry: {interval: …}`, "args": `params stand under "with"`,
		"params": `params stand under "with"`, "id": `it is called "name"`, "run_once": `it is called "once"`, "vars": `vars belong to the playbook`,
		"become_user": `write become: {user: NAME}`, "become_method": `the inventory says it: become: {method: doas}`, "delegate_to": `it is called "on", and is an expression`,
		"changed_when": `write changed: false in "with" of command or script`, "failed_when": `write ok_codes: [0, 1] in "with" of command or script`,
		"until": `write retry: {attempts: …}: the step is repeated until it succeeds`, "environment": `write env: {NAME: VALUE} in "with" of command or script`,
		"block": `a group has "steps", "rescue" and "always" in place of "uses" (docs/groups.md)`, "loop_control": `foreach calls its items "item"`,
		"include_tasks": includeWord, "import_tasks": includeWord, "include_role": includeWord, "import_role": includeWord, "roles": includeWord,
		"module": `it is called "uses"`, "listen": `steps name handlers in "notify"`, "meta": `pending handlers run at {flush: handlers}`, "type": `it is called "uses"`, "timeout_minutes": `it is called "timeout", as in 30m`,
	}
}

func scheduleWords() map[string]string {
	return map[string]string{"tz": `it is called "timezone"`, "splay": `it is called "jitter"`, "concurrency": `it is called "overlap"`}
}

func retryWords() map[string]string {
	return map[string]string{"max": `it is called "max_interval"`, "delay": `it is called "interval"`, "count": `it is called "attempts"`,
		"max_attempts": `it is called "attempts"`, "backoff": `the interval doubles automatically`}
}

// objectForm is the form of a mapping that a table describes.
func objectForm[T any](fields []field[T]) form {
	return form{"a mapping", objectSchema(fields)}
}

func objectSchema[T any](fields []field[T]) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, f := range fields {
		p := *f.form.schema
		p.Description = f.doc
		s.Properties[f.key] = &p
		s.PropertyOrder = append(s.PropertyOrder, f.key)
		if f.required {
			s.Required = append(s.Required, f.key)
		}
	}
	return s
}
