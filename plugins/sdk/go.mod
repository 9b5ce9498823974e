module github.com/turnus/turnus/plugins/sdk

go 1.26.0

require (
	github.com/aymanbagabas/go-udiff v0.4.1
	github.com/google/jsonschema-go v0.4.3
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
	pgregory.net/rapid v1.3.0
)
