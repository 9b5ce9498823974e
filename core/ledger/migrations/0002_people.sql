-- What people do and keep: decisions, tokens, documents, the audit log; and output.
CREATE TABLE decisions (
  run      BIGINT NOT NULL,
  wave     BIGINT NOT NULL,           -- from 0; -1 is the run as a whole
  content  BIGINT NOT NULL,           -- runs.content when it was decided
  who      {text} NOT NULL,
  approved BIGINT NOT NULL,           -- 1, or 0 for a refusal
  comment  {text} NOT NULL,
  at       BIGINT NOT NULL,
  PRIMARY KEY (run, wave, content, who)
);

CREATE TABLE tokens (
  id          {text} PRIMARY KEY,
  hash        {bytes} NOT NULL UNIQUE, -- SHA-256 of the secret
  name        {text} NOT NULL,
  tenant      {text} NOT NULL,
  all_tenants BIGINT NOT NULL,
  roles       {text} NOT NULL,         -- JSON array
  created     BIGINT NOT NULL,
  created_by  {text} NOT NULL,
  expires     BIGINT NOT NULL,
  revoked     BIGINT NOT NULL DEFAULT 0,
  used        BIGINT NOT NULL DEFAULT 0
);

-- Documents keep their row when they are deleted, so that a version never comes again.
CREATE TABLE documents (
  kind     {text} NOT NULL,
  tenant   {text} NOT NULL,
  name     {text} NOT NULL,
  version  BIGINT NOT NULL,
  deleted  BIGINT NOT NULL DEFAULT 0,
  revision {text} NOT NULL,
  who      {text} NOT NULL,
  updated  BIGINT NOT NULL,
  data     {bytes},
  PRIMARY KEY (kind, tenant, name)
);

CREATE TABLE outputs (
  run      BIGINT NOT NULL,
  idx      BIGINT NOT NULL,
  name     {text} NOT NULL,
  size     BIGINT NOT NULL,
  written  BIGINT NOT NULL,
  data     {bytes},                   -- what is small
  object   {text} NOT NULL,           -- the bucket's key of what is large, or ''
  PRIMARY KEY (run, idx, name)
);

-- Each entry's hash covers the one before, so that a change breaks the chain. 0003 guards the rows.
CREATE TABLE audit (
  seq     BIGINT PRIMARY KEY,
  at      BIGINT NOT NULL,
  who     {text} NOT NULL,
  tenant  {text} NOT NULL,
  action  {text} NOT NULL,
  kind    {text} NOT NULL,
  subject {text} NOT NULL,
  before  {text} NOT NULL,            -- JSON, or ''
  after   {text} NOT NULL,
  hash    {bytes} NOT NULL
);
CREATE INDEX audit_subject ON audit (kind, subject, seq);
CREATE INDEX audit_tenant ON audit (tenant, seq);
CREATE TABLE audit_head (
  one  BIGINT PRIMARY KEY CHECK (one = 1),
  seq  BIGINT NOT NULL,
  hash {bytes} NOT NULL
);
