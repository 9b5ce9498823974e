package console

import (
	"log/slog"
	"regexp"
	"sync"

	"github.com/turnus/turnus/core"
)

// Log makes the log of a long-running process. As JSON it has all output to stderr as lines, also
// messages and the last error, because a log collector reads nothing else.
func (c *Console) Log(level slog.Level, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: plainErrors}
	if !asJSON {
		return newOutageLog(slog.NewTextHandler(lineWriter{c}, options))
	}
	c.color, c.Live = false, false
	c.structured = newOutageLog(slog.NewJSONHandler(c.Err, options))
	return c.structured
}

// plainErrors writes errors as people read them.
func plainErrors(_ []string, at slog.Attr) slog.Attr {
	if err, ok := at.Value.Any().(error); ok {
		return slog.String(at.Key, core.ErrorText(err))
	}
	return at
}

// leading is how a message begins that is more than one.
var leading = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(warning|error): `) })

// structuredMessage logs a message for people.
func structuredMessage(log *slog.Logger, text string) {
	switch word := leading().FindString(text); word {
	case "warning: ":
		log.Warn(text[len(word):])
	case "error: ":
		log.Error(text[len(word):])
	default:
		log.Info(text)
	}
}
