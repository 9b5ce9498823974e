package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestParseBucketURL(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]bucketLocation{
		"s3://b":                           {bucket: "b"},
		"s3://b/some/where/?region=eu-1":   {bucket: "b", prefix: "some/where", region: "eu-1"},
		"s3://b?endpoint=https://s3.local": {bucket: "b", endpoint: "https://s3.local", region: "us-east-1", pathStyle: true},
		"s3://b?endpoint=http://127.0.0.1:9000&path_style=false&region=x&profile=p": {bucket: "b", endpoint: "http://127.0.0.1:9000", region: "x", profile: "p"},
		"s3://b?endpoint=http://s3.lan&insecure=true":                               {bucket: "b", endpoint: "http://s3.lan", region: "us-east-1", pathStyle: true},
	} {
		if got, err := parseBucketURL(where); err != nil || got != want {
			t.Errorf("%s: %+v, %v; expected %+v", where, got, err, want)
		}
	}
	for where, want := range map[string]string{
		"s3://":                                "expected s3://BUCKET",
		"s3://AKIA:s3cret@b":                   "credentials",
		"s3://b?endpoint=https://u:s3cret@h":   "without credentials",
		"s3://b?endpoint=http://s3.lan":        "in the clear",
		"s3://b?endpoint=ftp://h":              "endpoint: expected",
		"s3://b?secret=s3cret":                 "unknown setting",
		"s3://b?region=a&region=b":             "twice",
		"s3://b?path_style=perhaps":            "true or false",
		"s3://b?endpoint=https://h?key=s3cret": "endpoint: expected",
		"s3://b#s3cret":                        "expected s3://BUCKET",
	} {
		_, err := parseBucketURL(where)
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, expected %s", where, err, want)
		}
	}
	for where, want := range map[string]string{"/srv/out?x": "/srv/out?x", "s3://b/p?endpoint=https://h": "s3://b/p", "s3://k:s@b": "s3://b"} {
		if got := ShownBucket(where); got != want {
			t.Errorf("%s is shown as %s, expected %s", where, got, want)
		}
	}
	if _, err := OpenBucket(t.Context(), "gs://b"); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("another scheme: %v", err)
	}
}
