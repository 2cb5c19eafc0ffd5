-- Projects, keys, toolboxes with their immutable versions, the promotion history and sealed values.

CREATE TABLE projects (
  name TEXT PRIMARY KEY,
  created_at BIGINT NOT NULL
);

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  role INTEGER NOT NULL,
  label TEXT NOT NULL,
  may_act_for_users INTEGER NOT NULL,
  secret_hash BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT
);

-- One row per toolbox name ever used, kept after deletion: version numbers and epochs are never reused.
CREATE TABLE toolbox_counters (
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  last_version INTEGER NOT NULL,
  epoch BIGINT NOT NULL,
  PRIMARY KEY (project, name)
);

CREATE TABLE toolboxes (
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  id TEXT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  default_version INTEGER NOT NULL,
  PRIMARY KEY (project, name)
);

CREATE TABLE toolbox_versions (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  number INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  digest TEXT NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (project, toolbox, number),
  FOREIGN KEY (project, toolbox) REFERENCES toolboxes (project, name) ON DELETE CASCADE
);

CREATE TABLE promotions (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  at BIGINT NOT NULL,
  by TEXT NOT NULL,
  from_version INTEGER,
  to_version INTEGER NOT NULL,
  PRIMARY KEY (project, toolbox, sequence),
  FOREIGN KEY (project, toolbox) REFERENCES toolboxes (project, name) ON DELETE CASCADE
);

-- Secrets, sealed. `owner` names the toolbox (or connection), `place` the entry and field the value belongs to.
CREATE TABLE sealed_values (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  owner TEXT NOT NULL,
  place TEXT NOT NULL,
  key_id TEXT NOT NULL,
  box BLOB NOT NULL
);

CREATE INDEX sealed_values_by_owner ON sealed_values (project, owner);

-- Small facts about the database itself, such as the fingerprint of the key its secrets are sealed with.
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

INSERT INTO projects (name, created_at) VALUES ('default', 0);
