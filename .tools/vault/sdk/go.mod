module github.com/hashicorp/vault/sdk

go 1.26.0

require github.com/hashicorp/vault v1.1.2
