package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The decoder takes a name in other letters as the same field, and null leaves the value before it.
// Both would put a value that nobody validated in the place of a valid one.
func TestFieldsAreThereOnceAndAsWritten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	admin := b.token(everyTenant, Admin)
	token := `{"name":"ann","tenant":"*","role":"viewer"%s}`
	run := `{"key":"k","playbook":"acme-patch"%s}`
	want[any](t, b.ask(admin, "POST", "/v1/tokens", fmt.Sprintf(token, "")), http.StatusCreated)
	if a := b.ask(admin, "POST", "/v1/runs/bulk", `{"runs":[`+fmt.Sprintf(run, "")+`]}`); strings.Contains(a.body, "error") {
		t.Errorf("control: %s", a.body)
	}
	for _, bad := range []string{"\xff\xfe", "caf\xe9"} { // the decoder would replace them
		for path, body := range map[string]string{"/v1/tokens": token, "/v1/runs": run, "/v1/runs/bulk": `{"runs":[` + run + `]}`} {
			a := b.ask(admin, "POST", path, fmt.Sprintf(body, `,"reason":"`+bad+`"`))
			if a.status/100 != 4 || !strings.Contains(a.body, "the body is not UTF-8") {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	for more, says := range map[string]string{
		`,"NAME":"acme/bob"`:                                      "unexpected property",
		`,"Permi\u017fsions":["exec"]`:                            "unexpected property",
		`,"permissions":["x","x","x"],"permissions":null`:         "is there twice",
		`,"expires_in_seconds":-1,"expires_in_\u0073econds":null`: "is there twice",
		`,"permissions":[{"a":1,"a":2}]`:                          "is there twice",
	} {
		a := b.ask(admin, "POST", "/v1/tokens", fmt.Sprintf(token, more))
		if a.status/100 != 4 || !strings.Contains(a.body, says) {
			t.Errorf("%s: %d %s", more, a.status, a.body)
		}
	}
	for more, says := range map[string]string{
		`,"MAX_IN_FLIGHT":-1`:                      "unexpected property",
		`,"max_in_flight":-1,"max_in_flight":null`: "is there twice",
	} {
		if a := b.ask(admin, "POST", "/v1/runs/bulk", `{"runs":[`+fmt.Sprintf(run, more)+`]}`); !strings.Contains(a.body, says) {
			t.Errorf("%s: %d %s", more, a.status, a.body)
		}
	}
}
