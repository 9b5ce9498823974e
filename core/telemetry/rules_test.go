package telemetry

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const (
	monitoring = "../../docs/monitoring/"
	alertGuide = "../../docs/operating-alerts.md"
)

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(monitoring + "turnus.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) != 1 {
		t.Fatal(err, len(file.Groups))
	}
	return file.Groups[0].Rules
}

// Each rule asks for metrics that there are, has a severity, and links to a heading about what to
// do; each heading is a rule's.
func TestRulesAreExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(alertGuide)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range table {
		known[m.Name] = true
		if m.Kind == Histogram {
			known[m.Name+"_bucket"] = true
		}
	}
	headings := regexp.MustCompile(`(?m)^### (Turnus\w+)$`).FindAllStringSubmatch(string(text), -1)
	var named, explained []string
	for _, h := range headings {
		explained = append(explained, h[1])
	}
	for _, r := range rules(t) {
		named = append(named, r.Alert)
		if want := "https://github.com/turnus/turnus/blob/main/docs/operating-alerts.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: link %q, expected %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" || r.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", r.Alert, s, r.Annotations["summary"])
		}
		for _, name := range regexp.MustCompile(`turnus_[a-z_]+`).FindAllString(r.Expr, -1) {
			if !known[name] {
				t.Errorf("%s asks for %s, which is not in the table", r.Alert, name)
			}
		}
	}
	slices.Sort(named)
	slices.Sort(explained)
	if !slices.Equal(named, explained) {
		t.Errorf("the rules are\n%v, the headings of %s\n%v", named, alertGuide, explained)
	}
}
