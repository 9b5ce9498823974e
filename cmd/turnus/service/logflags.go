package service

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// LogFlags define what a long-running process logs, and how.
type LogFlags struct {
	format, level string
	Verbose       bool
}

var logLevels = []string{"debug", "info", "warn", "error"}

// Add gives the command the flags.
func (f *LogFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.format, "log-format", "text", "text, or json: each line of stderr is then one JSON object")
	fl.StringVar(&f.level, "log-level", "", "least level that is logged: debug, info, warn or error (default: info with --log-format json, else warn)")
	_ = c.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp))
}

// Check refuses what is no format or level.
func (f *LogFlags) Check() error {
	if f.format != "text" && f.format != "json" {
		return console.Invalid("--log-format %s: expected text or json", f.format)
	}
	if _, err := f.least(); err != nil {
		return err
	}
	return nil
}

// least is the least level that is logged.
func (f *LogFlags) least() (slog.Level, error) {
	var level slog.Level
	switch {
	case f.level != "":
		if !slices.Contains(logLevels, f.level) {
			return 0, console.Invalid("--log-level %s: expected %s", f.level, strings.Join(logLevels, ", "))
		}
		_ = level.UnmarshalText([]byte(f.level)) // it is one of them
	case f.Verbose:
		level = slog.LevelDebug
	case f.format == "json":
		level = slog.LevelInfo
	default:
		level = slog.LevelWarn
	}
	return level, nil
}

// Open makes the log that the flags ask for.
func (f *LogFlags) Open(con *console.Console) (*slog.Logger, error) {
	level, err := f.least()
	if err != nil {
		return nil, err
	}
	return con.Log(level, f.format == "json"), nil
}
