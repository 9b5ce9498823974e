package pages

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// functions returns the functions that templates call. Escaping is html/template's.
func functions() template.FuncMap {
	return template.FuncMap{
		"time":      moment,
		"iso":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":       ago,
		"lasting":   func(s core.Seconds) string { return lasting(s.Duration()) },
		"shell":     shell.Quote,
		"endpart":   func() template.HTML { return partEnd },
		"worked":    pictures.Worked,
		"shareNote": func() string { return pictures.ShareHistoryNote },
		"plural":    core.Plural,
		"size":      sizeOf,
		"stream": func(output string) string {
			_, stream, _ := strings.Cut(output, "/")
			return stream
		},
		"stepNumber": func(output string) int {
			number, _, _ := strings.Cut(output, "/")
			i, _ := strconv.Atoi(number) // the API names outputs STEP/STREAM
			return i + 1
		},
		"brief":    func(version string) string { return version[:min(12, len(version))] },
		"number":   func(i int) int { return i + 1 },
		"letter":   pictures.Letter,
		"counts":   outcomeCounts,
		"counting": counting,
		"wide":     wide,
		"query": func(pairs ...string) string {
			q := url.Values{}
			for i := 0; i+1 < len(pairs); i += 2 {
				if pairs[i+1] != "" {
					q.Set(pairs[i], pairs[i+1])
				}
			}
			return "?" + q.Encode()
		},
		"segment":    url.PathEscape, // of a path
		"names":      func(list []string) []string { return list[:min(namesShown, len(list))] },
		"namesShown": func() int { return namesShown },
		"unnamed":    func(wave api.PlanWave) int { return wave.Total - min(namesShown, len(wave.Hosts)) },
		"lines":      func(list []string) string { return strings.Join(list, "\n") },
		"decide":     func(who who, a approval) map[string]any { return map[string]any{"Who": who, "Approval": a} },
		"words":      func(code string) string { return strings.ReplaceAll(code, "_", " ") },
		"text":       func(o core.Outcome) string { return string(o) },
		"first":      func(n int, list []string) []string { return list[:min(n, len(list))] },
		"less":       func(n int, list []string) int { return max(len(list)-n, 0) },
		"percent":    func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"states": func() [][2]string {
			return [][2]string{{api.NotificationDeadLettered, "dead-lettered"}, {api.NotificationWaiting, "waiting"}, {api.NotificationSent, "sent"}}
		},
	}
}

// outcomeCounts lists outcomes in the order of every page, the worst first.
func outcomeCounts(outcomes map[core.Outcome]int) (counts []pictures.Count) {
	for _, outcome := range allOutcomes {
		if n := outcomes[outcome]; n > 0 {
			counts = append(counts, pictures.Count{Outcome: outcome, Hosts: n})
		}
	}
	return counts
}

// moment is a time in UTC. JavaScript adds the time in the viewer's own zone (times.js).
func moment(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(t.Format(`<time datetime="` + time.RFC3339 + `">2006-01-02 15:04:05 UTC</time>`)) //nolint:gosec // digits
}

// ago formats the time between two moments for people.
func ago(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	return lasting(to.Sub(from))
}

// lasting formats a duration for people.
func lasting(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// sizeOf formats a number of bytes for people.
func sizeOf(bytes int64) string {
	switch {
	case bytes < 1000:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
