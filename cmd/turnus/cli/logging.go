package cli

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core/worker"
)

// logFlags say what a long-running process logs, and how.
type logFlags struct {
	format, level string
	verbose       bool
}

var logLevels = []string{"debug", "info", "warn", "error"}

func (f *logFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.format, "log-format", "text", "text, or json: each line of stderr is then one JSON object")
	fl.StringVar(&f.level, "log-level", "", "least level that is logged: debug, info, warn or error (default: info with --log-format json, else warn)")
	_ = c.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses what is no format or level.
func (f *logFlags) check() error {
	if f.format != "text" && f.format != "json" {
		return invalid("--log-format %s: expected text or json", f.format)
	}
	if _, err := f.least(); err != nil {
		return err
	}
	return nil
}

// least is the least level that is logged.
func (f *logFlags) least() (slog.Level, error) {
	var level slog.Level
	switch {
	case f.level != "":
		if !slices.Contains(logLevels, f.level) {
			return 0, invalid("--log-level %s: expected %s", f.level, strings.Join(logLevels, ", "))
		}
		_ = level.UnmarshalText([]byte(f.level)) // it is one of them
	case f.verbose:
		level = slog.LevelDebug
	case f.format == "json":
		level = slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	return level, nil
}

// serviceLog makes the log of a long-running process. With --log-format json all that goes to stderr becomes lines of
// it, messages and the last error, too: whoever collects it reads nothing else.
func (a *app) serviceLog(f *logFlags) (*slog.Logger, error) {
	level, err := f.least()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	if f.format != "json" {
		return newOutageLog(slog.NewTextHandler(lineWriter{a}, options)), nil
	}
	a.color, a.live = false, false
	a.structured = newOutageLog(slog.NewJSONHandler(a.err, options))
	return a.structured, nil
}

// leading is how a message begins that is more than one.
var leading = regexp.MustCompile(`^(warning|error): `)

// structuredMessage logs what is said to a person.
func structuredMessage(log *slog.Logger, text string) {
	switch word := leading.FindString(text); word {
	case "warning: ":
		log.Warn(text[len(word):])
	case "error: ":
		log.Error(text[len(word):])
	default:
		log.Info(text)
	}
}

// jobLog logs what happens to jobs. What a job's output, diff and messages say is not logged: the record has it.
func jobLog(log *slog.Logger, next func(worker.Event)) func(worker.Event) {
	return func(e worker.Event) {
		logJob(log, e)
		if next != nil {
			next(e)
		}
	}
}

func logJob(log *slog.Logger, e worker.Event) {
	log = log.With("run", e.Job.Run, "job", e.Job.String(), "host", e.Host)
	if e.Trace != "" {
		log = log.With("trace_id", e.Trace)
	}
	switch e.Kind {
	case worker.JobStarted:
		log.Debug("job started")
	case worker.StepStarted:
		log.Debug("step started", "step", e.Step, "job_type", e.Uses, "attempt", e.Attempt)
	case worker.StepRetry:
		log.Info("step is tried again", "step", e.Step, "job_type", e.Uses, "attempt", e.Attempt, "reason", e.Text, "after", e.After.String())
	case worker.StepDone:
		if r := e.StepResult; r != nil {
			log.Debug("step done", "step", r.Name, "job_type", r.Uses, "outcome", string(r.Outcome), "reason", r.Reason, "took", r.Took.String())
		}
	case worker.JobParked:
		log.Debug("job parked", "reason", e.Text, "after", e.After.String())
	case worker.JobDone:
		if r := e.Result; r != nil {
			log.Info("job done", "tenant", r.Customer, "step", r.Step, "outcome", string(r.Outcome), "reason", r.Reason, "attempt", r.Attempt, "took", r.Took.String())
		}
	}
}
