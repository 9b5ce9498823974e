package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/turnus/turnus/core"
)

// Bounds of what is written to a bucket: so much memory is used for one object, whatever its size.
const (
	partSize    = 8 << 20 // S3 takes 10,000 parts
	partsAtOnce = 2
	openWithin  = 15 * time.Second // the first answer of a bucket
)

// BucketWriterOptions are the options of writing objects: in parts, in bounded memory.
func BucketWriterOptions(contentType string) *blob.WriterOptions {
	return &blob.WriterOptions{ContentType: contentType, BufferSize: partSize, MaxConcurrency: partsAtOnce}
}

// OpenBucket opens a place for objects, and asks a bucket whether it is there. where is a folder,
// which is made, or
//
//	s3://BUCKET[/PREFIX][?endpoint=URL][&region=R][&profile=P][&path_style=true|false][&insecure=true]
//
// Credentials come from where AWS's own programs find them: the environment, ~/.aws, the machine's
// role; never from the URL. With an endpoint, buckets are in the path, the region is us-east-1, and
// checksums are sent only where they must be, unless set otherwise: what many stores other than
// AWS's expect. Errors wrap core.ErrInvalid, or core.ErrUnavailable.
func OpenBucket(ctx context.Context, where string) (*blob.Bucket, error) {
	scheme, _, isURL := strings.Cut(where, "://")
	switch {
	case !isURL:
		return openBucketFolder(where)
	case scheme != "s3":
		return nil, fmt.Errorf("%s://: expected a folder or s3://BUCKET: %w", scheme, core.ErrInvalid)
	}
	at, err := parseBucketURL(where)
	if err != nil {
		return nil, err
	}
	return at.open(ctx)
}

func openBucketFolder(dir string) (*blob.Bucket, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of objects: %w", err)
	}
	b, err := fileblob.OpenBucket(filepath.Clean(dir), &fileblob.Options{NoTempDir: true, DirFileMode: 0o700})
	if err != nil {
		return nil, fmt.Errorf("folder of objects: %w", err)
	}
	return b, nil
}

// bucketLocation is the location in a bucket's URL.
type bucketLocation struct {
	bucket, prefix            string
	endpoint, region, profile string
	pathStyle                 bool
}

// ShownBucket returns the place as logs and messages show it: without anything that could be a
// secret.
func ShownBucket(where string) string {
	scheme, rest, ok := strings.Cut(where, "://")
	if !ok {
		return where
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}

// parseBucketURL reads a URL. Its errors repeat only ShownBucket.
func parseBucketURL(where string) (bucketLocation, error) {
	bad := func(format string, args ...any) (bucketLocation, error) {
		return bucketLocation{}, fmt.Errorf("%s: %s: %w", ShownBucket(where), fmt.Sprintf(format, args...), core.ErrInvalid)
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return bad("expected s3://BUCKET[/PREFIX][?endpoint=URL]")
	}
	if u.User != nil {
		return bad("credentials do not belong into the URL: give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile")
	}
	at := bucketLocation{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), region: u.Query().Get("region"), profile: u.Query().Get("profile"), endpoint: u.Query().Get("endpoint")}
	at.pathStyle = at.endpoint != ""
	insecure := false
	for name, values := range u.Query() {
		if !slices.Contains([]string{"endpoint", "region", "profile", "path_style", "insecure"}, name) {
			return bad("unknown setting %q: expected endpoint, region, profile, path_style or insecure", name)
		}
		if len(values) > 1 {
			return bad("%s is given twice", name)
		}
		into := map[string]*bool{"path_style": &at.pathStyle, "insecure": &insecure}[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseBool(values[0]); err != nil {
			return bad("%s=%s: expected true or false", name, values[0])
		}
	}
	if at.endpoint == "" {
		return at, nil
	}
	e, err := url.Parse(at.endpoint)
	if err != nil || e.Host == "" || e.User != nil || e.RawQuery != "" || e.Scheme != "https" && e.Scheme != "http" {
		return bad("endpoint: expected https://HOST[:PORT], without credentials")
	}
	if e.Scheme == "http" && !insecure && !core.ThisMachine(e.Hostname()) {
		return bad("endpoint http://%s: objects would cross the network in the clear: use https, or say insecure=true", e.Host)
	}
	if at.region == "" {
		at.region = "us-east-1"
	}
	return at, nil
}

func (at *bucketLocation) open(ctx context.Context) (*blob.Bucket, error) {
	var options []func(*config.LoadOptions) error
	if at.region != "" {
		options = append(options, config.WithRegion(at.region))
	}
	if at.profile != "" {
		options = append(options, config.WithSharedConfigProfile(at.profile))
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	name := "s3://" + at.bucket
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("%s: AWS settings: %w: %w", name, core.ErrInvalid, err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("%s: no region: give region=…, or AWS_REGION: %w", name, core.ErrInvalid)
	}
	checksums := aws.RequestChecksumCalculationWhenSupported
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = at.pathStyle
		if at.endpoint != "" {
			o.BaseEndpoint = &at.endpoint
			checksums = aws.RequestChecksumCalculationWhenRequired
			o.RequestChecksumCalculation = checksums
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	b, err := s3blob.OpenBucket(ctx, client, at.bucket, &s3blob.Options{RequestChecksumCalculation: checksums})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	there, err := b.IsAccessible(ctx)
	if err == nil && !there {
		err = fmt.Errorf("there is no such bucket: make it, or check endpoint and region: %w", core.ErrInvalid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, BucketError(err)), b.Close())
	}
	if at.prefix != "" {
		b = blob.PrefixedBucket(b, at.prefix+"/")
	}
	return b, nil
}

// BucketError translates the error of a bucket. Others, and nil, stay as they are.
func BucketError(err error) error {
	if refused, ok := errors.AsType[*awshttp.ResponseError](err); ok && (refused.HTTPStatusCode() == http.StatusForbidden || refused.HTTPStatusCode() == http.StatusUnauthorized) {
		return fmt.Errorf("the bucket refuses these credentials: %w: %w", core.ErrUnavailable, err)
	}
	var kind error
	switch gcerrors.Code(err) {
	case gcerrors.OK, gcerrors.Canceled, gcerrors.DeadlineExceeded:
		return err
	case gcerrors.NotFound:
		kind = core.ErrNotFound
	case gcerrors.InvalidArgument:
		kind = core.ErrInvalid
	default:
		kind = core.ErrUnavailable
	}
	for _, known := range []error{core.ErrNotFound, core.ErrInvalid, core.ErrUnavailable, core.ErrConflict} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", kind, err)
}
