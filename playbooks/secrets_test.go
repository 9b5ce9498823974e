package playbooks_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

func TestSecretsOfAStep(t *testing.T) {
	t.Parallel()
	playbook, err := playbooks.Parse("t.yaml", []byte(`
playbook: demo
targets: true
steps:
  - {name: a, uses: command, secrets: [DB, API], with: {run: 'app "$DB"'}}
  - {name: b, uses: http, secrets: {token: api.key-1, DB: DB}, foreach: [x], with: {url: "https://${{ item }}/?t=${{ secrets.token }}", body: "${{ secrets.DB }}", method: "${{ item }}"}}
  - {name: c, uses: http, with: {url: "https://x/$${{ secrets.token }}"}}
`), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(playbook.Secrets(), " "); got != "API DB api.key-1" {
		t.Errorf("secrets of the playbook: %s", got)
	}
	b := playbook.Steps[1]
	if !maps.Equal(b.Secrets, map[string]string{"token": "api.key-1", "DB": "DB"}) || !b.With.UsesSecrets() || playbook.Steps[0].With.UsesSecrets() || playbook.Steps[2].With.UsesSecrets() {
		t.Errorf("%+v", playbook.Steps)
	}
	env := playbooks.Env{Item: "x", Secrets: map[string]string{"token": `"quoted"`, "DB": "two\nlines"}}
	got, err := b.With.JSON(env)
	if want := `{"body":"two\nlines","method":"x","url":"https://x/?t=\"quoted\""}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; expected %s", got, err, want)
	}
	http, _ := options(t).Types("http")
	if err := b.With.CheckSecrets(http.Params); err != nil {
		t.Error(err)
	}
	older := strings.ReplaceAll(string(http.Params), "x-turnus-secret", "x-other")
	if err := b.With.CheckSecrets([]byte(older)); err == nil || !strings.Contains(err.Error(), "t.yaml:6:") || !strings.Contains(err.Error(), "takes no secrets") {
		t.Errorf("a type that takes none: %v", err)
	}
	missing := playbook.MissingSecret("api.key-1", []string{"api.key-2", "DB"})
	if missing == nil || !strings.Contains(missing.Error(), "t.yaml:6:") || !strings.Contains(missing.Error(), `"api.key-2"`) {
		t.Errorf("%v", missing)
	}
}
