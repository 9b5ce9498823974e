package remote

import (
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
)

// maxLimit bounds the hosts that @FILE of --limit names.
const maxLimit = 4 << 20

// LimitParts returns the parts of --limit. It reads @FILE here: the server has other files.
func LimitParts(limit string) ([]string, error) {
	if limit == "" {
		return nil, nil
	}
	var parts []string
	for part := range strings.SplitSeq(limit, ",") {
		file, isFile := strings.CutPrefix(strings.TrimSpace(part), "@")
		if !isFile {
			parts = append(parts, part)
			continue
		}
		text, err := settings.ReadFile(file, maxLimit+1)
		if err != nil {
			return nil, console.Invalid("--limit: %w", err)
		}
		if len(text) > maxLimit {
			return nil, console.Invalid("--limit: %s has more than 4 MiB", file)
		}
		before := len(parts)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				parts = append(parts, line)
			}
		}
		if len(parts) == before {
			return nil, console.Invalid("--limit: %s names no host: all is every host", file)
		}
	}
	return parts, nil
}
