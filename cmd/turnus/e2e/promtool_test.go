//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

const monitoring = "../../../docs/monitoring"

var metricNames = regexp.MustCompile(`\bturnus_[a-z_]+\b`)

// samples are the result of a scrape: values by series, as Prometheus would keep them.
type samples map[string]float64

// scraped asks for metrics, and names who answered as Prometheus does.
func scraped(t *testing.T, web *http.Client, url, token, instance string) samples {
	t.Helper()
	s := samples{}
	until(t, "metrics of "+instance, func() bool {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := web.Do(req)
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return false
		}
		now := float64(time.Now().Unix())
		for line := range strings.Lines(string(text)) {
			at := strings.LastIndexByte(line, ' ')
			if strings.HasPrefix(line, "#") || at < 0 {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			name, labels, _ := strings.Cut(strings.TrimSuffix(line[:at], "}"), "{")
			if strings.HasSuffix(name, "_timestamp_seconds") {
				v -= now // tests of rules begin at time 0
			}
			s[name+`{instance="`+instance+`"`+strings.TrimSuffix(","+labels, ",")+"}"] = v
		}
		return true
	})
	return s
}

func joined(all ...samples) samples {
	out := samples{}
	for _, s := range all {
		maps.Copy(out, s)
	}
	return out
}

// names are those of the metrics, parts of histograms included.
func (s samples) names() map[string]bool {
	out := map[string]bool{}
	for series := range s {
		name, _, _ := strings.Cut(series, "{")
		out[name] = true
	}
	return out
}

// has reports whether a series that begins so has at least a value.
func (s samples) has(name, label string, least float64) bool {
	for series, v := range s {
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, label) && v >= least {
			return true
		}
	}
	return false
}

// value is the largest of the series that begin so; 0 of none.
func (s samples) value(name, label string) (most float64) {
	for series, v := range s {
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, label) {
			most = max(most, v)
		}
	}
	return most
}

// judge has promtool evaluate the rules: an hour of what was before, then an hour of what came.
// Each wanted alert triggers after its time, and neither before nor in the first hour.
func judge(t *testing.T, rules string, before, after samples, want map[string]time.Duration) {
	t.Helper()
	promtool := testparts.Need(t, "promtool", "prometheus")
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 30s\ntests:\n  - interval: 30s\n    input_series:\n", rules)
	all := joined(before, after)
	asked := map[string]bool{} // thousands of others take promtool seconds
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range metricNames.FindAllString(string(text), -1) {
		asked[name] = true
	}
	for _, series := range slices.Sorted(maps.Keys(all)) {
		if name, _, _ := strings.Cut(series, "{"); !asked[name] {
			continue
		}
		first, then := "_x120", "stale _x119"
		was, known := before[series]
		if known {
			first = number(was) + "+0x119"
		}
		if is, goes := after[series]; goes {
			then = number(is) + "+0x119"
			if grown := is - was; known && grown > 0 && counts(series) { // what continued between the two continues
				then = number(is) + "+" + number(grown) + "x119"
			}
		}
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s %s'}\n", strings.ReplaceAll(series, "'", "''"), first, then)
	}
	b.WriteString("    promql_expr_test:\n")
	for _, alert := range slices.Sorted(maps.Keys(want)) {
		ask := func(at time.Duration, fires bool) {
			samples := "[]"
			if fires {
				samples = "[{labels: '{}', value: 1}]"
			}
			fmt.Fprintf(&b, "      - {expr: 'count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) > bool 0', eval_time: %ds, exp_samples: %s}\n", alert, int(at.Seconds()), samples)
		}
		ask(59*time.Minute, false)
		if lasts := want[alert]; lasts > 0 {
			ask(time.Hour+lasts-30*time.Second, false)
		}
		ask(time.Hour+want[alert]+2*time.Minute, true)
	}
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// counts reports whether a series only grows.
func counts(series string) bool {
	name, _, _ := strings.Cut(series, "{")
	for _, end := range []string{"_total", "_bucket", "_count", "_sum"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// alertRules are the rules by name, with how long each has to last.
func alertRules(t *testing.T) (text string, lasts map[string]time.Duration) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(monitoring, "turnus.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	lasts = map[string]time.Duration{}
	for _, rule := range strings.Split(string(data), "- alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		lasts[name] = 0
		if m := regexp.MustCompile(`(?m)^\s+for: (\S+)$`).FindStringSubmatch(rule); m != nil {
			if lasts[name], err = time.ParseDuration(m[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(lasts) < 20 {
		t.Fatalf("only %d rules are found", len(lasts))
	}
	return string(data), lasts
}
